"""What a run of Apache Kafka left behind: disks as they were collected, and what the controllers logged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from clusters.candidates.kafka.node_log import collect_outputs
from clusters.collect.disk import collect_disk
from clusters.collect.log_segments import Decode
from clusters.collect.outputs import disks
from clusters.wire.metadata_records import effect
from clusters.wire.problems import WireError
from workloads.history.manifest import Manifest


def decode_record(key: bytes | None, value: bytes | None) -> tuple[str, int | None, int | None] | None:
    """What operation wrote a metadata record: (f, key, value). Raises WireError for a record that is none of Kafka's metadata."""
    if key is not None or value is None:
        raise WireError("a metadata record has a key, or no value")
    done = effect(value)
    return None if done is None else (done.f, done.key, done.value)


def read_evidence(manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
    """Read a stored run: tables ``log_entries``, ``quorum_states``, ``snapshots`` and ``node_events``, node by node.

    Raises Problem for files that are damaged or foreign.
    """
    decode: Decode = decode_record
    for node in manifest.nodes:
        yield from collect_disk(run, manifest, node.name, decode).items()
        yield "node_events", collect_outputs(run, manifest, node.name, disks(run, node))
