"""Kernel for objects whose order is not known from values: a bounded search for a legal order, just in time.

Model. Each operation is a step on one number: a read asserts it, a write replaces it, a swap does both, an addition asserts and
adds. Events in time order are calls and returns (calls first on equal times). A configuration is (which pending operations
have taken effect, the number); all of them that are still possible are kept, and an operation is placed only when one returns that
has not taken effect yet. The first return at which no configuration is left ends the earliest prefix that no order explains.

Kept small, without losing an order:

* a definite read that is legal now takes effect now, for it changes nothing;
* an unknown read is dropped, and so is an unknown write or swap whose value no operation that counts reads or expects;
* of identical pending operations the one that returns first is used first, unknown ones last;
* an unknown operation is only placed where the next one depends on it; otherwise leaving it out is as good;
* a configuration is dropped if another has the same number and the same definite operations done, with fewer unknown ones used.

Bounds. Forward, at most ``Budget.width`` configurations; beyond that depth first from the configurations before the overflow,
with at most ``Budget.memo`` remembered failures; beyond that the answer is *unknown*, naming the operation. At most 62 operations
may be pending or unknown at once.

Sources: checker.md §3; Wing and Gong, "Testing and verifying concurrent objects" (1993); Lowe, "Testing for linearizability" (2017), for
just-in-time placing and the memo.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checker.kernels.findings import ABSENT, NEVER, NOTHING, Bools, Broken, Ints

READS, WRITES, SWAPS, ADDS = 0, 1, 2, 3
SLOTS_MAX = 62
_UNUSED_BIT = 1 << 62
"""mask bit: the unknown operation placed last must be followed by one that depends on it"""

_LEGAL, _STUCK, _OVERFLOW = 0, 1, 2


class Budget(NamedTuple):
    """How much the search may hold at once."""

    width: int = 128
    """configurations of the forward search"""
    memo: int = 1 << 21
    """failures remembered by the depth-first search"""


class Steps(NamedTuple):
    """What each operation does: its kind, the number that it asserts (NOTHING in an addition: none), and the number it
    writes or adds."""

    kind: Ints
    asserts: Ints
    writes: Ints


class Outcome(NamedTuple):
    """What the search says. ``broken`` is None for a legal history, else NO_ORDER or OVERFLOW at ``row``."""

    broken: Broken | None
    row: int = ABSENT
    numbers: tuple[int, ...] = ()
    """the numbers that were possible just before that return, at most eight"""


class _Events(NamedTuple):
    """Calls and returns in order, and the slot of each operation's bit."""

    row: Ints
    is_return: Bools
    slot: Ints
    unknown: Bools
    due: Ints
    """per row: its rank by return; unknown ones last, in order of call"""
    slots: int


def register_step(is_read: Bools, is_swap: Bools, answer: Ints, asked: Ints, asked_more: Ints) -> Steps:
    """Steps of a register's operations."""
    kind = np.where(is_read, READS, np.where(is_swap, SWAPS, WRITES)).astype(np.int64)
    asserts = np.where(is_read, answer, np.where(is_swap, asked, NOTHING))
    return Steps(kind, asserts, np.where(is_swap, asked_more, asked))


def add_step(start: Ints, delta: Ints) -> Steps:
    """Steps of a counter's operations; ``start`` is NOTHING where the outcome is not known."""
    return Steps(np.full(len(start), ADDS, dtype=np.int64), start, delta)


def search_all(steps: Steps, invoked: Ints, completed: Ints, initial: int, budget: Budget) -> Outcome:
    """Look for a legal order of one object's operations, failed ones left out; unknown ones complete at NEVER."""
    rows = np.flatnonzero(_counts(steps, completed == NEVER))
    steps = Steps(steps.kind[rows], steps.asserts[rows], steps.writes[rows])
    events = _events(invoked[rows], completed[rows])
    if events.slots > SLOTS_MAX:
        return Outcome(Broken.OVERFLOW, int(rows[events.row[int(np.argmax(events.slot[events.row] >= SLOTS_MAX))]]))
    status, event, masks, numbers = _forward(events, steps, initial, budget.width)
    if status == _OVERFLOW:
        starts, pending = _pending_at_returns(events)
        status, event = _depth_first(events, steps, (starts, pending), (int(event), masks, numbers), budget.memo)
        numbers = np.empty(0, dtype=np.int64)
    if status == _LEGAL:
        return Outcome(None)
    possible = tuple(int(number) for number in np.unique(numbers)[:8])
    return Outcome(Broken.NO_ORDER if status == _STUCK else Broken.OVERFLOW, int(rows[events.row[event]]), possible)


def _counts(steps: Steps, unknown: Bools) -> Bools:
    """Which operations can matter: all definite ones, unknown additions, unknown changes whose value is seen."""
    counts: Bools = ~unknown | (steps.kind == ADDS)
    while True:
        seen = np.unique(steps.asserts[counts & (steps.kind != WRITES)])
        more = unknown & ~counts & (steps.kind != READS) & np.isin(steps.writes, seen)
        if not more.any():
            return counts
        counts |= more


def _events(invoked: Ints, completed: Ints) -> _Events:
    unknown = completed == NEVER
    returning = np.flatnonzero(~unknown)
    row = np.concatenate((np.arange(len(invoked), dtype=np.int64), returning))
    time = np.concatenate((invoked, completed[returning]))
    is_return = np.arange(len(row)) >= len(invoked)
    order = np.lexsort((is_return, time))
    row, is_return = row[order], is_return[order]
    slot, slots = _slots(row, is_return, unknown)
    return _Events(row, is_return, slot, unknown, _due(invoked, completed), int(slots))


@njit(cache=True)
def _slots(row: Ints, is_return: Bools, unknown: Bools) -> tuple[Ints, int]:
    """Give each operation the lowest free slot from its call to its return; an unknown one keeps it."""
    slot = np.empty(len(unknown), dtype=np.int64)
    taken = np.zeros(len(unknown) + 1, dtype=np.bool_)
    slots = 0
    for event in range(len(row)):
        if is_return[event]:
            taken[slot[row[event]]] = False
            continue
        place = 0
        while taken[place]:
            place += 1
        taken[place] = True
        slot[row[event]] = place
        slots = max(slots, place + 1)
    return slot, slots


def _due(invoked: Ints, completed: Ints) -> Ints:
    due = np.empty(len(invoked), dtype=np.int64)
    due[np.lexsort((invoked, completed))] = np.arange(len(invoked), dtype=np.int64)
    return due


@njit(cache=True)
def _step(steps: Steps, row: int, number: int) -> tuple[bool, int]:
    """Whether the operation is legal at this number, and the number after it."""
    kind, asserted, written = steps.kind[row], steps.asserts[row], steps.writes[row]
    if kind == WRITES:
        return True, written
    if kind == ADDS:
        return asserted in (NOTHING, number), number + written
    return asserted == number, (number if kind == READS else written)


@njit(cache=True)
def _has_twin_due_before(events: _Events, steps: Steps, pending: Ints, row: int, mask: int) -> bool:
    """Whether an identical pending operation must return before this one and has not taken effect."""
    for other in pending:
        if (
            other != ABSENT
            and events.due[other] < events.due[row]
            and steps.writes[other] == steps.writes[row]
            and steps.asserts[other] == steps.asserts[row]
            and steps.kind[other] == steps.kind[row]
            and not mask >> events.slot[other] & 1
        ):
            return True
    return False


@njit(cache=True)
def _place(events: _Events, steps: Steps, pending: Ints, row: int, mask: int, number: int) -> tuple[bool, int, int]:  # noqa: PLR0917 - compiled
    """Let a pending operation take effect: whether that is worth a configuration, its mask and its number."""
    if mask >> events.slot[row] & 1:
        return False, mask, number
    if mask & _UNUSED_BIT and steps.kind[row] == WRITES:
        return False, mask, number
    if steps.kind[row] != READS and _has_twin_due_before(events, steps, pending, row, mask):
        return False, mask, number
    legal, after = _step(steps, row, number)
    if not legal:
        return False, mask, number
    mask = (mask | 1 << events.slot[row]) & ~_UNUSED_BIT
    if events.unknown[row]:
        mask |= _UNUSED_BIT
    return True, mask, after


@njit(cache=True)
def _place_reads(events: _Events, steps: Steps, pending: Ints, mask: int, number: int) -> int:
    """Let every pending read that is legal now take effect."""
    for row in pending:
        if row == ABSENT or events.unknown[row]:
            continue
        if steps.kind[row] == READS and steps.asserts[row] == number:
            mask = (mask | 1 << events.slot[row]) & ~_UNUSED_BIT
    return mask


@njit(cache=True)
def _hash(event: int, mask: int, number: int) -> int:
    mixed = np.uint64(mask) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(number) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= np.uint64(event) * np.uint64(0x165667B19E3779F9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return int((mixed ^ mixed >> np.uint64(32)) & np.uint64(0x7FFFFFFFFFFFFFFF))


class _Pool(NamedTuple):
    """A set of configurations that is emptied without being cleared: a place counts only if it bears the current stamp."""

    table: Ints
    """(stamp, index) per place"""
    masks: Ints
    numbers: Ints
    state: Ints
    """count, stamp"""


@njit(cache=True)
def _pool(room: int) -> _Pool:
    places = 1
    while places < 2 * room:
        places *= 2
    state = np.array([0, 1], dtype=np.int64)
    return _Pool(
        np.zeros((places, 2), dtype=np.int64), np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64), state
    )


@njit(cache=True)
def _empty(pool: _Pool) -> None:
    pool.state[0] = 0
    pool.state[1] += 1


@njit(cache=True)
def _put(pool: _Pool, mask: int, number: int) -> None:
    """Add a configuration unless it is there."""
    count, stamp = pool.state[0], pool.state[1]
    place = _hash(0, mask, number) & (len(pool.table) - 1)
    while pool.table[place, 0] == stamp:
        index = pool.table[place, 1]
        if pool.masks[index] == mask and pool.numbers[index] == number:
            return
        place = (place + 1) & (len(pool.table) - 1)
    pool.table[place, 0] = stamp
    pool.table[place, 1] = count
    pool.masks[count] = mask
    pool.numbers[count] = number
    pool.state[0] = count + 1


@njit(cache=True)
def _prune(pool: _Pool, unknown_bits: int) -> None:
    """Drop configurations that another one makes superfluous: same number, same definite bits, fewer unknown ones used."""
    if unknown_bits == 0:
        return
    masks, numbers, count = pool.masks, pool.numbers, pool.state[0]
    for index in range(count):
        for other in range(count):
            if other == index or masks[other] == ABSENT or numbers[other] != numbers[index]:
                continue
            if (masks[other] ^ masks[index]) & ~unknown_bits == 0 and masks[other] & ~masks[index] == 0:
                masks[index] = ABSENT
                break
    kept = 0
    for index in range(count):
        if masks[index] != ABSENT:
            masks[kept] = masks[index]
            numbers[kept] = numbers[index]
            kept += 1
    pool.state[0] = kept


@njit(cache=True)
def _grow(events: _Events, steps: Steps, pending: Ints, bit: int, pool: _Pool) -> bool:
    """Place pending operations in every order until the one of ``bit`` is placed; false where the room ends before."""
    cursor = 0
    while cursor < pool.state[0]:
        if pool.state[0] >= len(pool.masks) - SLOTS_MAX:
            return False
        if not pool.masks[cursor] & bit:
            for row in pending:
                if row == ABSENT:
                    continue
                legal, mask, number = _place(events, steps, pending, row, pool.masks[cursor], pool.numbers[cursor])
                if legal:
                    _put(pool, _place_reads(events, steps, pending, mask, number), number)
        cursor += 1
    return True


@njit(cache=True)
def _keep_placed(grown: _Pool, bit: int, pool: _Pool) -> None:
    """Go on with the configurations in which the operation of ``bit`` took effect; its bit becomes free."""
    _empty(pool)
    for index in range(grown.state[0]):
        mask = grown.masks[index]
        if mask & bit and not mask & _UNUSED_BIT:
            _put(pool, mask & ~bit, grown.numbers[index])


@njit(cache=True)
def _forward(events: _Events, steps: Steps, initial: int, width: int) -> tuple[int, int, Ints, Ints]:
    """All possible configurations, event by event: outcome, event, and the configurations before that event."""
    pool, grown, before = _pool(4 * width + 64), _pool(4 * width + 64), _pool(4 * width + 64)
    pending = np.full(events.slots, ABSENT, dtype=np.int64)
    unknown_bits = 0
    _put(pool, 0, initial)
    for event in range(len(events.row)):
        row = events.row[event]
        bit = 1 << events.slot[row]
        if not events.is_return[event]:
            pending[events.slot[row]] = row
            if events.unknown[row]:
                unknown_bits |= bit
            for index in range(pool.state[0]):
                mask = _place_reads(
                    events, steps, pending[events.slot[row] :][:1], pool.masks[index], pool.numbers[index]
                )
                pool.masks[index] = mask
            continue
        _empty(grown)
        for index in range(pool.state[0]):
            _put(grown, pool.masks[index], pool.numbers[index])
        complete = _grow(events, steps, pending, bit, grown)
        pool, before = before, pool
        _keep_placed(grown, bit, pool)
        count = before.state[0]
        if not complete or pool.state[0] > width:
            return _OVERFLOW, event, before.masks[:count].copy(), before.numbers[:count].copy()
        if pool.state[0] == 0:
            return _STUCK, event, before.masks[:count].copy(), before.numbers[:count].copy()
        _prune(pool, unknown_bits)
        pending[events.slot[row]] = ABSENT
    return _LEGAL, len(events.row), pool.masks[:0].copy(), pool.numbers[:0].copy()


@njit(cache=True)
def _pending_at_returns(events: _Events) -> tuple[Ints, Ints]:
    """Per event where its list of pending operations begins, and the lists (empty at calls)."""
    starts = np.zeros(len(events.row) + 1, dtype=np.int64)
    pending = np.full(events.slots, ABSENT, dtype=np.int64)
    count = 0
    for event in range(len(events.row)):
        row = events.row[event]
        if events.is_return[event]:
            starts[event + 1] = starts[event] + count
            count -= 1
        else:
            starts[event + 1] = starts[event]
            count += 1
    lists = np.empty(starts[-1], dtype=np.int64)
    for event in range(len(events.row)):
        row = events.row[event]
        if not events.is_return[event]:
            pending[events.slot[row]] = row
            continue
        place = starts[event]
        for other in pending:
            if other != ABSENT:
                lists[place] = other
                place += 1
        pending[events.slot[row]] = ABSENT
    return starts, lists


@njit(cache=True)
def _advance(events: _Events, steps: Steps, event: int, mask: int, number: int) -> tuple[int, int]:
    """Pass every event that needs no choice: the event that does (or the end), and the mask there."""
    while event < len(events.row):
        row = events.row[event]
        bit = 1 << events.slot[row]
        if not events.is_return[event]:
            if not events.unknown[row] and steps.kind[row] == READS and steps.asserts[row] == number:
                mask |= bit
        elif mask & bit and not mask & _UNUSED_BIT:
            mask &= ~bit
        else:
            break
        event += 1
    return event, mask


@njit(cache=True)
def _remember(memo: Ints, used: int, event: int, mask: int, number: int) -> int:
    """Add a node to the memo: how many it holds then, or the negative of that if the node was there."""
    place = _hash(event, mask, number) & (len(memo) - 1)
    while memo[place, 0] != ABSENT:
        if memo[place, 0] == event and memo[place, 1] == mask and memo[place, 2] == number:
            return -used
        place = (place + 1) & (len(memo) - 1)
    memo[place, 0] = event
    memo[place, 1] = mask
    memo[place, 2] = number
    return used + 1


@njit(cache=True)
def _depth_first(
    events: _Events, steps: Steps, lists: tuple[Ints, Ints], roots: tuple[int, Ints, Ints], memo_size: int
) -> tuple[int, int]:
    """Follow one order as far as it goes, and never twice the same node: outcome, and the furthest event reached."""
    starts, pending = lists
    first, masks, numbers = roots
    places = 1
    while places < 2 * memo_size:
        places *= 2
    memo = np.full((places, 3), ABSENT, dtype=np.int64)
    used = 0
    furthest = first
    room = 1024 + len(masks)
    stack = np.empty((room, 3), dtype=np.int64)
    depth = 0
    for index in range(len(masks)):
        stack[depth] = (first, masks[index], numbers[index])
        depth += 1
    while depth > 0:
        depth -= 1
        number = stack[depth, 2]
        event, mask = _advance(events, steps, stack[depth, 0], stack[depth, 1], number)
        if event == len(events.row):
            return _LEGAL, event
        furthest = max(furthest, event)
        used = _remember(memo, used, event, mask, number)
        if used < 0:
            used = -used
            continue
        if used >= memo_size:
            return _OVERFLOW, furthest
        if depth + SLOTS_MAX + 1 > len(stack):
            larger = np.empty((2 * len(stack), 3), dtype=np.int64)
            larger[:depth] = stack[:depth]
            stack = larger
        here = pending[starts[event] : starts[event + 1]]
        target = events.row[event]
        for index in range(len(here) + 1):  # the one that returns now is tried first: it is pushed last
            other = target if index == len(here) else here[index]
            if other == target and index < len(here):
                continue
            legal, after_mask, after = _place(events, steps, here, other, mask, number)
            if legal:
                stack[depth] = (event, _place_reads(events, steps, here, after_mask, after), after)
                depth += 1
    return _STUCK, furthest
