"""The plan of faults: drawn from the seed alone, within its time, healing at its end."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nemesis.faults.registry import FAULTS, PARTITIONS
from nemesis.faults.schedule import NS, PlannedFault, draw_schedule
from nemesis.scenario import FaultChoice, load, names
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
        replaceable=PARTITIONS,
        limits={"wipe": 1},
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
        assert not one.replaced or {one.fault, following.fault} <= PARTITIONS
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
            if choice.fault in PARTITIONS:
                assert choice.hold >= 2.5, (name, choice.fault)


def test_every_shipped_scenario_names_faults_that_exist() -> None:
    for name in names():
        assert {choice.fault for choice in load(name).faults} <= set(FAULTS), name


def test_twenty_seconds_hold_what_every_scenario_needs() -> None:
    for name in names():
        scenario = load(name)
        for seed in range(50):
            planned = draw_schedule(
                scenario.faults,
                duration_ns=20 * NS,
                warm_up_ns=int(scenario.warm_up_s * NS),
                gap_ns=int(scenario.gap_s * NS),
                period_ns=1_500_000_000,
                stream=stream(seed, "faults"),
                replaceable=PARTITIONS,
                limits={"wipe": 1},
            )
            assert len(planned) >= max(scenario.needs.values(), default=0), (name, seed)
