"""Which kernel judges which operations: rows of the table ``operations`` in, contradictions out. No I/O.

An *object* is what one linearizable history is about, and ``f`` tells which it is:

* a register per key: ``read``, ``write``, ``cas`` → :mod:`~checker.kernels.blocks`, and :mod:`~checker.kernels.search` where values
  are not unique;
* a log per key: ``append`` at offset k has position 2k + 1, ``poll`` that answered with high watermark h has 2h → floor
  (:mod:`~checker.kernels.floor`). A poll without a high watermark, or with so many records that the answer may have been cut off by size
  (its high watermark then only says where the next poll goes on), has at least the position of what it showed;
* a counter per key: ``add`` → :func:`~checker.kernels.floor.counter`, and the search where the deltas differ;
* the registrations of a run: ``register`` answers with the log offset of its record → floor. The same incarnation
  registered again keeps its epoch, so operations of one incarnation are one registration.

A million objects cost no more than one: all of one kind are judged by one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checker.kernels.blocks import FAIL, INFO, OK, READ, SWAP, WRITE, Blocks, Registers, judge
from checker.kernels.findings import (
    ABSENT,
    NEVER,
    NOTHING,
    Bools,
    Findings,
    Ints,
    findings,
    renumbered,
    together,
)
from checker.kernels.floor import Additions, Placed, below_floor, counter
from checker.kernels.search import Budget, Steps, add_step, register_step, search_all

COLUMNS = (
    "run_id",
    "op_id",
    "process",
    "client_node",
    "f",
    "key",
    "status",
    "error",
    "invoked_ns",
    "completed_ns",
    "asked",
    "asked_more",
    "answer",
    "shown",
    "offset",
)
"""What a judged table holds: ``asked`` and ``asked_more`` are the first two numbers of ``input``, ``answer`` the first of ``output``,
``shown`` the whole ``output`` of a poll (else null)."""


CUT_OFF_RECORDS = 1000
"""an answer to a poll with so many records may have been cut off by size"""

JUDGED_F = ("read", "write", "cas", "append", "poll", "add", "register")


def flatten(operations: pa.Table) -> pa.Table:
    """Bring rows of ``operations`` into :data:`COLUMNS`, without Spark."""
    polls = pc.equal(operations["f"], "poll")
    first, second = _elements(operations["input"], 2)
    columns = {name: operations[name] for name in COLUMNS if name in operations.column_names}
    columns |= {"asked": first, "asked_more": second, "answer": _elements(operations["output"], 1)[0]}
    columns["shown"] = pc.if_else(polls, operations["output"], pa.scalar(None, operations["output"].type))
    return pa.table([columns[name] for name in COLUMNS], list(COLUMNS))


def _elements(lists: pa.ChunkedArray, count: int) -> list[pa.ChunkedArray]:
    """The first elements of each list, null where it is shorter."""
    padded = pc.list_slice(lists, 0, count, return_fixed_size_list=True)
    return [pc.list_element(padded, number) for number in range(count)]


class Object(IntEnum):
    """Kinds of object."""

    REGISTER = 0
    LOG = 1
    COUNTER = 2
    REGISTRATIONS = 3


_OBJECT = {
    "read": Object.REGISTER,
    "write": Object.REGISTER,
    "cas": Object.REGISTER,
    "append": Object.LOG,
    "poll": Object.LOG,
    "add": Object.COUNTER,
    "register": Object.REGISTRATIONS,
}
_REGISTER_F = {"read": READ, "write": WRITE, "cas": SWAP}
_STATUS = {"ok": OK, "fail": FAIL, "info": INFO}


class History(NamedTuple):
    """Rows of ``operations`` as arrays. ``segment`` numbers the objects from 0."""

    table: pa.Table
    segment: Ints
    kind: Ints
    """:class:`Object` of each row"""
    f: Ints
    """row number in ``f_names``"""
    f_names: tuple[str, ...]
    status: Ints
    invoked: Ints
    completed: Ints
    asked: Ints
    asked_more: Ints
    answer: Ints
    offset: Ints
    initial: Ints
    """per segment"""

    def is_f(self, name: str) -> Bools:
        """Rows of one function."""
        number = self.f_names.index(name) if name in self.f_names else ABSENT
        return np.equal(self.f, number)


class Judged(NamedTuple):
    """Contradictions in a history, and what explains them."""

    found: Findings
    blocks: Blocks
    exercised: Ints
    """rows whose answer could have been too old: a change of the same object had been acknowledged before they began"""
    possible: Mapping[int, tuple[int, ...]]
    """per row that no order explains: the numbers that were possible when it had to take effect"""


def ints_of(column: pa.ChunkedArray, missing: int) -> Ints:
    """A column as int64, with a number in the place of null; writable, so that each kernel is compiled for one kind of array."""
    filled = pc.fill_null(column.cast(pa.int64()), missing)
    return np.require(filled.to_numpy(), requirements=["C", "W"])


def codes_of(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """A column of words as numbers, and the words."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = np.ascontiguousarray(encoded.indices.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return codes, encoded.dictionary.to_pylist()


def history_of(table: pa.Table, initial_values: Mapping[str, Mapping[str, int]]) -> History:
    """Make arrays of a table with :data:`COLUMNS`. ``initial_values`` holds, per run, key as text (``counter``: of a counter) → value."""
    runs, run_names = codes_of(table["run_id"])
    f, f_names = codes_of(table["f"])
    status, status_names = codes_of(table["status"])
    kind = np.array([_OBJECT[name] for name in f_names], dtype=np.int64)[f]
    key = ints_of(table["key"], ABSENT)
    key[kind == Object.REGISTRATIONS] = ABSENT
    segment, firsts = _number_objects(runs, kind, key)
    status = np.array([_STATUS[name] for name in status_names], dtype=np.int64)[status]
    initial = np.full(len(firsts), NOTHING, dtype=np.int64)
    if any(initial_values.values()):
        for number, row in enumerate(firsts):
            values = initial_values.get(run_names[runs[row]], {})
            is_counter = kind[row] == Object.COUNTER
            initial[number] = values.get(str(key[row]), values.get("counter", NOTHING) if is_counter else NOTHING)
    completed = ints_of(table["completed_ns"], NEVER)
    completed[status == INFO] = NEVER
    return History(
        table=table,
        segment=segment,
        kind=kind,
        f=f,
        f_names=tuple(f_names),
        status=status,
        invoked=ints_of(table["invoked_ns"], 0),
        completed=completed,
        asked=ints_of(table["asked"], NOTHING),
        asked_more=ints_of(table["asked_more"], NOTHING),
        answer=ints_of(table["answer"], NOTHING),
        offset=ints_of(table["offset"], NOTHING),
        initial=initial,
    )


def _number_objects(runs: Ints, kind: Ints, key: Ints) -> tuple[Ints, Ints]:
    """Number the distinct (run, kind, key); also one row of each."""
    order = np.lexsort((key, kind, runs))
    changed = np.ones(len(order), dtype=np.bool_)
    changed[1:] = (np.diff(runs[order]) != 0) | (np.diff(kind[order]) != 0) | (np.diff(key[order]) != 0)
    segment = np.empty(len(order), dtype=np.int64)
    segment[order] = np.cumsum(changed) - 1
    return segment, order[changed]


def judge_history(history: History, budget: Budget) -> Judged:
    """Find every contradiction; at an object where the budget ran out, one finding of kind OVERFLOW."""
    registers, blocks, unfit_registers = _judge_registers(history)
    counters, unfit_counters = _judge_counters(history)
    unfit = np.concatenate((unfit_registers, unfit_counters))
    searched, possible = _search(history, unfit, budget)
    parts = [registers, counters, _judge_logs(history), _judge_registrations(history), searched]
    return Judged(together(parts), blocks, _exercised(history), possible)


def _judge_registers(history: History) -> tuple[Findings, Blocks, Ints]:
    rows = np.flatnonzero(history.kind == Object.REGISTER)
    reads = history.is_f("read")[rows]
    f = np.array([_REGISTER_F.get(name, ABSENT) for name in history.f_names], dtype=np.int64)[history.f[rows]]
    swaps = f == SWAP
    judged = Registers(
        segment=history.segment[rows],
        invoked=history.invoked[rows],
        completed=history.completed[rows],
        f=f,
        status=history.status[rows],
        seen=np.where(reads, history.answer[rows], np.where(swaps, history.asked[rows], NOTHING)),
        new=np.where(reads, NOTHING, np.where(swaps, history.asked_more[rows], history.asked[rows])),
        initial=history.initial,
    )
    found, unfit, blocks = judge(judged)
    whole = np.full((4, len(history.f)), ABSENT, dtype=np.int64)
    for number, column in enumerate((blocks.seen_value, blocks.new_value, blocks.block, blocks.position)):
        whole[number, rows] = column
    writer = np.where(blocks.writer >= 0, rows[np.maximum(blocks.writer, 0)] if len(rows) else ABSENT, blocks.writer)
    return renumbered(found, rows), Blocks(writer, whole[0], whole[1], whole[2], whole[3]), unfit


def _judge_counters(history: History) -> tuple[Findings, Ints]:
    rows = np.flatnonzero((history.kind == Object.COUNTER) & (history.status != FAIL))
    found, unfit = counter(
        Additions(
            segment=history.segment[rows],
            invoked=history.invoked[rows],
            completed=history.completed[rows],
            start=np.where(history.status[rows] == OK, history.answer[rows], NOTHING),
            delta=history.asked[rows],
            initial=history.initial,
        )
    )
    return renumbered(found, rows), unfit


def _judge_logs(history: History) -> Findings:
    """Appends and polls by position; appends of unknown outcome count where a poll showed their value."""
    ok = history.status == OK
    polls = history.is_f("poll") & ok
    appends = history.is_f("append") & ok & (history.offset != NOTHING)
    owner, offsets, values = shown_records(history, np.flatnonzero(polls))
    shown_end = np.zeros(len(ok), dtype=np.int64)
    np.maximum.at(shown_end, owner, offsets + 1)
    position = np.full(len(ok), NOTHING, dtype=np.int64)
    position[appends] = 2 * history.offset[appends] + 1
    told = polls & (history.offset != NOTHING)
    told[
        owner[CUT_OFF_RECORDS - 1 :][owner[CUT_OFF_RECORDS - 1 :] == owner[: max(len(owner) - CUT_OFF_RECORDS + 1, 0)]]
    ] = False
    position[polls] = 2 * shown_end[polls]
    position[told] = np.maximum(2 * history.offset[told], position[told])
    unknown = np.flatnonzero(history.is_f("append") & (history.status == INFO))
    position[unknown] = _seen_positions(history, unknown, owner, offsets, values)
    rows = np.flatnonzero(position != NOTHING)
    found = below_floor(
        Placed(history.segment[rows], history.invoked[rows], history.completed[rows], position[rows]),
        (polls & ~told)[rows],
    )
    return renumbered(found, rows)


def shown_records(history: History, polls: Ints) -> tuple[Ints, Ints, Ints]:
    """All records that these polls showed: the poll's row, the offset, the value."""
    shown = history.table["shown"].take(pa.array(polls)).combine_chunks()
    if isinstance(shown, pa.ChunkedArray):
        shown = pa.concat_arrays(shown.chunks) if shown.num_chunks else pa.array([], pa.list_(pa.int64()))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(shown), 0)).astype(np.int64) // 2
    flat = np.asarray(pc.list_flatten(shown)).astype(np.int64)
    return np.repeat(polls, lengths), flat[0::2], flat[1::2]


def _seen_positions(history: History, unknown: Ints, owner: Ints, offsets: Ints, values: Ints) -> Ints:
    """Positions of unknown appends whose value a poll of the same log showed; NOTHING for the others."""
    position = np.full(len(unknown), NOTHING, dtype=np.int64)
    if len(unknown) == 0 or len(owner) == 0:
        return position
    order = np.lexsort((history.asked[unknown], history.segment[unknown]))
    segments, asked = history.segment[unknown][order], history.asked[unknown][order]
    wanted = np.isin(values, asked)
    for segment, value, offset in zip(
        history.segment[owner][wanted], values[wanted], offsets[wanted], strict=True
    ):  # few: only values whose append is unknown
        first, last = np.searchsorted(segments, [segment, segment + 1])
        place = first + np.searchsorted(asked[first:last], value)
        if place < last and asked[place] == value:
            position[order[place]] = 2 * offset + 1
    return position


def _judge_registrations(history: History) -> Findings:
    """Registrations by epoch; those of one (broker, incarnation) begin with the first and end with the first that ended."""
    rows = np.flatnonzero((history.kind == Object.REGISTRATIONS) & (history.status != FAIL))
    if len(rows) == 0:
        return together([])
    broker = ints_of(history.table["key"], ABSENT)[rows]
    segment, incarnation = history.segment[rows], history.asked[rows]
    order = np.lexsort((history.invoked[rows], incarnation, broker, segment))
    changed = np.ones(len(order), dtype=np.bool_)
    for column in (segment, broker, incarnation):
        changed[1:] &= column[order[1:]] == column[order[:-1]]
    changed[1:] = ~changed[1:]
    starts = np.flatnonzero(changed)
    epoch = np.where(history.status[rows] == OK, history.answer[rows], NOTHING)[order]
    found = below_floor(
        Placed(
            segment[order][starts],
            history.invoked[rows][order][starts],
            np.minimum.reduceat(history.completed[rows][order], starts),
            np.maximum.reduceat(epoch, starts),
        )
    )
    return renumbered(found, rows[order][starts])


class Sought(NamedTuple):
    """One object's operations as the search takes them; ``rows`` are their row numbers, failed ones left out."""

    rows: Ints
    steps: Steps
    invoked: Ints
    completed: Ints
    initial: int


def sought(history: History, segment: int) -> Sought:
    """Bring one object's operations into the form of :mod:`~checker.kernels.search`."""
    rows = np.flatnonzero((history.segment == segment) & (history.status != FAIL))
    initial = int(history.initial[segment])
    if history.kind[rows[0]] == Object.COUNTER:
        start = np.where(history.status[rows] == OK, history.answer[rows], NOTHING)
        steps = add_step(start, history.asked[rows])
        if initial == NOTHING:  # no addition before the least known one constrains anything
            initial = int(start[start != NOTHING].min())
    else:
        steps = register_step(
            history.is_f("read")[rows],
            history.is_f("cas")[rows],
            history.answer[rows],
            history.asked[rows],
            history.asked_more[rows],
        )
    return Sought(rows, steps, history.invoked[rows], history.completed[rows], initial)


def _search(history: History, segments: Ints, budget: Budget) -> tuple[Findings, dict[int, tuple[int, ...]]]:
    """Objects that no faster kernel can judge."""
    parts = []
    possible: dict[int, tuple[int, ...]] = {}
    for segment in segments:
        case = sought(history, int(segment))
        outcome = search_all(case.steps, case.invoked, case.completed, case.initial, budget)
        if outcome.broken is not None:
            row = case.rows[outcome.row]
            parts.append(findings(outcome.broken, np.array([row], dtype=np.int64)))
            possible[int(row)] = outcome.numbers
    return together(parts), possible


def _exercised(history: History) -> Ints:
    """Rows with an answer that a change, acknowledged before they began, could have made too old."""
    ok = history.status == OK
    changes = ok & ~history.is_f("read") & ~history.is_f("poll")
    first_change = np.full(len(history.initial), NEVER, dtype=np.int64)
    np.minimum.at(first_change, history.segment[changes], history.completed[changes])
    answers = ok & ~history.is_f("write")
    return np.flatnonzero(answers & (history.invoked > first_change[history.segment]))
