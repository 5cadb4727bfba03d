"""Rows of a play, in the schemas of a stored run, so that the same checker judges both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from clusters.candidates.reference.core.records import Batch, LeaderChange, record_checksum
from clusters.candidates.reference.script.disk import SimulatedDisk
from clusters.evidence.identity import node_name
from clusters.evidence.schema import TABLES
from clusters.wire.metadata_topic import PARTITION_NAME
from workloads.history.manifest import Manifest
from workloads.history.operation import FaultRow, Operation
from workloads.history.schema import FAULTS, OPERATIONS


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a play leaves behind: a manifest, and every table that a stored run has."""

    manifest: Manifest
    tables: dict[str, pa.Table]
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class Recorder:
    """Collects rows as plain dictionaries; ``run_id`` is added at the end."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    _last_ns: int = -1

    def now_ns(self, now_ms: int) -> int:
        """Virtual nanoseconds: every call gives a later one, so that what happened first also reads so."""
        self._last_ns = max(self._last_ns + 1, now_ms * 1_000_000)
        return self._last_ns

    def add(self, table: str, **row: Any) -> None:
        """Add a row."""
        self.rows[table].append(row)

    def collect_disk(
        self,
        node: str,
        disk: SimulatedDisk,
        incarnation: int,
        collection: int,
        *,
        ts_ns: int,
        high_watermark: int | None,
    ) -> None:
        """Copy what a disk holds, as a collector does at each kill and at the end. ``high_watermark`` is what the node
        itself last said, None where it said nothing."""
        state = disk.quorum_state
        voted_for = state.voted_for if state else None
        self.add(
            "quorum_states",
            node=node,
            directory_id=disk.directory_id,
            incarnation=incarnation,
            collection=collection,
            ts_ns=ts_ns,
            epoch=state.epoch if state else None,
            voted_for=voted_for.node if voted_for else None,
            voted_for_directory_id=voted_for.directory_id if voted_for else None,
            leader=node_name(state.leader_id) if state and state.leader_id is not None else None,
            log_start=0,
            log_end=disk.batches[-1].end_offset if disk.batches else 0,
            log_epoch=disk.batches[-1].epoch if disk.batches else 0,
        )
        for row in _log_rows(disk.batches):
            below = None if high_watermark is None else row["offset"] < high_watermark
            self.add(
                "log_entries",
                node=node,
                directory_id=disk.directory_id,
                collection=collection,
                final=False,
                partition=PARTITION_NAME,
                below_high_watermark=below,
                **row,
            )

    def tables(self, run_id: str, operations: Iterable[Operation], faults: Iterable[FaultRow]) -> dict[str, pa.Table]:
        """Every table of a stored run. The last collection of each node becomes its final one."""
        last: dict[str, int] = {}
        for row in self.rows["quorum_states"]:
            last[row["node"]] = max(row["collection"], last.get(row["node"], 0))
        for row in self.rows["log_entries"]:
            row["final"] = row["collection"] == last[row["node"]]
        made = {name: _table(run_id, rows, TABLES[name]) for name, rows in self.rows.items()}
        made["operations"] = _table(run_id, [_plain(operation) for operation in operations], OPERATIONS)
        made["faults"] = _table(run_id, [_plain(fault) for fault in faults], FAULTS)
        return made


def _log_rows(batches: Iterable[Batch]) -> Iterable[dict[str, Any]]:
    for batch in batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            row: dict[str, Any] = {"offset": offset, "epoch": batch.epoch, "kind": batch.kind}
            row["checksum"] = record_checksum(record)
            if isinstance(record, LeaderChange):
                row |= {"leader": node_name(record.leader_id), "voters": list(record.voters)}
            else:
                row |= {"f": record.f, "key": record.key, "value": record.value}
            yield row


def _plain(row: Operation | FaultRow) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(row).items()}


def _table(run_id: str, rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    full = [dict.fromkeys(schema.names) | row | {"run_id": run_id} for row in rows]
    return pa.Table.from_pylist(full, schema=schema)
