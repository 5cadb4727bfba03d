"""The kernels for known positions against exhaustive search, and each contradiction by hand beside its legal twin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checker.kernels.findings import NOTHING, Broken, Findings
from checker.kernels.floor import Additions, CounterFindings, Placed, below_floor, counter
from tests.checker.kernels.generators import counter_histories, log_histories
from tests.checker.kernels.rows import completed, ints
from tests.histories import add, append, history, poll
from tests.oracle import counter_step, linearizable, log_step
from workloads.history.operation import Operation, Status


def _logs(histories: Sequence[tuple[Sequence[Operation], dict[int, int]]]) -> tuple[Findings, list[int]]:
    """Judge logs; also the segment of each row."""
    segment, invoked, ended, position, at_least = [], [], [], [], []
    for number, (operations, hidden) in enumerate(histories):
        shown = {offset for row in operations if row.f == "poll" for offset in row.output[0::2]}
        for row in operations:
            if row.f == "append":
                offset = row.offset if row.status is Status.OK else hidden.get(row.op_id)
                if offset is None or (row.status is Status.INFO and offset not in shown):
                    continue
                place, least = 2 * offset + 1, False
            elif row.status is Status.OK:
                last = max(row.output[0::2], default=-1)
                place, least = 2 * (last + 1 if row.offset is None else row.offset), row.offset is None
            else:
                continue
            segment.append(number)
            invoked.append(row.invoked_ns)
            ended.append(completed(row))
            position.append(place)
            at_least.append(least)
    found = below_floor(
        Placed(ints(segment), ints(invoked), ints(ended), ints(position)), np.array(at_least, dtype=np.bool_)
    )
    return found, segment


def _counters(histories: Sequence[Sequence[Operation]], initial: int = 0) -> CounterFindings:
    rows = [
        (number, row)
        for number, operations in enumerate(histories)
        for row in operations
        if row.status is not Status.FAIL
    ]
    return counter(
        Additions(
            ints([number for number, _ in rows]),
            ints([row.invoked_ns for _, row in rows]),
            ints([completed(row) for _, row in rows]),
            ints([row.output[0] if row.status is Status.OK else NOTHING for _, row in rows]),
            ints([row.input[0] for _, row in rows]),
            ints([initial] * len(histories)),
        )
    )


def _kinds(found: Findings) -> list[tuple[Broken, list[int]]]:
    return [(Broken(kind), rows[rows >= 0].tolist()) for kind, rows in zip(found.kind, found.rows, strict=True)]


@given(st.lists(log_histories(), min_size=1, max_size=40))
def test_logs_agree_with_exhaustive_search(histories: list[tuple[tuple[Operation, ...], dict[int, int]]]) -> None:
    found, segment = _logs(histories)
    convicted = {segment[row] for row in found.rows[:, 1]}
    for number, (operations, hidden) in enumerate(histories):
        if _values_agree(operations):
            assert (number not in convicted) == linearizable(operations, log_step(hidden), (0,)), operations


def _values_agree(operations: Sequence[Operation]) -> bool:
    """Whether no read leaves out what it covers and was appended for certain: another check's business."""
    known = {row.offset for row in operations if row.f == "append" and row.status is Status.OK}
    known |= {offset for row in operations if row.f == "poll" for offset in row.output[0::2]}
    for row in operations:
        if row.f == "poll" and row.status is Status.OK:
            until = max(row.output[0::2], default=-1) + 1 if row.offset is None else row.offset
            if any(offset in known and offset not in row.output[0::2] for offset in range(row.input[0], until)):
                return False
    return True


@given(st.lists(counter_histories(), min_size=1, max_size=40))
def test_counters_agree_with_exhaustive_search(histories: list[tuple[Operation, ...]]) -> None:
    found, unfit = _counters(histories)
    assert len(unfit) == 0
    kept = [number for number, rows in enumerate(histories) for row in rows if row.status is not Status.FAIL]
    convicted = {kept[row] for row in found.rows[:, 1]}
    for number, operations in enumerate(histories):
        assert (number not in convicted) == linearizable(operations, counter_step, 0), operations


@given(st.lists(counter_histories(uneven=True), min_size=1, max_size=40))
def test_uneven_counters_agree_or_are_left_to_the_search(histories: list[tuple[Operation, ...]]) -> None:
    found, unfit = _counters(histories)
    kept = [number for number, rows in enumerate(histories) for row in rows if row.status is not Status.FAIL]
    convicted = {kept[row] for row in found.rows[:, 1]}
    for number, operations in enumerate(histories):
        legal = linearizable(operations, counter_step, 0)
        assert not (number in convicted and legal), operations
        assert legal or number in convicted or number in unfit, operations


def test_append_below_an_acknowledged_one() -> None:
    first = append(7, 12, at=(0, 1))
    found, _ = _logs([(history(first, append(9, 10, at=(2, 3))), {})])
    assert _kinds(found) == [(Broken.BELOW_FLOOR, [0, 1])]
    found, _ = _logs([(history(first, append(9, 10, at=(1, 3))), {})])
    assert _kinds(found) == []


def test_stale_poll() -> None:
    rows = append(7, 0, at=(0, 1)), append(8, 1, at=(2, 3)), poll({0: 7}, 1, at=(4, 5))
    assert _kinds(_logs([(history(*rows), {})])[0]) == [(Broken.BELOW_FLOOR, [1, 2])]
    rows = append(7, 0, at=(0, 1)), append(8, 1, at=(2, 3)), poll({0: 7}, 1, at=(2, 5))
    assert _kinds(_logs([(history(*rows), {})])[0]) == []


def test_poll_cut_off_by_size_is_never_stale_but_binds_others() -> None:
    cut = poll({0: 7}, None, at=(4, 5))
    rows = append(7, 0, at=(0, None)), append(8, 1, at=(2, 3)), cut
    assert _kinds(_logs([(history(*rows), {0: 0})])[0]) == []
    rows = append(7, 0, at=(0, None)), poll({0: 7}, None, at=(1, 2)), poll({}, 0, at=(3, 4))
    assert _kinds(_logs([(history(*rows), {0: 0})])[0]) == [(Broken.BELOW_FLOOR, [1, 2])]


def test_two_additions_with_one_answer() -> None:
    assert _kinds(_counters([history(add(0, at=(0, 3)), add(0, at=(1, 4)))]).found) == [(Broken.OVERLAP, [0, 1])]
    assert _kinds(_counters([history(add(0, at=(0, 3)), add(1, at=(1, 4)))]).found) == []


def test_addition_that_went_back() -> None:
    found = _counters([history(add(0, at=(0, 9)), add(2, at=(1, 2)), add(1, at=(3, 4)))]).found
    assert _kinds(found) == [(Broken.BELOW_FLOOR, [1, 2])]


def test_gap_needs_an_unknown_addition_that_began_in_time() -> None:
    gap = add(0, at=(0, 1), delta=10), add(20, at=(2, 3), delta=10)
    assert _kinds(_counters([history(*gap)]).found) == [(Broken.GAP, [0, 1])]
    assert _kinds(_counters([history(*gap, add(None, at=(3, None), delta=10))]).found) == []
    assert _kinds(_counters([history(*gap, add(None, at=(4, None), delta=10))]).found) == [(Broken.GAP, [0, 1])]
    assert _kinds(_counters([history(*gap, add(None, at=(0, 1), delta=10, status="fail"))]).found) == [
        (Broken.GAP, [0, 1])
    ]


def test_first_answer_is_the_initial_value() -> None:
    assert _kinds(_counters([history(add(10, at=(0, 1), delta=10))]).found) == [(Broken.GAP, [0])]
    assert _kinds(_counters([history(add(10, at=(0, 1), delta=10))], initial=NOTHING).found) == []
