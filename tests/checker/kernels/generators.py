"""Random small histories, drawn by hypothesis so that a disagreement shrinks.

Half of the answers are drawn freely (most such histories are wrong), half come from a real object at a moment between
invocation and completion and may then be spoilt (most such histories are right, or wrong by a hair).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.histories import add, append, cas, history, poll, read, write
from workloads.history.operation import Operation

Draw = Callable[[st.SearchStrategy[Any]], Any]
SIZE_MAX = 7
STATUSES = ["ok"] * 8 + ["info", "info", "fail"]


def _times(draw: Draw, sequential: bool) -> list[tuple[int, int]]:
    """Intervals on a coarse clock, so that ties are frequent."""
    count = draw(st.integers(1, SIZE_MAX))
    spans = []
    for number in range(count):
        began = draw(st.integers(0, 2)) + 2 * number if sequential else draw(st.integers(0, 12))
        spans.append((began, began + draw(st.integers(0, 5))))
    return spans


@st.composite
def register_histories(draw: Draw, unique: bool = True) -> tuple[tuple[Operation, ...], int | None]:
    """A history of one register, and its initial value."""
    initial = draw(st.sampled_from([None, None, 100]))
    spans = _times(draw, draw(st.booleans()))
    values = list(range(1, len(spans) + 1)) if unique else [draw(st.integers(1, 3)) for _ in spans]
    chooser = _answers_of_an_object if draw(st.booleans()) else _answers_at_will
    rows = chooser(draw, spans, values, initial)
    return history(*rows), initial


def _answers_at_will(
    draw: Draw, spans: list[tuple[int, int]], values: list[int], initial: int | None
) -> list[Operation]:
    rows = []
    for span, value in zip(spans, values, strict=True):
        status = draw(st.sampled_from(STATUSES))
        known = st.sampled_from([*values, initial, 9 if draw(st.integers(0, 9)) == 0 else values[0]])
        f = draw(st.sampled_from(["read", "read", "write", "cas"]))
        rows.append(_operation(f, span, status, value, draw(known)))
    return rows


def _answers_of_an_object(
    draw: Draw, spans: list[tuple[int, int]], values: list[int], initial: int | None
) -> list[Operation]:
    """Operations take effect at a moment within their span; unknown ones later, or never; then one answer may be spoilt."""
    moments = []
    for number, (began, ended) in enumerate(spans):
        status = draw(st.sampled_from(STATUSES))
        late = draw(st.integers(0, 6)) if status == "info" else 0
        moments.append((draw(st.integers(began, ended)) + late, number, status))
    rows: list[Operation] = []
    places: list[int] = []
    state = initial
    for _, number, status in sorted(moments):
        f = draw(st.sampled_from(["read", "read", "write", "cas"]))
        value, seen = values[number], state
        if draw(st.integers(0, 14)) == 0:
            seen = draw(st.sampled_from([*values, initial]))
        takes_effect = status == "ok" or (status == "info" and draw(st.booleans()))
        if takes_effect and (f == "write" or (f == "cas" and state is not None)):
            state = value
        rows.append(_operation(f, spans[number], status, value, seen))
        places.append(number)
    return [row for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])]


def _operation(f: str, span: tuple[int, int], status: str, value: int, seen: int | None) -> Operation:
    if f == "read":
        return read(seen, at=span, status=status)
    if f == "write" or seen is None:
        return write(value, at=span, status=status)
    return cas(seen, value, at=span, status=status)


@st.composite
def counter_histories(draw: Draw, uneven: bool = False) -> tuple[Operation, ...]:
    """A history of one counter that begins at 0."""
    spans = _times(draw, draw(st.booleans()))
    delta = draw(st.sampled_from([1, 2]))
    honest = draw(st.booleans())
    moments = []
    for number, (began, ended) in enumerate(spans):
        status = draw(st.sampled_from(STATUSES))
        late = draw(st.integers(0, 6)) if status == "info" else 0
        moments.append((draw(st.integers(began, ended)) + late, number, status))
    state = 0
    rows: dict[int, Operation] = {}
    for _, number, status in sorted(moments):
        step = draw(st.sampled_from([1, 2])) if uneven else delta
        start = state if honest else draw(st.integers(0, len(spans))) * delta
        if draw(st.integers(0, 19)) == 0:
            start += draw(st.sampled_from([-delta, delta, 1]))
        if status == "ok" or (status == "info" and draw(st.booleans())):
            state += step
        rows[number] = add(start, at=spans[number], delta=step, status=status)
    return history(*(rows[number] for number in range(len(spans))))


@st.composite
def log_histories(draw: Draw) -> tuple[tuple[Operation, ...], dict[int, int]]:
    """A history of one log, and the offset that each append of unknown outcome takes (by op_id).

    What reads show agrees with what appends were told: only the order in time may be wrong.
    """
    spans = _times(draw, draw(st.booleans()))
    orderly = draw(st.booleans())
    offsets = sorted(range(len(spans)), key=lambda number: spans[number][1]) if orderly else None
    places = offsets or draw(st.permutations(range(len(spans))))
    holes = draw(st.integers(0, 1))
    appends = {number: place * (1 + holes) for place, number in enumerate(places) if draw(st.booleans())}
    statuses = {number: draw(st.sampled_from(STATUSES)) for number in range(len(spans))}
    on_log = {
        offset: number
        for number, offset in appends.items()
        if statuses[number] == "ok" or (statuses[number] == "info" and draw(st.booleans()))
    }
    rows = []
    for number, span in enumerate(spans):
        status = statuses[number]
        if number in appends:
            rows.append(append(number + 1, appends[number], at=span, status=status))
            continue
        until = draw(st.integers(0, 1 + max([*appends.values(), 0])))
        if orderly:
            until = max([offset + 1 for offset, other in on_log.items() if spans[other][1] < span[0]], default=0)
            until += draw(st.sampled_from([0, 0, 0, 1]))
        begin = draw(st.sampled_from([0, 0, until // 2]))
        shown = {offset: other + 1 for offset, other in sorted(on_log.items()) if begin <= offset < until}
        cut = draw(st.integers(0, 4)) == 0
        if cut:
            shown = dict(list(shown.items())[: draw(st.integers(0, len(shown)))])
        rows.append(poll(shown, None if cut else until, at=span, begin=begin, status=status))
    hidden = {number: offset for number, offset in appends.items() if statuses[number] == "info"}
    return history(*rows), hidden
