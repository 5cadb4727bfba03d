"""The register kernel against exhaustive search, and each contradiction by hand beside its legal twin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from checker.kernels.blocks import registers
from checker.kernels.findings import NOTHING, Broken
from tests.checker.kernels.generators import register_histories
from tests.checker.kernels.rows import registers_of
from tests.histories import cas, history, read, write
from tests.oracle import linearizable, register_step
from workloads.history.operation import Operation


def _found(*operations: Operation) -> list[tuple[Broken, tuple[int, ...]]]:
    found, unfit = registers(registers_of([history(*operations)]))
    assert len(unfit) == 0
    return [(Broken(kind), tuple(int(row) for row in rows)) for kind, rows in zip(found.kind, found.rows, strict=True)]


@given(st.lists(register_histories(), min_size=1, max_size=40))
def test_agrees_with_exhaustive_search(histories: list[tuple[tuple[Operation, ...], int | None]]) -> None:
    rows = registers_of(
        [rows for rows, _ in histories], [NOTHING if first is None else first for _, first in histories]
    )
    found, unfit = registers(rows)
    assert len(unfit) == 0
    convicted = {int(rows.segment[max(four)]) for four in found.rows}
    for number, (operations, initial) in enumerate(histories):
        assert (number not in convicted) == linearizable(operations, register_step, (initial,)), operations


def test_stale_read_and_twin() -> None:
    old, new = write(12, at=(0, 1)), write(17, at=(2, 3))
    assert _found(old, new, read(12, at=(4, 5))) == [(Broken.INTERLEAVED, (0, 1, 1, 2))]
    assert _found(old, new, read(12, at=(3, 5))) == []  # equal times are concurrent


def test_stale_read_of_the_unwritten_register() -> None:
    assert _found(write(17, at=(0, 1)), read(None, at=(2, 3))) == [(Broken.INTERLEAVED, (-1, 0, 0, 1))]
    assert _found(write(17, at=(0, 1)), read(None, at=(1, 3))) == []


def test_two_reads_that_disagree_about_the_order() -> None:
    writes = write(1, at=(0, 9)), write(2, at=(0, 9))
    reads = read(1, at=(1, 2)), read(2, at=(3, 4))
    assert _found(*writes, *reads) == []
    assert _found(*writes, *reads, read(1, at=(5, 6))) == [(Broken.INTERLEAVED, (2, 3, 3, 4))]


def test_read_before_its_write_began() -> None:
    assert _found(read(1, at=(0, 1)), write(1, at=(2, 3))) == [(Broken.OUT_OF_ORDER, (0, 1, -1, -1))]
    assert _found(read(1, at=(0, 2)), write(1, at=(2, 3))) == []


def test_read_of_a_value_that_nobody_wrote() -> None:
    assert _found(write(1, at=(0, 1)), read(5, at=(2, 3))) == [(Broken.NEVER_WRITTEN, (1, -1, -1, -1))]
    assert _found(write(5, at=(0, 1)), read(5, at=(2, 3))) == []


def test_read_of_a_failed_write() -> None:
    assert _found(write(5, at=(0, 1), status="fail"), read(5, at=(2, 3)))[0][0] is Broken.ABORTED
    assert _found(write(5, at=(0, None)), read(5, at=(2, 3))) == []


def test_unknown_write_may_take_effect_late_but_not_before_it_began() -> None:
    late = write(2, at=(1, None))
    assert _found(write(1, at=(0, 5)), late, read(1, at=(6, 7)), read(2, at=(8, 9))) == []
    assert _found(read(2, at=(0, 0.5)), late) == [(Broken.OUT_OF_ORDER, (0, 1, -1, -1))]


def test_two_swaps_of_one_value() -> None:
    first = write(1, at=(0, 1))
    assert _found(first, cas(1, 2, at=(2, 5)), cas(1, 3, at=(2, 5))) == [(Broken.SWAPPED_TWICE, (1, 2, -1, -1))]
    assert _found(first, cas(1, 2, at=(2, 5)), cas(2, 3, at=(2, 5))) == []


def test_cycle_of_swaps() -> None:
    kinds = [kind for kind, _ in _found(cas(1, 2, at=(0, 9)), cas(2, 3, at=(0, 9)), cas(3, 1, at=(0, 9)))]
    assert kinds == [Broken.SWAP_CYCLE]


def test_read_of_a_value_already_swapped_away() -> None:
    chain = write(1, at=(0, 1)), cas(1, 2, at=(2, 3))
    assert _found(*chain, read(1, at=(4, 5))) == [(Broken.OUT_OF_ORDER, (1, 2, -1, -1))]
    assert _found(*chain, read(1, at=(3, 5))) == []


def test_unknown_swap_counts_when_its_value_was_seen() -> None:
    chain = write(1, at=(0, 1)), cas(1, 2, at=(2, None))
    assert _found(*chain, read(1, at=(4, 5))) == []
    assert _found(*chain, read(2, at=(4, 5)), read(1, at=(6, 7))) == [(Broken.OUT_OF_ORDER, (2, 3, -1, -1))]


def test_values_that_are_not_unique_are_left_to_the_search() -> None:
    found, unfit = registers(registers_of([history(write(1, at=(0, 1)), write(1, at=(2, 3)))]))
    assert found.total == 0
    assert unfit.tolist() == [0]
