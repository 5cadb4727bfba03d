"""Generators: unique values, sensible expectations, the same from the same seed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.clients.null import NullObjects
from workloads.generators.combinators import UntilOk
from workloads.generators.counting import Additions
from workloads.generators.generator import Generator
from workloads.generators.log_mix import LogMix, LogShares, LogToEnd
from workloads.generators.register_mix import RegisterMix, RegisterShares, UniqueValues
from workloads.history.operation import Completion, Consistency, Invocation, Status

OK = Completion(Status.OK)
FAIL = Completion(Status.FAIL, error="NOT_LEADER_OR_FOLLOWER")
INFO = Completion(Status.INFO, error="timed-out")


def register(seed: int = 1, keys: int = 3, read: float = 0.4, cas: float = 0.3, **more: float) -> RegisterMix:
    return RegisterMix(random.Random(seed), keys, RegisterShares(read, cas, **more), UniqueValues())  # type: ignore[arg-type]


def play(generator: Generator, seed: int, count: int) -> list[tuple[int, Invocation, Completion]]:
    """Ask for operations of five processes, with ends drawn from the seed."""
    draw = random.Random(seed)
    played = []
    for _ in range(count):
        process = draw.randrange(5)
        invocation = generator.next(process)
        assert invocation is not None
        completion = draw.choice((OK, OK, FAIL, INFO))
        if invocation.f == "read" and completion is OK:
            completion = Completion(Status.OK, (draw.randrange(1, 50),))
        generator.update(process, invocation, completion)
        played.append((process, invocation, completion))
    return played


@given(seed=st.integers(0, 2**32), keys=st.integers(1, 20))
def test_no_value_is_written_twice_whatever_the_key(seed: int, keys: int) -> None:
    played = play(register(seed, keys), seed, 300)
    written = [invocation.input[-1] for _, invocation, _ in played if invocation.f in ("write", "cas")]
    assert len(written) == len(set(written))
    assert all(0 <= invocation.key < keys for _, invocation, _ in played if invocation.key is not None)


@given(seed=st.integers(0, 2**32))
def test_the_same_seed_and_the_same_ends_ask_the_same(seed: int) -> None:
    assert play(register(seed), seed, 200) == play(register(seed), seed, 200)
    logs = [LogMix(random.Random(seed), LogShares(0.5), UniqueValues()) for _ in range(2)]
    assert play(logs[0], seed, 200) == play(logs[1], seed, 200)


def test_a_compare_and_set_expects_what_its_process_saw_last() -> None:
    only_cas = register(read=0.0, cas=1.0, keys=1)
    first = only_cas.next(0)
    assert first.f == "write", "nothing is known yet"
    only_cas.update(0, first, OK)
    assert only_cas.next(0).input == (first.input[0], 2)
    only_cas.update(0, Invocation("read", 0), Completion(Status.OK, (77,)))
    assert only_cas.next(0).input[0] == 77


def test_a_compare_and_set_expects_what_it_or_anybody_saw_last_and_never_what_is_not_acknowledged() -> None:
    only_cas = register(read=0.0, cas=1.0, keys=1)
    only_cas.update(0, Invocation("write", 0, (40,)), OK)
    only_cas.update(1, Invocation("cas", 0, (40, 41)), OK)
    only_cas.update(2, Invocation("write", 0, (42,)), FAIL)
    only_cas.update(3, Invocation("write", 0, (43,)), INFO)
    assert {only_cas.next(9).input[0] for _ in range(20)} == {41}
    assert {only_cas.next(0).input[0] for _ in range(50)} == {40, 41}


def test_most_compare_and_sets_succeed_where_nothing_fails() -> None:
    generator = register(read=0.4, cas=0.3)
    ends: Counter[tuple[str, Status]] = Counter()
    client = NullObjects()(None, ("n1",), None, 0)  # type: ignore[arg-type]
    for number in range(3000):
        invocation = generator.next(number % 5)
        coroutine = client.invoke(invocation, 1.0)
        with pytest.raises(StopIteration) as stopped:
            coroutine.send(None)
        completion = stopped.value.value
        generator.update(number % 5, invocation, completion)
        ends["cas" if invocation.f == "cas" else "other", completion.status] += 1
    succeeded = ends["cas", Status.OK]
    assert 0.2 < succeeded / (succeeded + ends["cas", Status.FAIL]) < 0.9, "both ends must be common"


def test_shares_are_kept_and_stale_reads_are_marked() -> None:
    played = play(register(read=0.5, cas=0.0, stale_share=0.4), 1, 4000)
    reads = [invocation for _, invocation, _ in played if invocation.f == "read"]
    assert len(reads) / 4000 == pytest.approx(0.5, abs=0.03)
    stale = sum(invocation.consistency is Consistency.STALE for invocation in reads)
    assert stale / len(reads) == pytest.approx(0.4, abs=0.04)


@pytest.mark.parametrize("shares", [(0.8, 0.3), (-0.1, 0.2), (0.5, 0.1, 1.5)])
def test_impossible_shares_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="shares"):
        RegisterShares(*shares)  # type: ignore[arg-type]


def test_polls_go_on_where_the_last_one_ended() -> None:
    log = LogMix(random.Random(1), LogShares(poll=1.0, back=0.0), UniqueValues())
    assert log.next(0).input == (0,)
    log.update(0, Invocation("poll", None, (0,)), Completion(Status.OK, (0, 10, 1, 11), offset=2))
    assert log.next(0).input == (2,)
    log.update(0, Invocation("poll", None, (2,)), FAIL)
    assert log.next(0).input == (2,)
    # Offsets 2 and 3 hold no data: the answer is empty, and read up to its high watermark.
    log.update(0, Invocation("poll", None, (2,)), Completion(Status.OK, (), offset=4))
    assert log.next(0).input == (4,)


def test_a_new_process_polls_from_near_the_end_and_some_polls_go_back() -> None:
    log = LogMix(random.Random(1), LogShares(poll=1.0, back=0.5, back_records=20), UniqueValues())
    log.update(9, Invocation("append", None, (1,)), Completion(Status.OK, offset=999))
    starts = {log.next(0).input[0] for _ in range(200)}
    assert max(starts) == 980
    assert min(starts) >= 960
    assert len(starts) > 10


def test_the_final_poll_reads_all_and_ends_where_nothing_is_left() -> None:
    values = [10, 11, 12, 13, 14]
    log = LogToEnd(Consistency.LINEARIZABLE)
    seen: list[int] = []
    asked = 0
    while (invocation := log.next(0)) is not None:
        asked += 1
        assert asked < 10
        start = invocation.input[0]
        if asked == 2:
            log.update(0, invocation, FAIL)
            continue
        part = list(enumerate(values))[start : start + 2]
        seen += [offset for offset, _ in part]
        log.update(0, invocation, Completion(Status.OK, tuple(x for pair in part for x in pair), offset=len(values)))
    assert seen == [0, 1, 2, 3, 4]
    assert asked == 5, "one that failed, three with records, one that brought nothing"


def test_additions_are_all_alike() -> None:
    assert {Additions(1000).next(process).input for process in range(9)} == {(1000,)}
    with pytest.raises(ValueError, match="only added to"):
        Additions(0)


def test_steps_are_repeated_until_ok_with_a_fresh_invocation() -> None:
    values = UniqueValues()
    steps = UntilOk([lambda: Invocation("write", 1, (values.take(),)), lambda: Invocation("read", 1)])
    asked = []
    for completion in (INFO, FAIL, OK, FAIL, OK):
        invocation = steps.next(0)
        assert invocation is not None
        asked.append(invocation)
        steps.update(0, invocation, completion)
    assert [each.f for each in asked] == ["write", "write", "write", "read", "read"]
    assert [each.input for each in asked[:3]] == [(1,), (2,), (3,)]
    assert steps.next(0) is None
