"""Changes of the voter set (KIP-853): what an answer means, who asks for what, and a real quorum whose voters come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusters.wire.errors import error_code
from nemesis import scenario
from nemesis.faults import membership
from nemesis.faults.fault import Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import NOTHING
from nemesis.faults.membership import ChangeVoters, restore_voters
from nemesis.faults.schedule import NS, PlannedFault
from nemesis.life.plan import RunOptions, plan_run
from tests.clusters.conformance.grounds import GROUNDS
from tests.nemesis.effects import Lived
from tests.runs import perform
from workloads.clients.voter_changes import Change, ChangeResult, Voter, read_result
from workloads.problem import Problem

DISKS = {"n1": "d1", "n2": "d2", "n3": "d3", "n4": "d4"}


class Leader:
    """A leader that installs one change at a time, as KIP-853 tells it, and lists its voters. ``lost`` changes get no answer."""

    def __init__(self, *voters: str) -> None:
        self.listed = set(voters)
        self.asked: list[str] = []
        self.lost: set[str] = set()
        self.busy = False
        self.deposed = 0
        """how often it answers that it does not lead"""

    async def add(self, leader: str, voter: Voter, timeout_s: float) -> Change:
        known = any(each.startswith(f"{voter.node}/") for each in self.listed)
        return await self._change("add", voter, "DUPLICATE_VOTER" if known else "")

    async def remove(self, leader: str, voter: Voter, timeout_s: float) -> Change:
        return await self._change("remove", voter, "" if str(voter) in self.listed else "VOTER_NOT_FOUND")

    async def _change(self, action: str, voter: Voter, refusal: str) -> Change:
        self.asked.append(f"{action} {voter}")
        if self.deposed:
            self.deposed -= 1
            return Change(action, voter, ChangeResult.UNKNOWN, "NOT_LEADER_OR_FOLLOWER", led=False)
        if refusal:
            return Change(action, voter, ChangeResult.REFUSED, refusal)
        if self.busy:
            return Change(action, voter, ChangeResult.UNKNOWN, "REQUEST_TIMED_OUT")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        (self.listed.add if action == "add" else self.listed.remove)(str(voter))
        unanswered = str(voter) in self.lost
        return Change(action, voter, ChangeResult.UNKNOWN if unanswered else ChangeResult.INSTALLED)


def field_of(leader: Leader, disks: dict[str, str] | None = None) -> Field:
    disks = DISKS if disks is None else disks
    nodes = SimpleNamespace(
        voters=("n1", "n2", "n3"),
        observers=("n4",),
        identities=lambda: {name: (disk, False) for name, disk in disks.items()},
        specification=lambda name: SimpleNamespace(address=f"10.0.0.{name[1:]}", port=9093),
        down=lambda: (),
    )
    watch = SimpleNamespace(current_leader=lambda: ("n1", 3), voters=lambda: frozenset(leader.listed))
    clock = iter(range(0, 10**15, 50_000_000))
    return Field(
        cast("Any", None), cast("Any", nodes), watch, lambda: next(clock), 1.0, voter_changes=cast("Any", leader)
    )


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_PAUSE_S", 0.0)


def carry_out(fault: Any, field: Field) -> tuple[Effect, Effect]:
    """The effects of injecting and of healing."""

    async def go() -> tuple[Effect, Effect]:
        aim = await fault.aim(field, PlannedFault(0, "x", 0, 1, False, 0.0))
        assert not isinstance(aim, str), aim
        return await fault.inject(field, aim), await fault.heal(field, aim)

    return asyncio.run(go())


BEGINNING = ("n1/d1", "n2/d2", "n3/d3")


@pytest.mark.parametrize(
    ("error", "result"),
    [
        ("NONE", ChangeResult.INSTALLED),
        ("NOT_LEADER_OR_FOLLOWER", ChangeResult.UNKNOWN),
        ("DUPLICATE_VOTER", ChangeResult.REFUSED),
        ("VOTER_NOT_FOUND", ChangeResult.REFUSED),
        ("UNSUPPORTED_VERSION", ChangeResult.REFUSED),
        ("REQUEST_TIMED_OUT", ChangeResult.UNKNOWN),
        ("UNKNOWN_SERVER_ERROR", ChangeResult.UNKNOWN),
    ],
)
def test_only_what_is_decided_before_appending_is_a_refusal(error: str, result: ChangeResult) -> None:
    assert read_result(int(error_code(error)), None)[0] is result


def test_an_observer_joins_and_leaves_again() -> None:
    leader = Leader(*BEGINNING)
    injected, healed = carry_out(ChangeVoters("add", "observer"), field_of(leader))
    assert injected == Effect(True, "add n4/d4: installed")
    assert healed == Effect(True, "remove n4/d4: installed")
    assert leader.listed == set(BEGINNING)


def test_a_change_without_an_answer_is_looked_up() -> None:
    leader = Leader(*BEGINNING)
    leader.lost = {"n4/d4"}
    injected, _ = carry_out(ChangeVoters("add", "observer"), field_of(leader))
    assert injected.verified
    assert "unknown" in injected.detail, "a leader also lists what is not committed"
    assert "a leader lists it so" in injected.detail


def test_a_refused_change_is_no_fault_that_happened() -> None:
    leader = Leader(*BEGINNING, "n4/d4")
    injected, healed = carry_out(ChangeVoters("add", "observer"), field_of(leader))
    assert injected == Effect(False, "add n4/d4: refused (DUPLICATE_VOTER)")
    assert healed.verified


def test_under_another_fault_a_change_that_a_leader_left_open_has_happened() -> None:
    leader = Leader(*BEGINNING)
    leader.busy = True
    field = field_of(leader)
    field.in_force.claim("links", NOTHING)
    injected, _ = carry_out(ChangeVoters("add", "observer"), field)
    assert injected == Effect(True, "add n4/d4: unknown (REQUEST_TIMED_OUT); another fault was in force")


def test_who_does_not_lead_any_more_is_not_the_last_one_asked() -> None:
    leader = Leader(*BEGINNING)
    leader.deposed = 2
    injected, _ = carry_out(ChangeVoters("add", "observer"), field_of(leader))
    assert injected == Effect(True, "add n4/d4: installed")
    assert leader.asked == ["add n4/d4"] * 3 + ["remove n4/d4"]


def test_the_leader_itself_is_removed_and_comes_back() -> None:
    leader = Leader(*BEGINNING)
    injected, healed = carry_out(ChangeVoters("remove", "leader"), field_of(leader))
    assert injected.verified
    assert healed.verified
    assert leader.asked == ["remove n1/d1", "add n1/d1"]


def test_of_two_changes_at_once_one_is_installed_and_the_other_told_as_unknown() -> None:
    leader = Leader(*BEGINNING)
    injected, healed = carry_out(ChangeVoters("both", "n3"), field_of(leader))
    assert injected.verified
    assert "remove n3/d3: installed" in injected.detail
    assert "add n4/d4: unknown" in injected.detail
    assert healed.verified
    assert leader.listed == set(BEGINNING)


def test_after_a_wipe_the_old_identity_goes_before_the_new_one_comes() -> None:
    """The operator's procedure: a node id has one directory id in the voter set, so the other order is refused."""
    leader = Leader(*BEGINNING)
    restored = asyncio.run(restore_voters(field_of(leader, {**DISKS, "n2": "d2-new"})))
    assert restored.verified
    assert leader.asked == ["remove n2/d2", "add n2/d2-new"]


def test_voters_that_cannot_be_brought_back_are_told() -> None:
    leader = Leader(*BEGINNING)
    leader.busy = True
    restored = asyncio.run(restore_voters(field_of(leader, {**DISKS, "n2": "d2-new"})))
    assert not restored.verified
    assert "n2/d2" in restored.detail


@pytest.mark.parametrize("name", ["membership", "membership-partitions", "wipe-follower-rejoin"])
def test_a_candidate_without_these_requests_is_refused_before_anything_starts(name: str, tmp_path: Path) -> None:
    asked = RunOptions(scenario=scenario.load(name), argv=(), seed=1, store=tmp_path)
    with pytest.raises(Problem) as caught:
        plan_run(asked)
    assert caught.value.slug == "voters-fixed"
    static = replace(asked, candidate="kafka", version="4.1.2", quorum="static")
    with pytest.raises(Problem):
        plan_run(static)
    assert plan_run(replace(asked, candidate="kafka", version="4.1.2")).observers == scenario.load(name).observers


CHANGES = ("add-voter", "remove-voter", "remove-leader", "concurrent-changes")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Apache Kafka with three controllers and an observer, under every kind of change: requests to its port, whatever the backend."""
    folder = tmp_path_factory.mktemp("voters")
    make, _ = GROUNDS["local"]
    planned = [
        PlannedFault(number, name, (1 + number) * NS, NS // 2, False, 0.3) for number, name in enumerate(CHANGES)
    ]
    with make(folder / "ground") as ground, ground.inside():
        run = perform(
            folder / "store",
            "membership",
            4,
            schedule=planned,
            cluster=ground.backend,
            place=ground.place,
            candidate="kafka",
            version="4.3.1",
            duration_s=5.0,
        )
        yield Lived(run)


def listed(changed: Lived, row: dict[str, Any]) -> set[frozenset[str]]:
    """The sets of voters that leaders listed while a change was in force, by the names of the nodes."""
    samples = changed.rows("quorum_samples", claims_leadership=True)
    inside = [each["voters"] for each in samples if row["started_ns"] <= each["asked_ns"] <= row["ended_ns"]]
    return {frozenset(voter.partition("/")[0] for voter in voters) for voters in inside}


@pytest.mark.kafka
@pytest.mark.namespaces
@pytest.mark.shows("add-voter", "remove-voter", "concurrent-changes")
def test_voters_of_a_real_quorum_come_and_go(changed: Lived) -> None:
    """What leaders list while a change is in force is what was asked for, and the log holds each set in its order (VotersRecords)."""
    beginning = frozenset({"n1", "n2", "n3"})
    added, removed, resigned, both = (changed.verified(name) for name in CHANGES)
    assert listed(changed, added) == {beginning | {"n4"}}
    assert listed(changed, removed) == {beginning - set(removed["targets"])}
    assert resigned["targets"] == [resigned["leader"]]
    assert listed(changed, resigned) <= {beginning - {resigned["leader"]}}, "as soon as another one leads"
    leaving, joining = both["targets"]
    possible = {beginning - {leaving}, beginning | {joining}, (beginning | {joining}) - {leaving}}
    assert listed(changed, both) & possible
    assert not [row["detail"] for row in changed.rows("faults") if "not healed" in (row["detail"] or "")]
    entries = changed.rows("log_entries", kind="voters", final=True, node=joining)
    held = [
        frozenset(voter.partition("/")[0] for voter in entry["voters"])
        for entry in sorted(entries, key=lambda entry: entry["offset"])
    ]
    gone = [beginning - set(row["targets"]) for row in (removed, resigned)]
    assert held[:7] == [beginning, beginning | {joining}, beginning, gone[0], beginning, gone[1], beginning]
    assert len(held) > 7
    assert held[-1] == beginning, "what was changed is as it was"
