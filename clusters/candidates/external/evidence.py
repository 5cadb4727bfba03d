"""What nodes of a described program left behind → tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from clusters.candidates.external.description import Description
from clusters.candidates.external.output_rules import OutputReader
from clusters.candidates.kafka.evidence import decode_record as decode_metadata_record
from clusters.collect.disk import DiskPlaces, collect_disk
from clusters.collect.log_segments import Decode
from clusters.collect.outputs import disks
from clusters.collect.trace import collect_traces
from clusters.wire.reference_records import decode_command
from workloads.history.manifest import Manifest


def read_evidence(description: Description, manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
    """Read a stored run: the tables that the description offers, and of the others what tells of damage.

    Raises Problem for files that are damaged or foreign.
    """
    layout = description.layout
    places = DiskPlaces(layout.meta_properties, layout.log, layout.quorum_state, layout.snapshots)
    reader = OutputReader(description.output) if description.output is not None else None
    for node in manifest.nodes:
        yield from collect_disk(run, manifest, node.name, _DECODERS[description.protocol], places).items()
        if description.trace:
            yield "node_events", collect_traces(run, manifest, node.name)
        if reader is not None:
            yield "node_events", reader.table(run, manifest, node.name, disks(run, node, layout.meta_properties))


def _decode_reference(key: bytes | None, value: bytes | None) -> tuple[str, int | None, int | None]:
    del key
    command = decode_command(value)
    return command.f, command.key, command.value


_DECODERS: dict[str, Decode] = {"kafka": decode_metadata_record, "reference": _decode_reference}
"""what a data record of the log holds: what clients of the protocol write"""
