"""Workloads as the controller uses them: options, plans, defaults."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.workloads.scripted import MemoryLog, no_connection
from workloads.clients.null import NullObjects
from workloads.history.operation import Consistency, Phase, Status
from workloads.interpreter import FINAL_PROCESSES, SETUP_PROCESSES, Load, LoadOptions, run_to_end
from workloads.problem import Problem
from workloads.recorder import Recorder
from workloads.registry import WORKLOADS, workload
from workloads.session import Access
from workloads.workload import Workload

NODES = ("n1", "n2", "n3")


def drive(work: Workload, kind: str, operations: int = 300) -> MemoryLog:
    """Set up, load and read for the last time, against objects that are always right."""
    log = MemoryLog()
    clock = iter(range(10**9))
    recorder = Recorder(log, lambda: next(clock))
    access = Access(no_connection, NODES, NullObjects())
    plan = work.make_plan(random.Random(3), work.candidate_options[kind])

    async def main() -> None:
        options = LoadOptions(rate=20_000, concurrency=8, timeout_s=5)
        parts = {"recorder": recorder, "timeout_s": 5.0, "limit_s": 60.0}
        done = await run_to_end(
            access, {"n1": plan.setup}, pinned=False, phase=Phase.LOAD, first_process=SETUP_PROCESSES, **parts
        )
        assert done == {"n1": True}
        load = Load(access, plan.load, recorder, random.Random(4), options)
        running = asyncio.create_task(load.run())
        while load.counters.ok < operations:
            await asyncio.sleep(0)
        load.stop()
        await running
        done = await run_to_end(
            access,
            {node: plan.final(node) for node in NODES},
            pinned=plan.final_pinned,
            phase=Phase.FINAL,
            first_process=FINAL_PROCESSES,
            **parts,
        )
        assert done == dict.fromkeys(NODES, True)

    asyncio.run(asyncio.wait_for(main(), 60))
    return log


@pytest.mark.parametrize(
    ("work", "kind"),
    [(work, kind) for work in WORKLOADS for kind in work.pace],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_whole_load_against_right_objects(work: Workload, kind: str) -> None:
    log = drive(work, kind)
    assert len(log.ends) == len(log.invocations) > 300
    assert {end.status for end, _ in log.ends.values()} <= {Status.OK, Status.FAIL}
    phases = [row["phase"] for row in log.invocations]
    assert phases.count(Phase.FINAL) >= 3


def test_final_reads_of_registers_ask_every_node_for_every_key() -> None:
    log = drive(workload("register"), "reference")
    final = {(row["node"], row["invocation"].key) for row in log.invocations if row["phase"] is Phase.FINAL}
    assert final == {(node, key) for node in NODES for key in range(12)}


def test_final_polls_read_the_whole_log_at_every_node() -> None:
    log = drive(workload("log"), "reference")
    appended = {row["invocation"].input[0] for row in log.invocations if row["invocation"].f == "append"}
    for node in NODES:
        seen: set[int] = set()
        for row in log.invocations:
            if row["phase"] is Phase.FINAL and row["node"] == node:
                seen |= set(log.ends[row["op_id"]][0].output[1::2])
        assert seen == appended


def test_kafka_offers_neither_compare_and_set_nor_linearizable_reads() -> None:
    invocations = [row["invocation"] for row in drive(workload("register"), "kafka").invocations]
    assert {each.f for each in invocations} == {"read", "write"}
    assert {each.consistency for each in invocations if each.f == "read"} == {Consistency.STALE}


@pytest.mark.parametrize(
    ("name", "kind", "pinned"),
    [
        ("register", "reference", True),
        ("register", "kafka", True),
        ("log", "reference", True),
        ("log", "kafka", False),
        ("counter", "kafka", False),
    ],
)
def test_final_operations_stay_at_a_node_only_where_every_node_serves_them(name: str, kind: str, pinned: bool) -> None:
    work = workload(name)
    assert work.make_plan(random.Random(1), work.candidate_options[kind]).final_pinned is pinned


def test_setup_and_load_share_one_counter_of_values() -> None:
    log = drive(workload("register"), "reference")
    written = [row["invocation"].input[-1] for row in log.invocations if row["invocation"].f in ("write", "cas")]
    assert len(written) == len(set(written))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("register", {"kyes": 3}, "keys"),
        ("register", {"reads": "eventual"}, "linearizable or stale"),
        ("register", {"keys": 0}, "keys"),
        ("log", {"poll_share": 7}, "shares"),
        ("counter", {"delta": -1}, "delta"),
    ],
)
def test_wrong_options_are_told_with_a_remedy(name: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(Problem, match=says) as caught:
        workload(name).make_plan(random.Random(1), options)
    assert caught.value.usage


def test_an_unknown_workload_is_told_with_what_there_is() -> None:
    with pytest.raises(Problem, match="Did you mean register"):
        workload("registre")
    assert [work.name for work in WORKLOADS] == ["register", "log", "counter"]
