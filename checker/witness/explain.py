"""A finding of a kernel as one sentence and at most six operations: the two facts that contradict each other.

There is one function a kind of finding: the rows of the finding in, the sentence and the rows that it names out, the most telling
first. Where the contradiction is a circle of compare-and-sets, networkx finds the shortest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import networkx as nx
import numpy as np

from checker.kernels.blocks import INFO
from checker.kernels.findings import ABSENT, NOTHING, Broken
from checker.kernels.objects import History, Judged, Object, sought
from checker.witness.shrink import shrink
from checker.witness.words import Row, capital, finished_before, named, operation_row, seconds, value_of

WITNESS_ROWS_MAX = 6


class Witness(NamedTuple):
    """The least evidence of one contradiction."""

    subject: str
    sentence: str
    rows: tuple[Row, ...]


class Case(NamedTuple):
    """A history and what the kernels found in it."""

    history: History
    judged: Judged


def explain(case: Case, finding: int) -> Witness:
    """Explain one finding by its number."""
    kind = Broken(int(case.judged.found.kind[finding]))
    rows = [int(row) for row in case.judged.found.rows[finding]]
    sentence, used = _BY_KIND[kind](case, rows)
    seen: dict[int, Row] = {}
    for row in used:
        if row != ABSENT:
            seen.setdefault(row, _operation(case, row))
    ordered = sorted(list(seen.values())[:WITNESS_ROWS_MAX], key=lambda row: (row["invoked_ns"], row["op_id"]))
    return Witness(_subject(case, max(rows)), sentence, tuple(ordered))


def named_operation(case: Case, row: int) -> str:
    """One operation in words."""
    return named(_operation(case, row))


def _operation(case: Case, row: int) -> Row:
    """One operation as a witness row."""
    return operation_row(case.history.table.slice(row, 1).to_pylist()[0])


def _subject(case: Case, row: int) -> str:
    key = case.history.table["key"][row].as_py()
    name = _SUBJECTS[Object(int(case.history.kind[row]))]
    return name if key is None or case.history.kind[row] == Object.REGISTRATIONS else f"{name} {key}"


def _writer(case: Case, row: int) -> int:
    """The row that wrote the value which this row returned or wrote; absent for the initial value."""
    blocks = case.judged.blocks
    new = int(blocks.new_value[row])
    value = int(blocks.seen_value[row]) if case.history.is_f("read")[row] else new
    return max(int(blocks.writer[value]), ABSENT)


def _successor(case: Case, row: int) -> int:
    """The swap that replaced the value which this row returned or wrote; absent if there is none that counts."""
    blocks = case.judged.blocks
    value = int(blocks.seen_value[row]) if case.history.is_f("read")[row] else int(blocks.new_value[row])
    swaps = np.flatnonzero(case.history.is_f("cas") & (blocks.seen_value == value) & (blocks.position >= 0))
    return int(swaps[0]) if len(swaps) else ABSENT


def _value(case: Case, row: int) -> str:
    """The value that a row returned or wrote, in words."""
    history = case.history
    if history.is_f("read")[row]:
        return value_of(_operation(case, row))
    return str(int(history.asked_more[row] if history.is_f("cas")[row] else history.asked[row]))


def _below_floor(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """(set the floor, began after that and is below it)."""
    first, late = _operation(case, rows[0]), _operation(case, rows[1])
    before, after = _POSITIONS[first["f"]](first), _POSITIONS[late["f"]](late)
    return capital(f"{finished_before(first, late)}; the first {before}, yet the later one {after}."), rows


def _overlap(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """Two additions that took the same numbers, or one below the initial value."""
    late = _operation(case, rows[1])
    if rows[0] == ABSENT:
        initial = int(case.history.initial[case.history.segment[rows[1]]])
        return capital(f"{named(late)} returned {value_of(late)}, below the initial value {initial}."), rows
    first = _operation(case, rows[0])
    end = first["output"][0] + first["input"][0]
    if first["output"] == late["output"]:
        sentence = f"{named(first)} and {named(late)} both returned {value_of(late)}."
    else:
        sentence = (
            f"{named(first)} returned {value_of(first)} and so took all up to {end - 1}, yet {named(late)} "
            f"returned {value_of(late)}."
        )
    return capital(sentence), rows


def _gap(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """A gap that unknown additions cannot fill."""
    history = case.history
    late = _operation(case, rows[1])
    row = rows[1]
    unknown = np.flatnonzero((history.segment == history.segment[row]) & (history.status == INFO))
    unknown = unknown[np.argsort(history.invoked[unknown], kind="stable")]
    if rows[0] == ABSENT:
        before, expected = "the counter began", int(history.initial[history.segment[row]])
    else:
        first = _operation(case, rows[0])
        before, expected = f"{named(first)} returned {value_of(first)}", first["output"][0] + first["input"][0]
    missing = late["output"][0] - expected
    reason = (
        f"the {len(unknown)} of unknown outcome cannot account for it" if len(unknown) else "none is of unknown outcome"
    )
    sentence = (
        f"{before} and the next answer was {value_of(late)}, of {named(late)}, instead of {expected}: additions of "
        f"{missing} in all are nobody's, for {reason}."
    )
    return capital(sentence), [*rows[:2], *(int(other) for other in unknown[:4])]


def _never_written(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """A value out of thin air."""
    late = _operation(case, rows[0])
    if late["f"] == "read":
        return capital(f"{named(late)} returned {value_of(late)}, which no operation wrote."), rows
    return capital(f"{named(late)} succeeded, but no operation wrote {late['input'][0]}."), rows


def _aborted(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """A value whose only writer failed."""
    late, failed = _operation(case, rows[0]), _operation(case, rows[1])
    did = f"returned {value_of(late)}" if late["f"] == "read" else f"found {late['input'][0]}"
    return capital(
        f"{named(late)} {did}, which only {named(failed)} would have written, and that failed ({failed['error']})."
    ), rows


def _swapped_twice(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """Two compare-and-sets of one value."""
    first, second = _operation(case, rows[0]), _operation(case, rows[1])
    writer = int(case.judged.blocks.writer[case.judged.blocks.seen_value[rows[0]]])
    once = "the initial value" if writer < 0 else f"written once, by {named(_operation(case, writer))}"
    value = first["input"][0]
    return capital(f"{named(first)} and {named(second)} both replaced {value}, which was {once}."), [
        *rows[:2],
        max(writer, ABSENT),
    ]


def _swap_cycle(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """A circle of compare-and-sets; the shortest one of the register is shown."""
    history, blocks = case.history, case.judged.blocks
    same = np.flatnonzero((history.segment == history.segment[rows[0]]) & history.is_f("cas"))
    graph = nx.DiGraph()
    for row in same:
        if blocks.writer[blocks.new_value[row]] == row:
            graph.add_edge(int(blocks.seen_value[row]), int(blocks.new_value[row]), row=int(row))
    circle = min(nx.simple_cycles(graph), key=lambda values: (len(values), values))
    pairs = zip(circle, [*circle[1:], circle[0]], strict=True)
    used = [graph.edges[pair]["row"] for pair in pairs]
    names = [named(_operation(case, row)) for row in used]
    listed = ", ".join(names[:-1]) + f" and {names[-1]}"
    return capital(
        f"{listed} form a circle: each needs the value of the one before, and none can have been the first."
    ), used


def _out_of_order(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """Inside one chain of values: the first to finish needs what the later one, or a later link, did."""
    first, late = _operation(case, rows[0]), _operation(case, rows[1])
    claim = f" had returned {value_of(first)}" if first["f"] == "read" else ""
    if _writer(case, rows[0]) == rows[1]:
        when = finished_before(first, late)
        return capital(f"{when}, yet the {first['f']} had returned {_value(case, rows[1])} already."), rows
    if late["f"] == "read":
        swap = _successor(case, rows[1])
        replaced = "that had replaced" if swap == rows[0] else f"{named(_operation(case, swap))} had replaced by then"
        sentence = f"{finished_before(first, late)}, yet the read returned {value_of(late)}, which {replaced}"
        if swap != rows[0] and claim:
            sentence += f": the first{claim}"
        return capital(sentence + "."), [rows[0], rows[1], swap, _writer(case, rows[1])]
    sentence = (
        f"{finished_before(first, late)}, yet a chain of compare-and-sets leads from {_value(case, rows[1])}, which "
        f"the later one wrote, to {_value(case, rows[0])} of the first one"
    )
    return capital(sentence + "."), [rows[0], rows[1], _successor(case, rows[1]), _writer(case, rows[0])]


def _after_its_replacement(case: Case, rows: tuple[int, int, int, int]) -> tuple[int, int, int, int] | None:
    """The plainest form of two values that each must come before the other: the old one's write had finished before the new one's
    began, that had finished too, and then a read returned the old one."""
    *_, late = rows
    history = case.history
    if ABSENT in rows or not history.is_f("read")[late]:
        return None
    old, new = _writer(case, late), _writer(case, rows[2])
    if ABSENT in (old, new):
        return None
    completed, invoked = history.completed, history.invoked
    if completed[old] < invoked[new] and completed[new] < invoked[late]:
        return old, new, new, late
    return None


def _interleaved(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """Two values that each must come before the other; told from the side of the read that came too late."""
    a1, b2, b1, a2 = rows
    reads = case.history.is_f("read")
    invoked = case.history.invoked
    turned = ABSENT not in (a1, b1) and reads[b2] and (not reads[a2] or invoked[b2] > invoked[a2])
    turn = (b1, a2, a1, b2)
    by_writes = _after_its_replacement(case, (a1, b2, b1, a2)) or _after_its_replacement(case, turn)
    if by_writes is not None:
        a1, b2, b1, a2 = by_writes
    elif turned or b1 == ABSENT:
        a1, b2, b1, a2 = turn
    first, late = _operation(case, b1), _operation(case, a2)
    old, new = _value(case, a2), _value(case, b1)
    used = [b1, a2, _writer(case, a2), _writer(case, b1), a1, b2]
    if not reads[a2]:
        other = f"{finished_before(_operation(case, a1), _operation(case, b2))}, which puts {old} before {new}"
        return capital(f"{finished_before(first, late)}, which puts {new} before {old}, yet {other}."), used
    replaced = (
        f"{new} had replaced" if reads[b1] else f"that {'write' if first['f'] == 'write' else 'swap'} had replaced"
    )
    claim = f" and had returned {new}" if reads[b1] else ""
    sentence = f"{finished_before(first, late)}{claim}, yet the read returned {old}, which {replaced}"
    if a1 != ABSENT and (a1 != _writer(case, a2) or b2 != _writer(case, b1) or reads[b1]):
        sentence += f": {finished_before(_operation(case, a1), _operation(case, b2))}"
        sentence += f", so {old} came before {new}"
    return capital(sentence + "."), used


def _no_order(case: Case, rows: list[int]) -> tuple[str, list[int]]:
    """What the search could not place."""
    row = rows[0]
    history = case.history
    late = _operation(case, row)
    numbers = case.judged.possible.get(row, ())
    said = f"returned {value_of(late)}" if late["f"] in ("read", "add") else "succeeded"
    possible = " or ".join("unwritten" if number == NOTHING else str(number) for number in numbers)
    reason = f"; when it had to take effect the value could only be {possible}" if numbers else ""
    left = shrink(sought(history, int(history.segment[row])), row)
    latest = left[np.argsort(-history.invoked[left], kind="stable")]
    sentence = (
        f"no order of the operations explains {named(late)}, which {said} by {seconds(late['completed_ns'])}{reason}."
    )
    return capital(sentence), [row, *(int(other) for other in latest)]


_SUBJECTS = {
    Object.REGISTER: "key",
    Object.LOG: "log",
    Object.COUNTER: "counter",
    Object.REGISTRATIONS: "registrations",
}

_POSITIONS: Mapping[str, Callable[[Row], str]] = {
    "append": lambda row: f"has offset {row['offset']}" if row["offset"] is not None else "was seen at an offset",
    "poll": lambda row: f"showed the log up to offset {_poll_end(row)} (exclusive)",
    "add": lambda row: f"returned {value_of(row)}",
    "register": lambda row: f"got epoch {value_of(row)}",
}


def _poll_end(row: Row) -> int:
    shown = row["output"][-2] + 1 if row["output"] else 0
    return int(max(shown, row["offset"] or 0))


_Explanation = Callable[[Case, list[int]], tuple[str, list[int]]]
_BY_KIND: Mapping[Broken, _Explanation] = {
    Broken.BELOW_FLOOR: _below_floor,
    Broken.OVERLAP: _overlap,
    Broken.GAP: _gap,
    Broken.NEVER_WRITTEN: _never_written,
    Broken.ABORTED: _aborted,
    Broken.SWAPPED_TWICE: _swapped_twice,
    Broken.SWAP_CYCLE: _swap_cycle,
    Broken.OUT_OF_ORDER: _out_of_order,
    Broken.INTERLEAVED: _interleaved,
    Broken.NO_ORDER: _no_order,
}
