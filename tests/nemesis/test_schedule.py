"""The plan of faults: drawn from the seed alone, within its time, healing at its end."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nemesis.faults.catalogue import CATALOGUE, LINK_CHANGES
from nemesis.faults.registry import MAKERS
from nemesis.faults.schedule import NS, PlannedFault, draw_lanes, draw_schedule
from nemesis.life.plan import RunOptions, plan_run
from nemesis.scenario import DAMAGE, FaultChoice, load, names
from nemesis.seeds import stream

CHOICES = (
    FaultChoice("isolate-leader", 2.0, 0.5),
    FaultChoice("kill-leader"),
    FaultChoice("wipe-follower", 3.0),
    FaultChoice("leader-deaf", replace_share=1.0),
)


def draw(seed: int, duration_s: float = 60.0, choices: tuple[FaultChoice, ...] = CHOICES) -> tuple[PlannedFault, ...]:
    return draw_schedule(
        choices,
        duration_ns=int(duration_s * NS),
        warm_up_ns=NS,
        gap_ns=NS,
        period_ns=1_500_000_000,
        stream=stream(seed, "faults"),
        replaceable=LINK_CHANGES,
        limits={DAMAGE: 1},
    )


@given(st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert draw(seed) == draw(seed)


@given(st.integers(0, 2**32), st.floats(1, 200))
def test_a_plan_fits_its_duration_and_its_faults_do_not_overlap(seed: int, duration_s: float) -> None:
    planned = draw(seed, duration_s)
    for one, following in itertools.pairwise(planned):
        assert one.at_ns + one.hold_ns <= following.at_ns
        assert one.replaced is (one.at_ns + one.hold_ns == following.at_ns)
    assert all(each.at_ns + each.hold_ns <= duration_s * NS for each in planned)


@given(st.integers(0, 2**32))
def test_only_changes_of_links_replace_each_other_and_the_last_one_heals(seed: int) -> None:
    planned = draw(seed)
    for one, following in itertools.pairwise(planned):
        assert not one.replaced or {one.fault, following.fault} <= LINK_CHANGES
    assert not planned[-1].replaced


@given(st.integers(0, 2**32))
def test_wipes_are_bounded_over_the_whole_run(seed: int) -> None:
    assert sum(each.fault.startswith("wipe") for each in draw(seed, 600)) <= 1


def test_a_scenario_of_nothing_but_bounded_faults_ends_when_the_bound_is_met() -> None:
    assert [each.fault for each in draw(1, 600, (FaultChoice("wipe-leader"),))] == ["wipe-leader"]


def test_a_hold_outlasts_the_bound_of_the_liveness_rule_that_it_exercises() -> None:
    """A leader may answer for 2 × check-quorum (checks.md, leader-resigns): an isolation holds at least 2.5 of them."""
    for name in names():
        for choice in load(name).faults:
            if choice.fault in LINK_CHANGES:
                assert choice.hold >= 2.5, (name, choice.fault)


def test_every_fault_of_the_catalogue_can_act_and_no_other() -> None:
    assert {kind.acts_as for kind in CATALOGUE.values()} == set(MAKERS)


def test_twenty_seconds_hold_what_every_scenario_needs() -> None:
    for name in names():
        scenario = load(name)
        for seed in range(50):
            planned = draw_lanes(
                scenario.faults,
                duration_ns=20 * NS,
                warm_up_ns=int(scenario.warm_up_s * NS),
                gap_ns=int(scenario.gap_s * NS),
                period_ns=1_500_000_000,
                streams=lambda lane, seed=seed: stream(seed, "faults", lane),  # type: ignore[misc]
                replaceable=LINK_CHANGES,
                limits={DAMAGE: 1},
            )
            assert len(planned) >= max(scenario.needs.values(), default=0), (name, seed)


def test_the_schedules_of_older_scenarios_are_what_they_were() -> None:
    """A stored seed must repeat its run: digests of plans, most from before there were lanes and parameters."""
    gold = json.loads((Path(__file__).parent / "gold" / "schedules.json").read_text())
    for key, digest in gold.items():
        name, seed = key.split("/")
        options = RunOptions(scenario=load(name), argv=(), seed=int(seed), store=Path("unused"), duration_s=40.0)
        plan = [[f.fault_id, f.fault, f.at_ns, f.hold_ns, f.replaced, f.draw] for f in plan_run(options).schedule]
        assert hashlib.sha256(json.dumps(plan).encode()).hexdigest()[:16] == digest, key


def wipes(name: str, voters: int, seed: int) -> int:
    options = RunOptions(scenario=load(name), argv=(), seed=seed, store=Path("unused"), duration_s=600.0, nodes=voters)
    return sum(f.fault.startswith("wipe") for f in plan_run(options).schedule)


def test_a_wiped_voter_stays_an_observer_so_what_else_happens_must_leave_a_majority_without_it() -> None:
    assert [max(wipes("chaos", voters, seed) for seed in range(5)) for voters in (3, 5, 7)] == [0, 1, 2]
    assert wipes("wipe-follower", 3, 1) == 1


@given(st.integers(0, 2**32))
def test_lanes_overlap_and_neither_disturbs_the_draws_of_the_other(seed: int) -> None:
    lanes = (FaultChoice("isolate-leader", lane="a"), FaultChoice("kill-leader", lane="b"))
    both = [(f.lane, f.at_ns, f.hold_ns, f.draw) for f in draw_all(seed, lanes)]
    alone = [(f.lane, f.at_ns, f.hold_ns, f.draw) for choice in lanes for f in draw_all(seed, (choice,))]
    assert sorted(both) == sorted(alone)
    planned = draw_all(seed, lanes)
    assert [f.fault_id for f in planned] == list(range(len(planned)))
    for lane in ("a", "b"):
        assert [f.turn for f in planned if f.lane == lane] == list(range(sum(f.lane == lane for f in planned)))
    assert [f.at_ns for f in planned] == sorted(f.at_ns for f in planned)
    assert any(
        one.lane != other.lane and one.at_ns < other.at_ns + other.hold_ns and other.at_ns < one.at_ns + one.hold_ns
        for one in planned
        for other in planned
    )


def test_a_fault_that_damages_two_disks_takes_two_from_the_budget() -> None:
    choices = (FaultChoice("wipe", parameters=(("targets", "minority"),), cost=2),)
    assert len(draw_all(1, choices, limits={DAMAGE: 2})) == 1
    assert len(draw_all(1, choices, limits={DAMAGE: 1})) == 0


def draw_all(
    seed: int, choices: tuple[FaultChoice, ...], limits: dict[str, int] | None = None
) -> tuple[PlannedFault, ...]:
    return draw_lanes(
        choices,
        duration_ns=60 * NS,
        warm_up_ns=NS,
        gap_ns=NS,
        period_ns=1_500_000_000,
        streams=lambda lane: stream(seed, "faults", lane),
        replaceable=LINK_CHANGES,
        limits=limits or {},
    )
