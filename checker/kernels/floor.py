"""Kernel for objects whose operations carry their position: logs, counters, versioned values, sessions. O(n log n), no search.

Model. Each operation has a forced position: an append at offset k has 2k + 1, a read of the state after h appends has 2h,
an addition that returned v has v. A history is linearizable iff there is no pair p, o where p completed before o was invoked
and position(p) > position(o). Necessary: o is after p in real time and before it by position. Sufficient: a cycle of position
order and real-time order must contain a real-time edge that lowers the position, which is exactly such a pair.

So one sweep in time order keeps the *floor*, the greatest position among completed operations; an operation whose position
is below the floor at its invocation contradicts the one that set the floor, and these two are the whole counterexample.

An operation that is only known to be *at least* at its position (a read cut off by size) takes max(position, floor), so it is
never below the floor itself; for others it raises the floor to the position that it is known to have reached.

Equal times are concurrent: p precedes o iff completed(p) < invoked(o). Operations that never completed carry NEVER and
constrain nobody, but must themselves not be below the floor at their invocation.

Sources: checker.md §1; Gibbons and Korach, "Testing shared memories" (1997), for the reduction to forced orders.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checker.kernels.findings import ABSENT, NOTHING, Bools, Broken, Findings, Ints, findings, together


class Placed(NamedTuple):
    """Operations whose position is known, one element a row; ``segment`` numbers independent objects (run and key)."""

    segment: Ints
    invoked: Ints
    completed: Ints
    position: Ints


class Floor(NamedTuple):
    """Per operation: the floor at its invocation (NOTHING where there was none), and the row that had set it (−1: none)."""

    position: Ints
    setter: Ints


def order_by(segment: Ints, time: Ints) -> Ints:
    """Row numbers by (segment, time); stable, so that recorded order breaks ties."""
    if len(segment) == 0 or (segment[0] == segment[-1] and bool(np.all(segment == segment[0]))):
        if bool(np.all(time[1:] >= time[:-1])):
            return np.arange(len(time), dtype=np.int64)
        return np.argsort(time, kind="stable")
    return np.lexsort((time, segment))


@njit(cache=True)
def _sweep(by_invocation: Ints, by_completion: Ints, rows: Placed) -> tuple[Ints, Ints]:
    """Merge the two orders; both list whole segments one after the other."""
    count = len(by_invocation)
    floor = np.empty(count, dtype=np.int64)
    setter = np.empty(count, dtype=np.int64)
    following = 0
    current_floor = NOTHING
    current_setter = ABSENT
    for index in range(count):
        row = by_invocation[index]
        if index == 0 or rows.segment[row] != rows.segment[by_invocation[index - 1]]:
            following = index
            current_floor = NOTHING
            current_setter = ABSENT
        while following < count:
            candidate = by_completion[following]
            if rows.segment[candidate] != rows.segment[row] or rows.completed[candidate] >= rows.invoked[row]:
                break
            if rows.position[candidate] > current_floor:
                current_floor = rows.position[candidate]
                current_setter = candidate
            following += 1
        floor[row] = current_floor
        setter[row] = current_setter
    return floor, setter


def floor_at_invocation(rows: Placed) -> Floor:
    """The floor that each operation met in its segment. An operation of unknown position carries NOTHING and sets no floor."""
    floor, setter = _sweep(order_by(rows.segment, rows.invoked), order_by(rows.segment, rows.completed), rows)
    return Floor(floor, setter)


def below_floor(rows: Placed, at_least: Bools | None = None) -> Findings:
    """Find every operation below the floor at its invocation, with the operation that had set it.

    ``at_least`` marks positions that are lower bounds.
    """
    floor = floor_at_invocation(rows)
    late = (rows.position < floor.position) & (rows.position != NOTHING)
    if at_least is not None:
        late &= ~at_least
    found = np.flatnonzero(late)
    return findings(Broken.BELOW_FLOOR, floor.setter[found], found)


class Additions(NamedTuple):
    """Fetch-and-add operations that did not fail, one element a row.

    ``start`` is the value before the addition, NOTHING for an addition of unknown outcome, which completes at NEVER.
    ``initial`` has one value a segment, NOTHING where it is not known.
    """

    segment: Ints
    invoked: Ints
    completed: Ints
    start: Ints
    delta: Ints
    initial: Ints


class CounterFindings(NamedTuple):
    """What is wrong with counters, and the segments that this method cannot judge (they need the search)."""

    found: Findings
    unfit: Ints


def counter(rows: Additions) -> CounterFindings:
    """Judge fetch-and-add: an addition that returned v took v … v + delta − 1, and the values taken give the order.

    With one positive delta a segment this is exact: no two additions overlap, none is below the floor, and each gap is filled by
    distinct unknown additions. An unknown addition can stand at v iff the floor at its invocation is at most v; those sets are
    nested, so by Hall's condition it is enough that, at each gap, no more places lie at or before it than unknown additions can
    stand at or before it.

    Segments with different or non-positive deltas are exact only while they have no gap; others are returned as unfit.
    """
    segment, start, delta = rows.segment, rows.start, rows.delta
    known = np.flatnonzero(start != NOTHING)
    order = known[np.lexsort((start[known], segment[known]))]
    # Unknown additions have no position of their own: their floors are what the gaps below are matched with.
    floor = floor_at_invocation(Placed(segment, rows.invoked, rows.completed, start))
    late = np.flatnonzero((start != NOTHING) & (start < floor.position))
    parts = [findings(Broken.BELOW_FLOOR, floor.setter[late], late)]

    same = np.zeros(len(order), dtype=np.bool_)
    same[1:] = segment[order[1:]] == segment[order[:-1]]
    previous = np.where(same, np.roll(order, 1), ABSENT)
    before = np.where(same, start[previous] + delta[previous], NOTHING)
    before[~same] = rows.initial[segment[order[~same]]]
    overlap = (before != NOTHING) & (start[order] < before)
    parts.append(findings(Broken.OVERLAP, previous[overlap], order[overlap]))

    uneven = _uneven_segments(segment, delta)
    gap = np.where((before != NOTHING) & ~overlap, start[order] - before, 0)
    gapped = gap > 0
    in_uneven = np.isin(segment[order], uneven)
    unfit = np.unique(segment[order[gapped & in_uneven]])
    gap = np.where(in_uneven, 0, gap)
    parts.append(_unfilled_gaps(rows, floor.position, order, previous, gap))
    return CounterFindings(together(parts), unfit)


def _uneven_segments(segment: Ints, delta: Ints) -> Ints:
    """Segments whose deltas differ or are not positive."""
    if len(segment) == 0:
        return segment
    by_segment = np.argsort(segment, kind="stable")
    ordered = segment[by_segment]
    bounds = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    least = np.minimum.reduceat(delta[by_segment], bounds)
    greatest = np.maximum.reduceat(delta[by_segment], bounds)
    uneven: Ints = ordered[bounds][(least != greatest) | (least <= 0)]
    return uneven


def _unfilled_gaps(rows: Additions, floor: Ints, order: Ints, previous: Ints, gap: Ints) -> Findings:
    """The first gap of each segment that unknown additions cannot fill; ``gap`` stands beside ``order``."""
    segment, start, delta = rows.segment, rows.start, rows.delta
    unknown = np.flatnonzero(start == NOTHING)
    step = np.maximum(delta[order], 1)
    needed = _running_sum(segment[order], -(-gap // step))
    by_floor = unknown[np.lexsort((floor[unknown], segment[unknown]))]
    available = _count_below(segment[by_floor], floor[by_floor], segment[order], start[order])
    short = np.flatnonzero((gap > 0) & ((needed > available) | (gap % step != 0)))
    _, first = np.unique(segment[order[short]], return_index=True)
    return findings(Broken.GAP, previous[short[first]], order[short[first]])


def _running_sum(segment: Ints, values: Ints) -> Ints:
    """Inclusive sums that begin anew in each segment; segments are contiguous."""
    if len(values) == 0:
        return values
    sums = np.cumsum(values)
    starts = np.flatnonzero(np.concatenate(([True], segment[1:] != segment[:-1])))
    base = np.repeat(sums[starts] - values[starts], np.diff(np.append(starts, len(values))))
    return sums - base


@njit(cache=True)
def _count_below(segment: Ints, floor: Ints, at_segment: Ints, at_start: Ints) -> Ints:
    """For each (segment, start), in that order: how many rows of the segment have floor < start. Both sides are sorted."""
    counts = np.zeros(len(at_segment), dtype=np.int64)
    cursor = 0
    begin = 0
    for index in range(len(at_segment)):
        if index == 0 or at_segment[index] != at_segment[index - 1]:
            while cursor < len(segment) and segment[cursor] < at_segment[index]:
                cursor += 1
            begin = cursor
        while cursor < len(segment) and segment[cursor] == at_segment[index] and floor[cursor] < at_start[index]:
            cursor += 1
        counts[index] = cursor - begin
    return counts
