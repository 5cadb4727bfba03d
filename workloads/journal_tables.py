"""A journal read back: its records merged into tables with the schemas of the store.

The journal of a run that was killed reads like any other: operations without an end are ``info``. Batches become Arrow arrays one
at a time, so that a million operations take little more memory than their table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workloads.history.operation import Consistency, Phase, Status
from workloads.history.schema import OPERATIONS
from workloads.journal import CLOSED, COMPLETED, INVOKED, ROW, TABLES, check_row
from workloads.journal_frames import Found, read_frames
from workloads.problem import Problem

NEVER_COMPLETED = "never completed"
"""``error`` of an operation whose end is not in the journal"""

_INT64S = pa.list_(pa.int64())
_INVOKED = pa.schema(
    [
        pa.field("op_id", pa.int64()),
        pa.field("process", pa.int32()),
        pa.field("asked", pa.string()),
        pa.field("pinned", pa.bool_()),
        pa.field("f", pa.string()),
        pa.field("key", pa.int64()),
        pa.field("input", _INT64S),
        pa.field("invoked_ns", pa.int64()),
        pa.field("consistency", pa.string()),
        pa.field("phase", pa.string()),
    ]
)
_COMPLETED = pa.schema(
    [
        pa.field("op_id", pa.int64()),
        pa.field("status", pa.string()),
        pa.field("output", _INT64S),
        pa.field("error", pa.string()),
        pa.field("completed_ns", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("epoch", pa.int32()),
        pa.field("answered", pa.string()),
    ]
)
_OPEN: tuple[Any, ...] = (-1, Status.INFO.value, [], NEVER_COMPLETED, None, None, None, None)
"""the completion of operations that have none"""
_WORDS = {
    "status": frozenset(Status),
    "consistency": frozenset(Consistency),
    "phase": frozenset(Phase),
}


@dataclass(frozen=True, slots=True)
class JournalContents:
    """All that a journal holds."""

    run_id: str
    tables: dict[str, pa.Table]
    """``operations`` and every name of :data:`workloads.journal.TABLES`"""
    torn_bytes: int
    """dropped from the tail; what was appended last may be missing"""
    closed: bool
    """whether the writer came to its end"""


def journal_tables(directory: Path) -> dict[str, pa.Table]:
    """Read the tables of the journal in ``directory``; see :func:`read_journal`."""
    return read_journal(directory).tables


def read_journal(directory: Path) -> JournalContents:
    """Read a journal, complete or cut off.

    Raises :class:`Problem` ``history-missing``, ``history-torn`` or ``history-foreign``; nothing is ever misread.
    """
    found = Found()
    decode = msgspec.msgpack.Decoder().decode
    invoked: list[pa.RecordBatch] = []
    completed: list[pa.RecordBatch] = []
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    closed = False
    for frame in read_frames(directory, found):
        try:
            records = decode(frame.payload)
            _split(records, invoked, completed, rows)
            closed = records[-1][0] == CLOSED
        except (ValueError, TypeError, IndexError, KeyError, pa.ArrowException, msgspec.DecodeError) as error:
            raise _foreign(directory, f"frame {frame.number}: {error}") from error
    tables = {"operations": _merge(directory, found.run_id, invoked, completed)}
    for name, found_rows in rows.items():
        tables[name] = _table(name, found.run_id, found_rows)
    return JournalContents(found.run_id, tables, found.torn_bytes, closed)


def _split(
    records: Sequence[Sequence[Any]],
    invoked: list[pa.RecordBatch],
    completed: list[pa.RecordBatch],
    rows: dict[str, list[dict[str, Any]]],
) -> None:
    """Sort one batch of records by kind."""
    calls = []
    ends = []
    for record in records:
        kind = record[0]
        if kind == INVOKED:
            calls.append(record[1:])
        elif kind == COMPLETED:
            ends.append(record[1:])
        elif kind == ROW:
            check_row(record[1], record[2])
            rows[record[1]].append(record[2])
        elif kind != CLOSED:
            raise ValueError(f"a record of kind {kind!r}")
    if calls:
        invoked.append(_columns(calls, _INVOKED))
    if ends:
        completed.append(_columns(ends, _COMPLETED))


def _columns(records: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*records, strict=True))
    if len(columns) != len(schema):
        raise ValueError(f"a record with {len(columns)} values where {len(schema)} belong")
    for field, column in zip(schema, columns, strict=True):
        words = _WORDS.get(field.name)
        if words is not None and not words.issuperset(column):
            raise ValueError(f"{field.name} is one of {', '.join(sorted(words))}")
    return pa.record_batch(
        [pa.array(column, field.type) for field, column in zip(schema, columns, strict=True)], schema=schema
    )


def _merge(directory: Path, run_id: str, invoked: list[pa.RecordBatch], completed: list[pa.RecordBatch]) -> pa.Table:
    """Join each invocation with its completion, in order of op_id."""
    calls = pa.Table.from_batches(invoked, _INVOKED)
    ends = pa.Table.from_batches([*completed, _columns([_OPEN], _COMPLETED)], _COMPLETED)
    op_ids = calls["op_id"].to_numpy()
    order = np.argsort(op_ids, kind="stable")
    op_ids = op_ids[order]
    if np.any(op_ids[1:] == op_ids[:-1]):
        raise _foreign(directory, "an operation was invoked twice")
    end_ids = ends["op_id"].to_numpy()[:-1]
    at = np.searchsorted(op_ids, end_ids)
    if np.any(at == len(op_ids)) or np.any(op_ids[at] != end_ids):
        raise _foreign(directory, "an operation completed that was never invoked")
    which = np.full(len(op_ids), len(end_ids), dtype=np.int64)
    which[at] = np.arange(len(end_ids))
    if len(np.unique(at)) != len(at):
        raise _foreign(directory, "an operation completed twice")
    if not np.array_equal(order, np.arange(len(order))):
        calls = calls.take(order)
    ends = ends.take(which)
    client_node = pc.coalesce(ends["answered"], calls["asked"])
    columns = {
        "run_id": _repeat(run_id, len(op_ids)),
        "client_node": client_node,
        **{name: calls[name] for name in _INVOKED.names if name != "asked"},
        **{name: ends[name] for name in _COMPLETED.names if name not in ("op_id", "answered")},
    }
    return pa.table([columns[name] for name in OPERATIONS.names], schema=OPERATIONS)


def _table(name: str, run_id: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Make the table of row records; of a fault only the last record counts."""
    if name == "faults":
        rows = list({row["fault_id"]: row for row in rows}.values())
    return pa.Table.from_pylist([{**row, "run_id": run_id} for row in rows], schema=TABLES[name])


def _repeat(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _foreign(directory: Path, why: str) -> Problem:
    return Problem(
        "history-foreign",
        f"The journal in {directory} is whole and makes no sense: {why}.",
        "It was not written by this release; check it with the release that wrote it.",
    )
