"""Faults that overlap: each is healed exactly, a node's process belongs to one of them, and a majority stays in service."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from clusters.cluster import Cluster
from clusters.links import OPEN, Links, Pair, groups, union
from nemesis.faults.execute import execute
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim, InForce
from nemesis.faults.schedule import PlannedFault
from nemesis.life.nodes import Nodes
from workloads.history.operation import FaultRow

MS = 1_000_000
VOTERS = ("n1", "n2", "n3", "n4", "n5")


@dataclass
class Place:
    """A cluster and its nodes, in memory: every call is kept in ``calls``."""

    voters: tuple[str, ...] = VOTERS
    links: Links = OPEN
    dead: set[str] = field(default_factory=set)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    clock: Any = None

    def cut(self, links: Links) -> None:
        self.links = links
        self.calls.append(("cut", links))

    def probe(self, pairs: Sequence[Pair]) -> dict[Pair, bool]:
        return {pair: pair not in self.links.cut for pair in pairs}

    def alive(self, node: str) -> bool:
        return node not in self.dead

    def exit_status(self, node: str) -> int | None:
        return -9 if node in self.dead else None

    def kill(self, node: str, reason: str = "kill") -> bool:
        self.calls.append(("kill", node))
        was_alive = node not in self.dead
        self.dead.add(node)
        return was_alive

    def start(self, node: str) -> None:
        self.calls.append(("start", node))
        self.dead.discard(node)

    def down(self) -> tuple[str, ...]:
        return tuple(self.dead)

    def incarnation(self, node: str) -> int:
        return 1


def perform(
    place: Place, plan: list[PlannedFault], *, stop_after_s: float | None = None, preserving: bool = True
) -> dict[int, list[FaultRow]]:
    """Carry the plan out; the rows of each fault as they were recorded."""
    rows: dict[int, list[FaultRow]] = {}

    async def go() -> None:
        loop = asyncio.get_running_loop()
        nodes = SimpleNamespace(
            voters=place.voters,
            observers=(),
            names=place.voters,
            kill=place.kill,
            start=place.start,
            down=place.down,
            incarnation=place.incarnation,
        )
        watch = SimpleNamespace(
            current_leader=lambda: ("n1", 4), last_answer_ns=lambda node: None if node in place.dead else 1 << 62
        )
        where = Field(cast(Cluster, place), cast(Nodes, nodes), watch, lambda: int(loop.time() * 1e9), 1.0)
        stopping = asyncio.Event()
        if stop_after_s is not None:
            loop.call_later(stop_after_s, stopping.set)
        await execute(
            where,
            plan,
            began_ns=where.now_ns(),
            stopping=stopping,
            record=lambda row: rows.setdefault(row.fault_id, []).append(row),
            show=lambda row: None,
            quorum_preserving=preserving,
        )

    asyncio.run(go())
    return rows


def planned(number: int, fault: str, at_ms: int, hold_ms: int, lane: str, **parameters: Any) -> PlannedFault:
    return PlannedFault(number, fault, at_ms * MS, hold_ms * MS, False, 0.0, lane, tuple(parameters.items()))


def test_two_cuts_are_in_force_together_and_each_is_healed_alone() -> None:
    place = Place()
    rows = perform(
        place,
        [
            planned(0, "isolate", 0, 300, "a", targets="n2"),
            planned(1, "isolate", 100, 400, "b", targets="n3"),
        ],
    )
    first = groups(["n2"], [n for n in VOTERS if n != "n2"])
    second = groups(["n3"], [n for n in VOTERS if n != "n3"])
    assert [links for what, links in place.calls if what == "cut"] == [first, union(first, second), second, OPEN]
    assert all(rows[number][-1].verified for number in (0, 1))
    assert set(rows[0][-1].links) == set(first.texts())
    begun, ended = rows[1][-1].started_ns, rows[0][-1].ended_ns
    assert begun is not None
    assert ended is not None
    assert begun < ended, "they did not overlap"


def test_a_fault_waits_while_a_majority_would_be_out_of_service() -> None:
    place = Place(voters=("n1", "n2", "n3"))
    rows = perform(
        place,
        [planned(0, "kill", 0, 300, "a", targets="n2"), planned(1, "isolate", 50, 100, "b", targets="n3")],
    )
    assert rows[0][-1].ended_ns is not None
    assert rows[1][-1].started_ns is not None
    assert rows[1][-1].started_ns >= rows[0][-1].ended_ns
    assert rows[1][-1].verified


def test_a_partition_whose_successor_must_wait_is_healed_and_not_replaced() -> None:
    place = Place(voters=("n1", "n2", "n3"))
    first = replace(planned(0, "isolate", 0, 100, "a", targets="n3"), replaced=True)
    rows = perform(
        place,
        [first, planned(1, "isolate", 100, 100, "a", targets="n2"), planned(2, "kill", 0, 400, "b", targets="n3")],
    )
    cut_n3, cut_n2, killed = (rows[number][-1] for number in (0, 1, 2))
    assert not cut_n3.replaced
    assert cut_n3.verified
    assert [bool(links.cut) for what, links in place.calls if what == "cut"] == [True, False, True, False]
    assert cut_n2.started_ns is not None
    assert killed.ended_ns is not None
    assert cut_n2.started_ns >= killed.ended_ns


def test_an_unrestricted_run_does_not_wait_for_the_quorum() -> None:
    rows = perform(
        Place(voters=("n1", "n2", "n3")),
        [planned(0, "kill", 0, 300, "a", targets="n2"), planned(1, "isolate", 50, 100, "b", targets="n3")],
        preserving=False,
    )
    assert rows[0][-1].ended_ns is not None
    assert rows[1][-1].started_ns is not None
    assert rows[1][-1].started_ns < rows[0][-1].ended_ns


def test_a_node_whose_process_one_fault_handles_is_left_alone_by_the_other() -> None:
    place = Place()
    rows = perform(
        place,
        [planned(0, "kill", 0, 300, "a", targets="n2"), planned(1, "kill", 50, 100, "b", targets="n2")],
        preserving=False,
    )
    assert [call for call in place.calls if call[0] in ("kill", "start")] == [("kill", "n2"), ("start", "n2")] * 2
    assert all(rows[number][-1].verified for number in (0, 1))


def test_all_lanes_heal_when_the_run_is_stopped_and_the_rest_is_not_reached() -> None:
    place = Place()
    rows = perform(
        place,
        [
            planned(0, "isolate", 0, 60_000, "a", targets="n2"),
            planned(1, "kill", 0, 60_000, "b", targets="n3"),
            planned(2, "kill", 90_000, 60_000, "b", targets="n3"),
        ],
        stop_after_s=0.3,
    )
    assert place.links == OPEN
    assert not place.dead
    assert (rows[2][-1].started_ns, rows[2][-1].verified) == (None, None)


def test_flapping_counts_its_cuts_and_is_no_isolation() -> None:
    place = Place()
    rows = perform(place, [planned(0, "flapping", 0, 500, "", targets="n2", cut_ms=60, open_ms=60)])
    row = rows[0][-1]
    assert row.verified, row.detail
    assert (row.links, row.isolated) == ((), ())
    cuts = [bool(links.cut) for what, links in place.calls if what == "cut"]
    assert cuts.count(True) >= 3
    assert all(one is not other for one, other in itertools.pairwise(cuts[:-1])), "each change is another one"
    assert place.links == OPEN


def test_flapping_too_slowly_is_not_verified() -> None:
    rows = perform(Place(), [planned(0, "flapping", 0, 200, "", targets="n2", cut_ms=150, open_ms=150)])
    assert rows[0][-1].verified is False
    assert "cuts" in rows[0][-1].detail


def test_a_crash_loop_ends_with_the_node_running() -> None:
    place = Place()
    rows = perform(place, [planned(0, "crash-loop", 0, 400, "", targets="n2", up_ms=40, down_ms=10)])
    assert rows[0][-1].verified, rows[0][-1].detail
    assert [what for what, _ in place.calls].count("kill") >= 3
    assert place.calls[-1] == ("start", "n2")


def test_a_crash_loop_waits_for_its_crashes_when_the_hold_is_too_short_for_them() -> None:
    place = Place()
    rows = perform(place, [planned(0, "crash-loop", 0, 30, "", targets="n2", up_ms=40, down_ms=10)])
    assert rows[0][-1].verified, rows[0][-1].detail
    assert [what for what, _ in place.calls].count("kill") == 3


def test_a_crash_loop_ends_with_the_run() -> None:
    place = Place()
    rows = perform(place, [planned(0, "crash-loop", 0, 30, "", targets="n2", up_ms=5000, down_ms=10)], stop_after_s=0.3)
    assert not rows[0][-1].verified
    assert place.dead == set()


def test_disks_of_a_majority_are_never_damaged_in_a_preserving_run() -> None:
    book = InForce()
    book.claim("a", Claim(damaged=frozenset({"n1"})))
    book.release("a")
    voters = ("n1", "n2", "n3")
    assert book.obstacle("a", Claim(damaged=frozenset({"n2"})), voters, preserving=True) is not None
    assert book.obstacle("a", Claim(damaged=frozenset({"n1"})), voters, preserving=True) is None
    assert book.obstacle("a", Claim(damaged=frozenset({"n2"})), voters, preserving=False) is None
