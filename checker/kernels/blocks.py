"""Kernel for registers whose written values are unique: read, write, compare-and-set. Exact, O(n log n), no search.

Model. A value has one writer, so each read says after which writer it stands. A successful compare-and-set a→b stands right
after a's writer and a's reads: such chains form *blocks*, inside which the order is forced: the writer at depth d has position
2d, its reads 2d + 1. A block is contiguous in every legal order, for the next block begins with a plain write.

Decision, in this order:

1. Nobody reads or expects a value that nobody wrote (never written), or only a failed operation (aborted). Two compare-and-sets
   from one value, or a cycle of them, contradict each other whatever the times.
2. Inside a block nothing that completed before another was invoked has the greater position (the floor, per block).
3. Between blocks: let f be the least completion and s the greatest invocation of a block. Block A must precede B iff f(A) < s(B). Two
   blocks with f(A) < s(B) and f(B) < s(A) contradict each other. There is nothing else to find: in a longest-free cycle without such a
   pair each s(A) ≤ f(B) < s(C) grows around the cycle. The initial value's block has f = −∞.

Operations of unknown outcome: a read says nothing; a write or compare-and-set whose value was seen (by a read, or expected by a
compare-and-set that took effect) did take effect and never completed; one whose value was never seen is dropped, for taking it out of a
legal order leaves a legal order. A failed compare-and-set is dropped, as Jepsen does: the assertion that the value was another one is
outside this method (the search offers it).

Sources: checker.md §2; Gibbons and Korach, "Testing shared memories" (1997), §4 for the zones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checker.kernels.findings import (
    ABSENT,
    NOTHING,
    Bools,
    Broken,
    Findings,
    Ints,
    findings,
    renumbered,
    together,
)
from checker.kernels.floor import Placed, below_floor, order_by

READ, WRITE, SWAP = 0, 1, 2
OK, FAIL, INFO = 0, 1, 2

_FAILED_WRITER = -3
_INITIAL_WRITER = -2
_NO_WRITER = -1


class Registers(NamedTuple):
    """Operations on registers, one element a row; ``segment`` numbers the registers from 0.

    ``seen`` is what a read returned or a swap expected (NOTHING: the read found the register unwritten), ``new`` what a write or
    swap wrote, ``completed`` NEVER where the outcome is unknown. ``initial`` has one value a register, NOTHING where it
    begins unwritten.
    """

    segment: Ints
    invoked: Ints
    completed: Ints
    f: Ints
    status: Ints
    seen: Ints
    new: Ints
    initial: Ints


class RegisterFindings(NamedTuple):
    """What is wrong, and the registers whose values are not unique (they need the search)."""

    found: Findings
    unfit: Ints


class Blocks(NamedTuple):
    """The forced order, for explaining: per row its value's number, block and position (−1: dropped or contradicted)."""

    writer: Ints
    """per value number: the row that wrote it; −2 for an initial value"""
    seen_value: Ints
    new_value: Ints
    block: Ints
    position: Ints


def registers(rows: Registers) -> RegisterFindings:
    """Find what no order of the operations explains, register by register."""
    found, unfit, _ = judge(rows)
    return RegisterFindings(found, unfit)


def judge(rows: Registers) -> tuple[Findings, Ints, Blocks]:
    """As :func:`registers`, with the forced order that the witnesses are explained by."""
    seen_value, new_value, initial_value, value_count = _number_values(rows)
    writes = rows.f != READ
    definite = writes & (rows.status != FAIL)
    writer = np.full(value_count, _NO_WRITER, dtype=np.int64)
    writer[new_value[writes & (rows.status == FAIL)]] = _FAILED_WRITER
    failed_writer = np.full(value_count, ABSENT, dtype=np.int64)
    failed_writer[new_value[writes & (rows.status == FAIL)]] = np.flatnonzero(writes & (rows.status == FAIL))
    counts = np.bincount(new_value[definite], minlength=value_count)
    counts[initial_value] += 1
    unfit = np.unique(rows.segment[definite][counts[new_value[definite]] > 1])
    writer[new_value[definite]] = np.flatnonzero(definite)
    writer[initial_value] = _INITIAL_WRITER

    kept = _keep_seen(rows.f, rows.status, seen_value, writer)
    kept &= ~_rows_of(rows, unfit)
    parts, broken = _values_out_of_thin_air(rows, kept, seen_value, writer, failed_writer)
    kept &= ~broken
    swaps = np.flatnonzero(kept & (rows.f == SWAP))
    parts.append(_swapped_twice(swaps, seen_value))
    root, depth, on_cycle = _chains(value_count, swaps, seen_value, new_value)
    cyclic = swaps[on_cycle[new_value[swaps]]]
    _, first = np.unique(rows.segment[cyclic], return_index=True)
    parts.append(findings(Broken.SWAP_CYCLE, cyclic[first]))

    forced = kept & ~_rows_of(rows, _segments_without_order(rows, parts))
    block = np.full(len(rows.f), ABSENT, dtype=np.int64)
    position = np.full(len(rows.f), ABSENT, dtype=np.int64)
    value = np.where(rows.f == READ, seen_value, new_value)
    block[forced] = root[value[forced]]
    position[forced] = 2 * depth[value[forced]] + (rows.f[forced] == READ)
    parts += _order_inside_and_between(rows, np.flatnonzero(forced), block, position, root[initial_value])
    return together(parts), unfit, Blocks(writer, seen_value, new_value, block, position)


def _number_values(rows: Registers) -> tuple[Ints, Ints, Ints, int]:
    """Number the distinct (register, value) pairs from 0: those seen, those written, those initial."""
    count = len(rows.f)
    segments = np.concatenate((rows.segment, rows.segment, np.arange(len(rows.initial), dtype=np.int64)))
    values = np.concatenate((rows.seen, rows.new, rows.initial))
    order = order_by(segments, values)
    changed = np.ones(len(order), dtype=np.int64)
    changed[1:] = (segments[order[1:]] != segments[order[:-1]]) | (values[order[1:]] != values[order[:-1]])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(changed) - 1
    return number[:count], number[count : 2 * count], number[2 * count :], int(changed.sum())


@njit(cache=True)
def _keep_seen(f: Ints, status: Ints, seen: Ints, writer: Ints) -> Bools:
    """Which operations took effect: those ok, and unknown ones whose value was seen by one that took effect."""
    kept = np.zeros(len(f), dtype=np.bool_)
    for row in range(len(f)):
        if status[row] != OK:
            continue
        kept[row] = True
        if f[row] == WRITE:
            continue
        source = writer[seen[row]]
        while source >= 0 and not kept[source] and status[source] == INFO:
            kept[source] = True
            if f[source] != SWAP:
                break
            source = writer[seen[source]]
    return kept


def _values_out_of_thin_air(
    rows: Registers, kept: Bools, seen_value: Ints, writer: Ints, failed_writer: Ints
) -> tuple[list[Findings], Bools]:
    """Reads and swaps of values that nobody wrote, or only an operation that failed."""
    looks = kept & (rows.f != WRITE)
    never = looks & (writer[seen_value] == _NO_WRITER)
    aborted = looks & (writer[seen_value] == _FAILED_WRITER)
    never_rows, aborted_rows = np.flatnonzero(never), np.flatnonzero(aborted)
    parts = [
        findings(Broken.NEVER_WRITTEN, never_rows),
        findings(Broken.ABORTED, aborted_rows, failed_writer[seen_value[aborted_rows]]),
    ]
    return parts, never | aborted


def _swapped_twice(swaps: Ints, seen_value: Ints) -> Findings:
    """Two swaps that both replaced one value."""
    ordered = swaps[np.argsort(seen_value[swaps], kind="stable")]
    again = np.flatnonzero(seen_value[ordered[1:]] == seen_value[ordered[:-1]])
    return findings(Broken.SWAPPED_TWICE, ordered[again], ordered[again + 1])


@njit(cache=True)
def _chains(value_count: int, swaps: Ints, seen: Ints, new: Ints) -> tuple[Ints, Ints, Bools]:
    """Per value the first value of its chain of swaps and its depth in it; and the values that are on a cycle or behind one."""
    parent = np.full(value_count, ABSENT, dtype=np.int64)
    for row in swaps:
        parent[new[row]] = seen[row]
    root = np.full(value_count, ABSENT, dtype=np.int64)
    depth = np.zeros(value_count, dtype=np.int64)
    cyclic = np.zeros(value_count, dtype=np.bool_)
    path = np.empty(value_count, dtype=np.int64)
    walking = np.full(value_count, ABSENT, dtype=np.int64)
    for start in range(value_count):
        length = 0
        value = start
        while root[value] == ABSENT and walking[value] != start and parent[value] != ABSENT:
            walking[value] = start
            path[length] = value
            length += 1
            value = parent[value]
        if root[value] == ABSENT:
            root[value] = value
            cyclic[value] = parent[value] != ABSENT
        for back in range(length - 1, -1, -1):
            child = path[back]
            if child == value and cyclic[value]:
                continue
            root[child] = root[parent[child]]
            depth[child] = depth[parent[child]] + 1
            cyclic[child] = cyclic[parent[child]]
    return root, depth, cyclic


def _segments_without_order(rows: Registers, parts: list[Findings]) -> Ints:
    """Registers whose swaps contradict each other; those have no forced order to go on with."""
    clashing = (Broken.SWAPPED_TWICE, Broken.SWAP_CYCLE)
    found = together(parts)
    return np.unique(rows.segment[found.rows[np.isin(found.kind, clashing), 0]])


def _rows_of(rows: Registers, segments: Ints) -> Bools:
    """Which rows belong to one of these registers."""
    chosen = np.zeros(len(rows.initial), dtype=np.bool_)
    chosen[segments] = True
    return chosen[rows.segment]


def _order_inside_and_between(
    rows: Registers, forced: Ints, block: Ints, position: Ints, initial_root: Ints
) -> list[Findings]:
    """Steps 2 and 3 of the decision."""
    inside = below_floor(Placed(block[forced], rows.invoked[forced], rows.completed[forced], position[forced]))
    inside = renumbered(inside, forced)
    inside.kind[:] = int(Broken.OUT_OF_ORDER)

    by_block = forced[np.argsort(block[forced], kind="stable")]
    earliest, latest = _extent(by_block, block, rows.invoked, rows.completed)
    segment = rows.segment[latest]
    is_initial = block[latest] == initial_root[segment]
    ends = np.where(is_initial, NOTHING, rows.completed[earliest])
    begins = rows.invoked[latest]
    order = order_by(segment, ends)
    first, second = _interleaved(order, segment, ends, begins)
    end_first = np.where(is_initial[first], ABSENT, earliest[first])
    end_second = np.where(is_initial[second], ABSENT, earliest[second])
    between = findings(Broken.INTERLEAVED, end_first, latest[second], end_second, latest[first])
    return [inside, between]


@njit(cache=True)
def _extent(by_block: Ints, block: Ints, invoked: Ints, completed: Ints) -> tuple[Ints, Ints]:
    """Per block the row that completed first and the row that was invoked last."""
    earliest = np.empty(len(by_block), dtype=np.int64)
    latest = np.empty(len(by_block), dtype=np.int64)
    count = 0
    for index in range(len(by_block)):
        row = by_block[index]
        if index == 0 or block[row] != block[by_block[index - 1]]:
            earliest[count] = row
            latest[count] = row
            count += 1
            continue
        if completed[row] < completed[earliest[count - 1]]:
            earliest[count - 1] = row
        if invoked[row] > invoked[latest[count - 1]]:
            latest[count - 1] = row
    return earliest[:count], latest[:count]


@njit(cache=True)
def _interleaved(order: Ints, segment: Ints, ends: Ints, begins: Ints) -> tuple[Ints, Ints]:
    """Pairs of blocks of one register that each must precede the other: at most one pair a block, the widest partner.

    ``order`` sorts blocks by (segment, f). A forward block (f < s) contradicts another whose interval overlaps its own, and a
    backward one ([s, f]) that lies inside it. Both are seen from the block that is not the widest so far.
    """
    first = np.empty(len(order), dtype=np.int64)
    second = np.empty(len(order), dtype=np.int64)
    count = 0
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and segment[order[stop]] == segment[order[start]]:
            stop += 1
        widest = np.full(stop - start + 1, ABSENT, dtype=np.int64)
        forward_ends = np.empty(stop - start, dtype=np.int64)
        forwards = 0
        for index in range(start, stop):
            block = order[index]
            if ends[block] >= begins[block]:
                continue
            best = widest[forwards]
            if best != ABSENT and begins[best] > ends[block]:
                first[count] = best
                second[count] = block
                count += 1
            if best == ABSENT or begins[block] > begins[best]:
                best = block
            forward_ends[forwards] = ends[block]
            forwards += 1
            widest[forwards] = best
        for index in range(start, stop):
            block = order[index]
            if ends[block] < begins[block]:
                continue
            best = widest[np.searchsorted(forward_ends[:forwards], begins[block])]
            if best != ABSENT and begins[best] > ends[block]:
                first[count] = best
                second[count] = block
                count += 1
        start = stop
    return first[:count], second[:count]
