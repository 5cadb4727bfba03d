"""Traces that nodes write themselves → rows of ``node_events``.

``nodes/<node>/trace/<incarnation>.jsonl``: the first line is a :class:`.trace_head.TraceHead`, each further line a row: ``seq``
(0, 1, … without gaps), ``ts_ns`` (absolute, of the node's CLOCK_MONOTONIC), ``kind`` and the columns of ``node_events`` that the kind
has. A kill may tear the last line: it is dropped. Anything else that cannot be read raises Problem.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from clusters.collect.trace_head import TRACE_VERSION, TraceHead
from clusters.evidence.schema import NODE_EVENTS
from workloads.history.manifest import Manifest
from workloads.problem import Problem

_COLUMNS = tuple(name for name in NODE_EVENTS.names if name not in {"run_id", "node", "directory_id", "incarnation"})


class _Row(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    seq: int
    ts_ns: int
    kind: str
    epoch: int | None = None
    offset: int | None = None
    end_offset: int | None = None
    leader: str | None = None
    voters: list[str] | None = None
    peer: str | None = None
    peer_directory_id: str | None = None
    state: str | None = None
    previous_state: str | None = None
    granted: bool | None = None
    pre_vote: bool | None = None
    voted_for: str | None = None
    entry_epoch: int | None = None
    log_end: int | None = None
    log_epoch: int | None = None
    high_watermark: int | None = None
    previous_high_watermark: int | None = None
    required_offset: int | None = None
    checksum: int | None = None
    digest: int | None = None
    detail: str | None = None


_HEAD = msgspec.json.Decoder(TraceHead)
_ROWS = msgspec.json.Decoder(_Row)


def collect_traces(run: Path, manifest: Manifest, node: str) -> pa.Table:
    """Read all traces of one node, in the order of incarnations. Raises Problem ``damaged-trace``."""
    found = sorted((run / "nodes" / node / "trace").glob("*.jsonl"), key=lambda path: (len(path.stem), path.stem))
    tables = [read_trace(path, manifest) for path in found]
    return pa.concat_tables(tables) if tables else NODE_EVENTS.empty_table()


def read_trace(path: Path, manifest: Manifest) -> pa.Table:
    """Read one file; empty when it was torn in its first line. Raises Problem ``damaged-trace``."""
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if not whole:
        return NODE_EVENTS.empty_table()
    first, _, rest = whole.partition(b"\n")
    try:
        head = _HEAD.decode(first)
        rows = _ROWS.decode_lines(rest)
    except msgspec.DecodeError as error:
        raise _damaged(path, str(error)) from error
    if head.trace_version != TRACE_VERSION:
        raise _damaged(path, f"it has the trace version {head.trace_version}")
    for expected, row in enumerate(rows):
        if row.seq != expected:
            raise _damaged(path, f"row {expected} has the sequence number {row.seq}")
    return _table(manifest, head, rows)


def _table(manifest: Manifest, head: TraceHead, rows: list[_Row]) -> pa.Table:
    count = len(rows)
    columns: dict[str, Any] = {
        "run_id": pa.repeat(manifest.run_id, count),
        "node": pa.repeat(head.node, count),
        "directory_id": pa.repeat(head.directory_id, count),
        "incarnation": pa.repeat(pa.scalar(head.incarnation, pa.int32()), count),
    }
    for name in _COLUMNS:
        columns[name] = pa.array([getattr(row, name) for row in rows], NODE_EVENTS.field(name).type)
    ahead_ns = next((node.clock_ahead_ns for node in manifest.nodes if node.name == head.node), 0)
    began_ns = manifest.started_monotonic_ns + ahead_ns
    columns["ts_ns"] = pa.array([row.ts_ns - began_ns for row in rows], pa.int64())
    return pa.table([columns[name] for name in NODE_EVENTS.names], schema=NODE_EVENTS)


def _damaged(path: Path, why: str) -> Problem:
    return Problem(
        "damaged-trace",
        f"{path} is no trace of this version: {why}.",
        "Only the last line of a trace may be torn; check that the run's files are whole.",
    )
