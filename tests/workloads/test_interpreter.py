"""Open-loop load: who is asked, how often, what is skipped, who is retired. In virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from tests.workloads.scripted import (
    INFO,
    OK,
    Answer,
    MemoryLog,
    ScriptedClient,
    ScriptedClients,
    after,
    at_once,
    no_connection,
)
from tests.workloads.virtual_time import VirtualTimeLoop, run_virtual
from workloads.generators.combinators import UntilOk
from workloads.history.operation import Completion, Invocation, Phase, Status
from workloads.interpreter import Load, LoadOptions, LoadResult, run_to_end
from workloads.problem import Problem
from workloads.recorder import Recorder
from workloads.session import Access

NODES = ("n1", "n2", "n3")


@dataclass
class Writes:
    """Unique writes, and what the generator was told of them."""

    limit: int | None = None
    asked: int = 0
    told: list[tuple[int, Invocation, Completion]] = field(default_factory=list)

    def next(self, process: int) -> Invocation | None:
        if self.asked == self.limit:
            return None
        self.asked += 1
        return Invocation("write", 0, (self.asked,))

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:
        self.told.append((process, invocation, completion))


@dataclass
class Bench:
    """A load with everything around it, in one virtual second-hand."""

    answer: Answer = at_once
    options: LoadOptions = field(default_factory=lambda: LoadOptions(100, 6, 1.0, spacing="even"))
    writes: Writes = field(default_factory=Writes)
    log: MemoryLog = field(default_factory=MemoryLog)
    loop: VirtualTimeLoop = field(default_factory=VirtualTimeLoop)

    def __post_init__(self) -> None:
        self.clients = ScriptedClients(self.answer)
        self.recorder = Recorder(self.log, self.loop.now_ns)
        self.access = Access(no_connection, NODES, self.clients)
        self.load = Load(self.access, self.writes, self.recorder, random.Random(7), self.options)

    def run(
        self, duration_s: float | None = 1.0, beside: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> LoadResult:
        async def main() -> LoadResult:
            other = asyncio.create_task(beside()) if beside else None
            result = await self.load.run(duration_s)
            if other is not None:
                await other
            return result

        return run_virtual(main(), self.loop)


def test_due_operations_are_all_sent_once_and_recorded_at_both_ends() -> None:
    bench = Bench()
    result = bench.run(1.0)

    sent = [invocation for client in bench.clients.made for invocation in client.sent]
    assert len(sent) == len(set(sent)) == result.counters.ok == 99
    assert [row["op_id"] for row in bench.log.invocations] == list(range(99))
    assert {row["op_id"] for row in bench.log.invocations} == set(bench.log.ends)
    assert len(bench.writes.told) == 99
    assert (result.counters.skipped, result.stalls, result.crashes) == (0, (), ())


def test_half_of_the_processes_are_pinned_over_all_nodes_and_never_leave() -> None:
    bench = Bench(options=LoadOptions(200, 12, 1.0, spacing="even"))
    bench.run(1.0)

    pinned = [client for client in bench.clients.made if client.pinned_to is not None]
    assert Counter(client.pinned_to for client in pinned) == {"n1": 2, "n2": 2, "n3": 2}
    assert len(bench.clients.made) == 12
    rows = bench.log.invocations
    assert {row["process"]: row["node"] for row in rows if row["pinned"]} == {
        client.process: client.pinned_to for client in pinned
    }
    assert Counter(row["pinned"] for row in rows) == {True: 100, False: 99}, "due operations alternate"


def test_too_few_processes_to_pin_one_at_each_node_are_refused() -> None:
    with pytest.raises(Problem, match="at least 6") as caught:
        Bench(options=LoadOptions(10, 5, 1.0))
    assert caught.value.usage


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"rate": float("nan")}, {"timeout_s": 0}, {"spacing": "bursts"}, {"rate": float("inf")}]
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Problem) as caught:
        LoadOptions(**{"rate": 10, "concurrency": 6, "timeout_s": 1.0, **wrong})
    assert caught.value.usage


def test_after_info_a_new_process_with_a_fresh_client_takes_over_at_the_same_place() -> None:
    async def stuck_once(client: ScriptedClient, invocation: Invocation) -> Completion:
        return INFO if client.process == 1 else OK

    bench = Bench(answer=stuck_once)
    result = bench.run(1.0)

    old, new = [client for client in bench.clients.made if client.pinned_to == "n2"]
    assert (old.process, new.process) == (1, 7)
    assert len(old.sent) == 1
    assert old.closed
    assert len(new.sent) > 5
    assert result.counters.info == 1
    processes_of_info = {row["process"] for row in bench.log.invocations if bench.log.ends[row["op_id"]][0] is INFO}
    assert processes_of_info == {1}


def test_a_process_whose_operation_failed_goes_on() -> None:
    bench = Bench(answer=after(0, Completion(Status.FAIL, error="NOT_LEADER_OR_FOLLOWER")))
    result = bench.run(1.0)
    assert len(bench.clients.made) == 6
    assert result.counters.fail == 99


def test_what_no_process_is_free_for_waits_in_a_bounded_backlog_and_is_counted_beyond_it() -> None:
    options = LoadOptions(100, 6, 60.0, spacing="even", backlog=4)
    bench = Bench(answer=after(10.0), options=options)
    result = bench.run(1.0)

    # In one second 99 operations become due, every process is busy with its first one all the time, and what waited
    # when the load stopped was never sent: that is skipped, too.
    assert result.counters.invoked == 6
    assert result.counters.ok == 6
    assert result.counters.skipped == 93


def test_a_stuck_half_does_not_hold_up_the_other() -> None:
    async def pinned_hang(client: ScriptedClient, invocation: Invocation) -> Completion:
        if client.pinned_to is not None:
            await asyncio.sleep(50)
        return OK

    bench = Bench(answer=pinned_hang, options=LoadOptions(100, 6, 60.0, spacing="even", backlog=2))
    bench.run(1.0)
    assert Counter(row["pinned"] for row in bench.log.invocations) == {True: 3, False: 49}


def test_a_waiting_operation_is_sent_as_soon_as_a_process_of_its_half_is_free() -> None:
    bench = Bench(answer=after(0.25), options=LoadOptions(40, 6, 1.0, spacing="even", backlog=10))
    bench.load.phase = Phase.RECOVERY
    bench.run(1.0)
    pinned = [row for row in bench.log.invocations if row["pinned"]]
    # Due at 25, 75, 125 and 175 ms; the fourth finds three busy processes, of which the first ends at 275 ms.
    assert [row["at_ns"] / 1e6 for row in pinned[:4]] == pytest.approx([25, 75, 125, 275], abs=2)
    assert {row["phase"] for row in pinned} == {Phase.RECOVERY}


def test_stop_sends_nothing_more_and_lets_what_is_in_flight_end() -> None:
    bench = Bench(answer=after(0.5))

    async def stop_soon() -> None:
        await asyncio.sleep(0.2)
        assert bench.load.progress().in_flight == 6
        bench.load.stop()

    result = bench.run(None, stop_soon)
    assert result.counters.ok == result.counters.invoked == 6
    assert len(bench.log.ends) == 6
    assert bench.loop.time() < 1.0
    assert all(client.closed for client in bench.clients.made)


def test_a_client_that_does_not_return_is_given_up_and_its_operation_is_info() -> None:
    async def hang(client: ScriptedClient, invocation: Invocation) -> Completion:
        await asyncio.Event().wait()
        raise AssertionError

    bench = Bench(answer=hang)
    result = bench.run(0.5)
    assert result.counters.info == result.counters.invoked == 6
    assert {end[0].error for end in bench.log.ends.values()} == {"client-overdue"}
    assert bench.loop.time() == pytest.approx(2.1, abs=0.1), "timeout, a second of grace, and no more"


def test_a_client_that_raises_makes_info_and_is_reported() -> None:
    async def broken(client: ScriptedClient, invocation: Invocation) -> Completion:
        raise RuntimeError("a defect of the client")

    result = Bench(answer=broken).run(0.1)
    assert result.counters.info == result.counters.invoked > 0
    assert result.crashes[0] == "RuntimeError: a defect of the client"


def test_cancelling_the_load_leaves_its_operations_open() -> None:
    bench = Bench(answer=after(100))

    async def main() -> None:
        task = asyncio.create_task(bench.load.run(50))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run_virtual(main(), bench.loop)
    assert len(bench.log.invocations) == 6
    assert bench.log.ends == {}


def test_the_load_ends_when_the_generator_has_nothing_more() -> None:
    bench = Bench(writes=Writes(limit=10))
    result = bench.run(None)
    assert result.counters.ok == 10


def test_a_controller_that_did_not_run_says_so_and_does_not_catch_up() -> None:
    bench = Bench(answer=after(0.01), options=LoadOptions(100, 6, 1.0, spacing="even", backlog=3))

    async def stand_still() -> None:
        await asyncio.sleep(0.3)
        bench.loop.stall(0.4)

    result = bench.run(1.0, stand_still)
    ((from_ns, to_ns),) = result.stalls
    assert from_ns == pytest.approx(0.32e9, abs=0.03e9)
    assert to_ns == pytest.approx(0.7e9, abs=0.03e9)
    assert result.counters.skipped >= 40 - 2 * (3 + 3), "a burst is no load: what did not fit is skipped"
    assert result.counters.invoked + result.counters.skipped == 99


def test_poisson_and_even_spacing_keep_the_rate() -> None:
    bench = Bench(options=LoadOptions(500, 6, 1.0, spacing="poisson"))
    result = bench.run(10.0)
    assert result.counters.invoked + result.counters.skipped == pytest.approx(5000, rel=0.1)


def test_arrivals_and_invocations_repeat_with_the_seed() -> None:
    def once() -> list[tuple[object, ...]]:
        bench = Bench(options=LoadOptions(200, 6, 1.0))
        bench.run(2.0)
        return [(row["at_ns"], row["process"], row["invocation"]) for row in bench.log.invocations]

    assert once() == once()


def test_progress_tells_counts_rate_and_a_hint_of_the_leader() -> None:
    bench = Bench()

    async def look() -> None:
        await asyncio.sleep(0.01)
        bench.load.progress()
        await asyncio.sleep(0.895)
        progress = bench.load.progress()
        assert progress.counters.ok == 90
        assert progress.per_second == pytest.approx(100, rel=0.02)
        assert (progress.in_flight, progress.waiting, progress.leader_hint) == (0, 0, "n1")

    bench.run(1.0, look)


def test_who_looks_seldom_is_told_the_rate_since_the_last_look() -> None:
    bench = Bench()

    async def look() -> None:
        for _ in range(2):
            await asyncio.sleep(5.0)
            assert bench.load.progress().per_second == pytest.approx(100, rel=0.02)

    bench.run(12.0, look)


# -------------------------------------------------------------------------------------------------- sequences


def perform(
    answer: Answer, *, limit_s: float, pinned: bool = True
) -> tuple[dict[str, bool], MemoryLog, ScriptedClients, VirtualTimeLoop]:
    loop = VirtualTimeLoop()
    log = MemoryLog()
    clients = ScriptedClients(answer)
    values = count(1)
    generators = {
        node: UntilOk([lambda: Invocation("write", 0, (next(values),)), lambda: Invocation("read", 0)])
        for node in NODES
    }
    done = run_virtual(
        run_to_end(
            Access(no_connection, NODES, clients),
            generators,
            Recorder(log, loop.now_ns),
            pinned=pinned,
            phase=Phase.FINAL,
            first_process=100,
            timeout_s=1.0,
            limit_s=limit_s,
        ),
        loop,
    )
    return done, log, clients, loop


def test_a_sequence_does_every_step_at_every_node() -> None:
    done, log, clients, _ = perform(at_once, limit_s=5)
    assert done == {"n1": True, "n2": True, "n3": True}
    assert Counter((row["node"], row["invocation"].f) for row in log.invocations) == {
        (node, f): 1 for node in NODES for f in ("write", "read")
    }
    assert [client.process for client in clients.made] == [100, 101, 102]


def test_a_step_that_is_not_ok_is_asked_again_as_a_new_operation_with_a_new_value() -> None:
    async def second_time(client: ScriptedClient, invocation: Invocation) -> Completion:
        return INFO if client.process == 100 else OK

    done, log, _, _ = perform(second_time, limit_s=5)
    assert all(done.values())
    first = [row for row in log.invocations if row["node"] == "n1"]
    assert [(row["process"], row["invocation"].f) for row in first] == [(100, "write"), (103, "write"), (103, "read")]
    writes = [row["invocation"].input for row in log.invocations if row["invocation"].f == "write"]
    assert len(writes) == len(set(writes)) == 4


def test_a_node_that_never_answers_ends_its_sequence_at_the_limit_and_no_other() -> None:
    async def n2_fails(client: ScriptedClient, invocation: Invocation) -> Completion:
        return Completion(Status.FAIL, error="not-connected") if client.node == "n2" else OK

    done, _, _, loop = perform(n2_fails, limit_s=5)
    assert done == {"n1": True, "n2": False, "n3": True}
    assert loop.time() == pytest.approx(5, abs=0.1)
