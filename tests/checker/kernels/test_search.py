"""The bounded search against exhaustive search, both its forward and its depth-first half, and what it says at its bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.kernels.findings import NOTHING, Broken
from checker.kernels.search import Budget, Outcome, add_step, register_step, search_all
from tests.checker.kernels.generators import counter_histories, register_histories
from tests.checker.kernels.rows import completed, ints
from tests.histories import cas, history, read, write
from tests.oracle import counter_step, linearizable
from tests.oracle import register_step as oracle_step
from workloads.history.operation import Operation, Status

FORWARD = Budget()
DEPTH_FIRST = Budget(width=0, memo=1 << 12)
"""the forward search gives up at the first return"""


def _register(operations: Sequence[Operation], initial: int | None = None, budget: Budget = FORWARD) -> Outcome:
    rows = [row for row in operations if row.status is not Status.FAIL]
    steps = register_step(
        np.array([row.f == "read" for row in rows], dtype=np.bool_),
        np.array([row.f == "cas" for row in rows], dtype=np.bool_),
        ints([row.output[0] if row.output else NOTHING for row in rows]),
        ints([row.input[0] if row.input else NOTHING for row in rows]),
        ints([row.input[1] if len(row.input) > 1 else NOTHING for row in rows]),
    )
    return search_all(
        steps,
        ints([row.invoked_ns for row in rows]),
        ints([completed(row) for row in rows]),
        NOTHING if initial is None else initial,
        budget,
    )


@pytest.mark.parametrize("budget", [FORWARD, DEPTH_FIRST], ids=["forward", "depth-first"])
@pytest.mark.parametrize("unique", [True, False], ids=["unique", "repeated"])
def test_registers_agree_with_exhaustive_search(unique: bool, budget: Budget) -> None:
    @given(st.lists(register_histories(unique=unique), min_size=1, max_size=20))
    def agree(histories: list[tuple[tuple[Operation, ...], int | None]]) -> None:
        for operations, initial in histories:
            outcome = _register(operations, initial, budget)
            assert outcome.broken in (None, Broken.NO_ORDER)
            assert (outcome.broken is None) == linearizable(operations, oracle_step, (initial,)), operations

    agree()


@pytest.mark.parametrize("budget", [FORWARD, DEPTH_FIRST], ids=["forward", "depth-first"])
def test_uneven_counters_agree_with_exhaustive_search(budget: Budget) -> None:
    @given(st.lists(counter_histories(uneven=True), min_size=1, max_size=20))
    def agree(histories: list[tuple[Operation, ...]]) -> None:
        for operations in histories:
            outcome = _counter(operations, budget)
            assert (outcome.broken is None) == linearizable(operations, counter_step, 0), operations

    agree()


def _counter(operations: Sequence[Operation], budget: Budget) -> Outcome:
    rows = [row for row in operations if row.status is not Status.FAIL]
    steps = add_step(
        ints([row.output[0] if row.status is Status.OK else NOTHING for row in rows]),
        ints([row.input[0] for row in rows]),
    )
    return search_all(steps, ints([row.invoked_ns for row in rows]), ints([completed(row) for row in rows]), 0, budget)


def test_names_the_first_return_that_no_order_explains_and_what_was_possible() -> None:
    rows = history(
        write(1, at=(0, 1)), write(2, at=(2, 4)), write(1, at=(3, 5)), read(3, at=(6, 7)), read(9, at=(8, 9))
    )
    assert _register(rows) == Outcome(Broken.NO_ORDER, 3, (1, 2))
    assert _register(rows[:3] + history(read(2, at=(6, 7)))) == Outcome(None)


def test_an_unknown_write_explains_a_value_only_after_it_began() -> None:
    rows = write(1, at=(0, 1)), write(2, at=(1, None)), read(2, at=(2, 3)), write(1, at=(4, 5)), read(2, at=(6, 7))
    assert _register(history(*rows)).broken is Broken.NO_ORDER
    assert _register(history(*rows, write(2, at=(1, None)))).broken is None
    assert _register(history(*rows, write(2, at=(8, None)))).broken is Broken.NO_ORDER


def test_swaps_count_as_reads() -> None:
    rows = write(1, at=(0, 1)), cas(1, 1, at=(2, 3)), cas(2, 1, at=(4, 5))
    assert _register(history(*rows[:2])).broken is None
    assert _register(history(*rows)).row == 2


def test_out_of_bounds_is_unknown_and_names_the_operation() -> None:
    together = [write(1 + number % 9, at=(0, 100)) for number in range(14)]
    impossible = [*together, read(77, at=(101, 102))]
    outcome = _register(history(*impossible), budget=Budget(width=4, memo=50))
    assert outcome.broken is Broken.OVERFLOW
    many = [write(number % 3, at=(0, 100)) for number in range(70)]
    assert _register(history(*many)).broken is Broken.OVERFLOW
