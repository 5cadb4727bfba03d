"""Election safety, log matching, leader completeness, durability, monotone high watermarks and linearizable reads in any
weather; and a working quorum once it is over."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.candidates.reference.core.defects import decisions
from tests.clusters.reference.core.invariants import violations
from tests.clusters.reference.core.quorum import Quorum
from tests.clusters.reference.core.storms import calm, storm


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), voters=st.sampled_from([1, 3, 4, 5]), observers=st.integers(0, 1))
def test_safe_in_any_weather_and_live_after_it(seed: int, voters: int, observers: int) -> None:
    quorum = storm(seed, voters=voters, observers=observers)
    assert violations(quorum.events, quorum.operations) == []

    calm(quorum)
    quorum.run_until_led()
    quorum.run_ms(3000)
    leader = quorum.run_until_led()
    write = quorum.write(leader, 9, -1)
    assert quorum.run_until(lambda: write.ok)
    reads = [quorum.read(number, 9) for number in quorum.places]
    assert quorum.run_until(lambda: all(read.ok for read in reads))
    assert [read.value for read in reads] == [-1] * len(reads)
    assert quorum.run_until(lambda: len({quorum.node(number).machine.applied_end for number in quorum.places}) == 1)
    assert len({quorum.node(number).machine.digest for number in quorum.places}) == 1
    assert len({quorum.node(number).log.position for number in quorum.places}) == 1
    assert violations(quorum.events, quorum.operations) == []


@pytest.mark.parametrize(
    "name",
    [
        "log-not-compared",
        "half-is-a-majority",
        "epoch-not-persisted",
        "leader-resumes-epoch",
        "acknowledged-before-fsync",
        "quorum-state-not-synced",
        "acknowledged-on-append",
        "fetch-position-not-validated",
        "truncates-to-own-high-watermark",
        "follower-reads-before-apply",
    ],
)
def test_the_same_weather_shows_what_a_defect_does(name: str) -> None:
    """The properties above can fail: each of these defects breaks one within a few seeds."""
    wrong = decisions([name])
    for seed in range(120):
        quorum = storm(seed, voters=(3, 5)[seed % 2], decisions=wrong)
        if violations(quorum.events, quorum.operations):
            return
    pytest.fail(f"no storm of 120 shows {name}")


def test_the_same_seed_gives_the_same_storm() -> None:
    one, other = storm(7), storm(7)
    assert one.events == other.events
    assert len(one.events) > 100
    assert one.events != storm(8).events


def test_an_idle_quorum_keeps_its_leader_and_is_quiet() -> None:
    quorum = Quorum(3, observers=1)
    leader = quorum.run_until_led()
    quorum.run_ms(1000)
    before = len(quorum.events)
    quorum.run_ms(20_000)
    assert quorum.leader() == leader
    assert quorum.events[before:] == []
