"""The copies of a node's disk in a stored run → rows of ``log_entries``, ``quorum_states`` and ``snapshots``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow as pa

from clusters.collect import meta_properties, quorum_state
from clusters.collect.collection import Collection, read_collections
from clusters.collect.log_segments import Decode, Log, LogColumns, read_log
from clusters.collect.quorum_state import StoredQuorumState
from clusters.collect.snapshots import StoredSnapshot, read_snapshots
from clusters.evidence.identity import node_name
from clusters.evidence.schema import LOG_ENTRIES, QUORUM_STATES, SNAPSHOTS
from clusters.wire.metadata_topic import PARTITION_NAME
from workloads.history.manifest import Manifest
from workloads.problem import Problem

_META_PROPERTIES = meta_properties.NAME
_QUORUM_STATE = f"{PARTITION_NAME}/{quorum_state.NAME}"


@dataclass(frozen=True, slots=True)
class DiskPlaces:
    """Where things lie on a disk, relative to it; empty for what a candidate does not have. The defaults are Kafka's."""

    meta_properties: str = _META_PROPERTIES
    log: str = PARTITION_NAME
    quorum_state: str = _QUORUM_STATE
    snapshots: str = PARTITION_NAME


KAFKA_PLACES = DiskPlaces()


def collect_disk(
    run: Path, manifest: Manifest, node: str, decode: Decode, places: DiskPlaces = KAFKA_PLACES
) -> dict[str, pa.Table]:
    """Read every collection of one node: table name → rows.

    The files lie in a collection as they lay in the data directory. The directory id of a row is the one on that disk, and the
    collection's where the release writes none. Where a candidate keeps no ``quorum-state``, there are rows of damage only. What
    cannot be read (a torn ``quorum-state``, a segment or snapshot that is damaged or foreign) becomes the ``problem`` of the copy's
    row in ``quorum_states``: of a damaged log no record counts as evidence, and no end either, since what lay behind the damage is
    not known.
    """
    try:
        collections = read_collections(run, node)
    except (msgspec.DecodeError, ValueError) as error:
        raise Problem(
            "damaged-collection",
            f"A collection.json of {node} in {run} cannot be read: {error}.",
            "Remove that collection, or restore it, and check the run again.",
        ) from error
    tables: dict[str, list[pa.Table]] = {"log_entries": [], "quorum_states": [], "snapshots": []}
    for collection, directory in collections:
        identity = _directory_id(collection, directory, places)
        log, damaged_log = _log(directory / places.log, decode) if places.log else (Log(LogColumns()), None)
        snapshots, damaged_snapshot = _snapshots(directory / places.snapshots) if places.snapshots else ([], None)
        stored = StoredQuorumState()
        if places.quorum_state:
            stored = quorum_state.read_quorum_state(directory / places.quorum_state)
        problem = "; ".join(filter(None, (stored.problem, damaged_log, damaged_snapshot))) or None
        tables["log_entries"].append(_log_table(manifest.run_id, identity, collection, log))
        if places.quorum_state or problem:
            tables["quorum_states"].append(
                _quorum_state_table(manifest.run_id, identity, collection, log, replace(stored, problem=problem))
            )
        tables["snapshots"].append(_snapshot_table(manifest.run_id, identity, collection, snapshots))
    schemas = {"log_entries": LOG_ENTRIES, "quorum_states": QUORUM_STATES, "snapshots": SNAPSHOTS}
    return {name: pa.concat_tables(parts) if parts else schemas[name].empty_table() for name, parts in tables.items()}


def _log(partition: Path, decode: Decode) -> tuple[Log, str | None]:
    try:
        return read_log(partition, decode), None
    except Problem as damage:
        return Log(LogColumns()), damage.what


def _snapshots(partition: Path) -> tuple[list[StoredSnapshot], str | None]:
    try:
        return read_snapshots(partition), None
    except Problem as damage:
        return [], damage.what


def _directory_id(collection: Collection, directory: Path, places: DiskPlaces) -> str | None:
    if not places.meta_properties:
        return collection.directory_id
    properties = meta_properties.read_meta_properties(directory / places.meta_properties)
    if properties is None or properties.directory_id is None:
        return collection.directory_id
    return properties.directory_id


def _log_table(run_id: str, directory_id: str | None, collection: Collection, log: Log) -> pa.Table:
    columns = log.columns
    count = len(columns.offset)
    arrays = {
        "run_id": pa.repeat(run_id, count),
        "node": pa.repeat(collection.node, count),
        "directory_id": pa.repeat(pa.scalar(directory_id, pa.string()), count),
        "collection": pa.repeat(pa.scalar(collection.number, pa.int32()), count),
        "final": pa.repeat(collection.final, count),
        "partition": pa.repeat(PARTITION_NAME, count),
        "offset": columns.offset,
        "epoch": columns.epoch,
        "kind": columns.kind,
        "checksum": columns.checksum,
        "f": columns.f,
        "key": columns.key,
        "value": columns.value,
        "leader": columns.leader,
        "voters": columns.voters,
        "below_high_watermark": pa.nulls(count, pa.bool_()),
    }
    return pa.table(
        [
            values if isinstance(values, pa.Array) else pa.array(values, LOG_ENTRIES.field(name).type)
            for name, values in arrays.items()
        ],
        schema=LOG_ENTRIES,
    )


def _quorum_state_table(
    run_id: str, directory_id: str | None, collection: Collection, log: Log, stored: StoredQuorumState
) -> pa.Table:
    row = {
        "run_id": run_id,
        "node": collection.node,
        "directory_id": directory_id,
        "incarnation": collection.incarnation,
        "collection": collection.number,
        "ts_ns": collection.ts_ns,
        "epoch": stored.epoch,
        "voted_for": None if stored.voted_for_id is None else node_name(stored.voted_for_id),
        "voted_for_directory_id": stored.voted_for_directory_id,
        "leader": None if stored.leader_id is None else node_name(stored.leader_id),
        "log_start": log.start,
        "log_end": log.end,
        "log_epoch": log.last_epoch,
        "problem": stored.problem,
    }
    return pa.Table.from_pylist([row], schema=QUORUM_STATES)


def _snapshot_table(
    run_id: str, directory_id: str | None, collection: Collection, snapshots: list[StoredSnapshot]
) -> pa.Table:
    rows = [
        {
            "run_id": run_id,
            "node": collection.node,
            "directory_id": directory_id,
            "collection": collection.number,
            "end_offset": each.end_offset,
            "epoch": each.epoch,
            "complete": each.complete,
            "digest": each.digest,
            "voters": None if each.voters is None else list(each.voters),
        }
        for each in snapshots
    ]
    return pa.Table.from_pylist(rows, schema=SNAPSHOTS)
