"""The log in memory against the plainest list of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.candidates.reference.core.log import Log
from clusters.candidates.reference.core.messages import EpochEnd
from clusters.candidates.reference.core.records import DATA, Batch
from clusters.wire.reference_records import Command

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.just("truncate"), st.integers(0, 30), st.just(0)),
    ),
    max_size=40,
)


def build(plan: list[tuple[str, int, int]]) -> tuple[Log, list[tuple[int, int]]]:
    """A log, and the same as a list: (epoch, value) of each record; truncations at batch boundaries only."""
    log, model, bases = Log(), [], []
    epoch = value = 0
    for kind, number, count in plan:
        if kind == "append":
            epoch += number
            commands = tuple(Command("append", value + i) for i in range(count))
            bases.append(len(model))
            log.append(Batch(len(model), epoch, DATA, commands))
            model += [(epoch, value + i) for i in range(count)]
            value += count
        else:
            offset = max((base for base in [*bases, len(model)] if base <= number), default=0)
            log.truncate(offset)
            del model[offset:]
            bases = [base for base in bases if base < offset]
    return log, model


@given(plan=steps, asked=st.integers(0, 130), offset=st.integers(0, 130), limit=st.integers(1, 20))
def test_log_answers_as_a_list_would(plan: list[tuple[str, int, int]], asked: int, offset: int, limit: int) -> None:
    log, model = build(plan)
    assert log.end_offset == len(model)
    assert log.last_epoch == (model[-1][0] if model else 0)
    assert [log.epoch_at(at) for at in range(len(model))] == [epoch for epoch, _ in model]

    below = [at for at, (epoch, _) in enumerate(model) if epoch <= asked]
    expected = EpochEnd(model[below[-1]][0], below[-1] + 1) if below else EpochEnd(0, 0)
    assert log.epoch_end(asked) == expected

    records = [(batch.epoch, record.value) for batch in log.read(offset, limit) for record in batch.records]
    assert records == model[offset : offset + len(records)]
    assert records or offset >= len(model)


def test_a_batch_must_follow_the_end() -> None:
    log = Log([Batch(0, 1, DATA, (Command("append", 1),))])
    with pytest.raises(ValueError, match="ends at 1"):
        log.append(Batch(2, 1, DATA, (Command("append", 2),)))


def test_reading_stops_at_the_given_end() -> None:
    log = Log([Batch(at, 1, DATA, (Command("append", at),)) for at in range(5)])
    assert [batch.base_offset for batch in log.read(1, 10, 3)] == [1, 2]
    assert log.read(3, 10, 3) == ()


def test_the_tail_of_a_batch_keeps_its_records_and_offsets() -> None:
    batch = Batch(10, 2, DATA, tuple(Command("append", value) for value in range(4)))
    tail = batch.tail(12)
    assert (tail.base_offset, tail.end_offset, [record.value for record in tail.records]) == (12, 14, [2, 3])
    assert batch.tail(10) is batch
