"""Hand-written runs: rows in one line each, written as a run's folder.

``Story`` starts as a small healthy cluster of three voters with nothing in it; each method adds a row and returns it, with
columns by name. Node events get their sequence numbers in the order of the calls.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from checker.tables import SCHEMAS
from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry, PhaseEntry, Timers, encode_manifest

SECOND = 1_000_000_000
PROMISES = ("check-quorum", "pre-vote", "directory-identity", "linearizable-operations", "node-trace")
Row = dict[str, Any]


def disk_of(node: str) -> str:
    """The directory id of a node's first disk."""
    return f"{node}-disk-AAAAAAAAAAAAAAA"


def manifest(run_id: str = "story/1", voters: int = 3, **changes: Any) -> Manifest:
    """The manifest of a finished run; phases at whole seconds: load 0–20, heal 20–21, recovery 21–22, final 22–24."""
    names = ("load", "heal", "recovery", "final")
    bounds = ((0, 20), (20, 21), (21, 22), (22, 24))
    base = Manifest(
        run_id=run_id,
        scenario="story",
        scenario_title="A story",
        seed=1,
        argv=("nemesis", "run", "story"),
        started_at="2026-01-01T00:00:00Z",
        started_monotonic_ns=0,
        tool_version="0",
        backend="local",
        candidate=CandidateEntry(
            name="reference", version="1", quorum="dynamic", promises=PROMISES, evidence=(), generation="kip-996"
        ),
        nodes=tuple(
            NodeEntry(name=f"n{i}", node_id=i, role="voter", address="10.0.0.1", port=9000 + i, host="local")
            for i in range(1, voters + 1)
        ),
        timers=Timers(election_timeout_ms=500, fetch_timeout_ms=1000, check_quorum_ms=1500, request_timeout_ms=1000),
        workload="register",
        rate=100.0,
        concurrency=4,
        duration_s=20.0,
        phases=tuple(
            PhaseEntry(name=name, started_ns=begin * SECOND, ended_ns=end * SECOND)
            for name, (begin, end) in zip(names, bounds, strict=True)
        ),
        finished=True,
    )
    return msgspec.structs.replace(base, **changes)


@dataclass
class Story:
    """Rows of one run, to be written as its folder."""

    manifest: Manifest = field(default_factory=manifest)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})
    absent: set[str] = field(default_factory=set)
    counter: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def promise(self, *promises: str, generation: str | None = None) -> Story:
        """Change what the candidate promises."""
        candidate = msgspec.structs.replace(
            self.manifest.candidate, promises=promises, generation=generation or self.manifest.candidate.generation
        )
        self.manifest = msgspec.structs.replace(self.manifest, candidate=candidate)
        return self

    def without(self, *tables: str) -> Story:
        """Leave tables out."""
        self.absent.update(tables)
        return self

    def event(self, node: str, kind: str, **columns: Any) -> Row:
        """One row of node_events."""
        row = {
            "node": node,
            "directory_id": disk_of(node),
            "incarnation": 1,
            "seq": next(self.counter),
            "kind": kind,
            **columns,
        }
        return self._add("node_events", row)

    def state(self, node: str, state: str, epoch: int, **columns: Any) -> Row:
        """A transition."""
        return self.event(node, "state", state=state, epoch=epoch, **columns)

    def record(self, node: str, offset: int, epoch: int, **columns: Any) -> Row:
        """One record on a final copy of a disk; its checksum is 1000 × epoch + offset."""
        row = {
            "node": node,
            "directory_id": disk_of(node),
            "collection": 0,
            "final": True,
            "partition": "log",
            "offset": offset,
            "epoch": epoch,
            "kind": "data",
            "checksum": 1000 * epoch + offset,
            **columns,
        }
        return self._add("log_entries", row)

    def log(self, node: str, *epochs: tuple[int, int, int], **columns: Any) -> None:
        """A log: (epoch, first offset, last offset) each, beginning with its LeaderChange record."""
        for epoch, first, last in epochs:
            self.record(node, first, epoch, kind="leader_change", **columns)
            for offset in range(first + 1, last + 1):
                self.record(node, offset, epoch, **columns)

    def stored(self, node: str, epoch: int | None, **columns: Any) -> Row:
        """A stored quorum state, copied after incarnation 1 ended at 24 s."""
        row = {
            "node": node,
            "directory_id": disk_of(node),
            "incarnation": 1,
            "collection": 0,
            "ts_ns": 24 * SECOND,
            "epoch": epoch,
            **columns,
        }
        return self._add("quorum_states", row)

    def sample(self, node: str, at_s: float, epoch: int, high_watermark: int | None = None, **columns: Any) -> Row:
        """An answer as the leader, asked for 10 ms before it came."""
        ts_ns = round(at_s * SECOND)
        row = {
            "node": node,
            "asked_ns": ts_ns - SECOND // 100,
            "ts_ns": ts_ns,
            "claims_leadership": True,
            "leader": node,
            "epoch": epoch,
            "high_watermark": high_watermark,
            **columns,
        }
        return self._add("quorum_samples", row)

    def life(self, node: str, kind: str, at_s: float, **columns: Any) -> Row:
        """One row of lifecycle."""
        row = {
            "node": node,
            "directory_id": disk_of(node),
            "assigned": False,
            "incarnation": 1,
            "kind": kind,
            "ts_ns": round(at_s * SECOND),
            **columns,
        }
        return self._add("lifecycle", row)

    def said(self, src: str, dst: str, api: str, kind: str, at_s: float, **columns: Any) -> Row:
        """One row of rpcs: a message that was delivered at once, on the one connection between the two."""
        asks = kind == "request"
        row = {
            "connection": f"{src}-{dst}#1" if asks else f"{dst}-{src}#1",
            "correlation_id": len(self.rows["rpcs"]),
            "ts_ns": round(at_s * SECOND),
            "delivered_ns": round(at_s * SECOND),
            "src": src,
            "dst": dst,
            "api": api,
            "kind": kind,
            "fate": "delivered",
            "size_bytes": 100,
            "version": {"Vote": 2, "Fetch": 17}.get(api, 1),
            "is_news": True,
            **columns,
        }
        return self._add("rpcs", row)

    def operation(self, f: str, *input_: int, output: tuple[int, ...] = (), **columns: Any) -> Row:
        """One operation; ok, at node n1, during 1–2 s of the load, unless told otherwise."""
        row = {
            "op_id": len(self.rows["operations"]),
            "process": 0,
            "client_node": "n1",
            "pinned": False,
            "f": f,
            "input": list(input_),
            "output": list(output),
            "status": "ok",
            "invoked_ns": SECOND,
            "completed_ns": 2 * SECOND,
            "consistency": "linearizable",
            "phase": "load",
            **columns,
        }
        return self._add("operations", row)

    def fault(self, started_s: float, ended_s: float, **columns: Any) -> Row:
        """One verified fault."""
        row = {
            "fault_id": len(self.rows["faults"]),
            "fault": "isolate-leader",
            "targets": [],
            "links": [],
            "planned_ns": round(started_s * SECOND),
            "started_ns": round(started_s * SECOND),
            "ended_ns": round(ended_s * SECOND),
            "verified": True,
            "isolated": [],
            "replaced": False,
            "detail": "",
            **columns,
        }
        return self._add("faults", row)

    def cut(self, node: str, started_s: float, ended_s: float, **columns: Any) -> Row:
        """A verified cut of one node from all other voters, both ways."""
        others = [other.name for other in self.manifest.nodes if other.name != node]
        links = [link for other in others for link in (f"{node}>{other}", f"{other}>{node}")]
        return self.fault(started_s, ended_s, targets=[node], links=links, isolated=[node], **columns)

    def write(self, store: Path) -> Path:
        """Write the run's folder below ``store``."""
        run = store / self.manifest.run_id
        (run / "tables").mkdir(parents=True)
        (run / "run.json").write_bytes(encode_manifest(self.manifest))
        for name, schema in SCHEMAS.items():
            if name not in self.absent:
                rows = [{"run_id": self.manifest.run_id, **row} for row in self.rows[name]]
                pq.write_table(pa.Table.from_pylist(rows, schema), run / "tables" / f"{name}.parquet")
        return run

    def _add(self, table: str, row: Row) -> Row:
        unknown = set(row) - set(SCHEMAS[table].names)
        if unknown:
            raise KeyError(f"{table} has no columns {sorted(unknown)}")
        self.rows[table].append(row)
        return row
