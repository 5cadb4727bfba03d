"""Nodes that ended by themselves are started again, unless a fault handles them or they end again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from clusters.cluster import Cluster
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim, InForce
from nemesis.life.nodes import Nodes
from nemesis.life.supervisor import supervise
from tests.workloads.virtual_time import VirtualTimeLoop, run_virtual
from workloads.problem import Problem


class Place:
    """Three nodes in memory; those in ``doomed`` end again as soon as they are started."""

    voters = ("n1", "n2", "n3")

    def __init__(self, *down: str, doomed: tuple[str, ...] = ()) -> None:
        self.ended = set(down)
        self.doomed = doomed
        self.started: list[str] = []

    def down(self) -> tuple[str, ...]:
        return tuple(self.ended)

    def start(self, node: str) -> None:
        self.started.append(node)
        if node == "n3":
            raise Problem("node-not-started", "The machine is gone.", "")
        if node not in self.doomed:
            self.ended.discard(node)

    def incarnation(self, node: str) -> int:
        return 1 + self.started.count(node)

    def alive(self, node: str) -> bool:
        return node not in self.ended

    def exit_status(self, node: str) -> int | None:
        return 1 if node in self.ended else None

    def last_answer_ns(self, node: str) -> int | None:
        return 1 << 62 if self.alive(node) else None


@pytest.fixture(autouse=True)
def _without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


def supervised(place: Place, seconds: float, book: InForce | None = None) -> list[str]:
    said: list[str] = []

    loop = VirtualTimeLoop()

    async def live() -> None:
        where = cast(Any, place)
        field = Field(cast(Cluster, place), cast(Nodes, place), where, loop.now_ns, 1.0, in_force=book or InForce())
        ending = asyncio.Event()
        task = asyncio.create_task(supervise(field, said.append, ending=ending))
        await asyncio.sleep(seconds)
        ending.set()
        await task

    run_virtual(live(), loop)
    return said


def test_a_node_that_ended_is_started_again() -> None:
    place = Place("n2")
    assert supervised(place, 5.0) == ["n2 was started again: incarnation 2 answered"]
    assert place.started == ["n2"]


def test_it_is_left_alone_for_two_seconds() -> None:
    place = Place("n2")
    assert supervised(place, 1.9) == []


def test_a_node_that_a_fault_handles_is_left_to_it() -> None:
    place, book = Place("n1", "n2"), InForce()
    book.claim("disks", Claim(frozenset({"n2"})))
    supervised(place, 9.0, book)
    assert place.started == ["n1"]
    assert book.obstacle("disks", Claim(frozenset({"n1"})), place.voters, preserving=False) is None


@pytest.mark.parametrize(("node", "told"), [("n1", "n1 ended by itself with status 1"), ("n3", "The machine is gone.")])
def test_one_that_ends_again_and_again_stays_down(node: str, told: str) -> None:
    place = Place(node, doomed=("n1",))
    said = supervised(place, 120.0)
    assert place.started == [node] * 10
    assert said[-1].endswith(told)
