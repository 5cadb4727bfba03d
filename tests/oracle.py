"""Linearizability by exhaustive search: slow, short, and obviously right. For histories of a few operations.

An order is legal when it keeps real time (nothing may stand before an operation that completed before it was invoked), holds
every ``ok`` operation, none that failed, any of the unknown ones, and each answer is what the object gives in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workloads.history.operation import Operation, Status

State = Any
Step = Callable[[State, Operation], State | None]
"""The state after the operation, or None where its answer is not what the object gives."""


def linearizable(operations: Sequence[Operation], step: Step, initial: State) -> bool:
    """Try every order."""
    kept = tuple(row for row in operations if row.status is not Status.FAIL)
    return _search(kept, step, initial)


def _search(left: tuple[Operation, ...], step: Step, state: State) -> bool:
    if all(row.status is Status.INFO for row in left):
        return True
    for index, row in enumerate(left):
        if any(other.completed_ns is not None and other.completed_ns < row.invoked_ns for other in left):
            continue
        after = step(state, row)
        if after is not None and _search(left[:index] + left[index + 1 :], step, after):
            return True
    return False


def register_step(state: tuple[int | None], row: Operation) -> tuple[int | None] | None:
    """A register; the state is a tuple of its value. An unknown compare-and-set may also have found another value."""
    (value,) = state
    known = row.status is Status.OK
    if row.f == "read":
        return state if not known or row.output == (() if value is None else (value,)) else None
    if row.f == "write":
        return (row.input[0],)
    expected, new = row.input
    if value == expected:
        return (new,)
    return None if known else state


def keyed_register_step(state: dict[int, int | None], row: Operation) -> dict[int, int | None] | None:
    """Many registers, one a key."""
    assert row.key is not None
    after = register_step((state.get(row.key),), row)
    return None if after is None else {**state, row.key: after[0]}


def counter_step(state: int, row: Operation) -> int | None:
    """Fetch-and-add."""
    if row.status is Status.OK and row.output != (state,):
        return None
    return int(state + row.input[0])


def log_step(hidden: dict[int, int]) -> Callable[[tuple[int, ...], Operation], tuple[int, ...] | None]:
    """A log whose state is its end and then the offsets appended; others may stand between (control records).

    ``hidden`` gives the offset that each append of unknown outcome (by op_id) takes if it takes effect at all.
    """

    def step(state: tuple[int, ...], row: Operation) -> tuple[int, ...] | None:
        end, *offsets = state
        if row.f == "append":
            offset = row.offset if row.status is Status.OK else hidden[row.op_id]
            assert offset is not None
            return (offset + 1, *offsets, offset) if offset >= end else None
        if row.status is not Status.OK:
            return state
        shown = row.output[0::2]
        begin = row.input[0]
        until = row.offset
        if until is None:  # cut off: at least what it shows
            last = max(shown, default=-1)
            until = max(end, last + 1)
            covered = range(begin, last + 1)
        else:
            covered = range(begin, until)
        if until < end or tuple(offset for offset in offsets if offset in covered) != shown:
            return None
        return (until, *offsets)

    return step
