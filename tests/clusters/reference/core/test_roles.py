"""The table of states: every pair of it, and every step of it taken by a running core."""

from __future__ import annotations

import itertools

import pytest

from clusters.candidates.reference.core import elections, states
from clusters.candidates.reference.core.roles import TRANSITIONS, Event, State, step
from tests.clusters.reference.core.quorum import Quorum
from tests.clusters.reference.core.storms import storm

BY_DEFECT_ONLY = {(State.CANDIDATE, Event.VOTE_GRANTED), (State.VOTED, Event.VOTE_GRANTED)}
"""whoever has given its vote of an epoch gives it to nobody else"""


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair_is_in_the_table_or_impossible(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert step(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(ValueError, match=state.value):
            step(state, event)


def test_only_a_candidate_becomes_leader_and_only_a_prospective_becomes_candidate() -> None:
    into = {target: {state for (state, _), to in TRANSITIONS.items() if to is target} for target in State}
    assert into[State.LEADER] == {State.CANDIDATE}
    assert into[State.CANDIDATE] - {State.CANDIDATE} == {State.PROSPECTIVE}
    assert into[State.RESIGNED] == {State.LEADER}
    assert State.LEADER not in into[State.FOLLOWER]


def test_a_running_core_takes_every_step_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[State, Event]] = set()

    def noted(state: State, event: Event) -> State:
        taken.add((state, event))
        return step(state, event)

    monkeypatch.setattr(states, "step", noted)
    monkeypatch.setattr(elections, "step", noted)
    wanted = set(TRANSITIONS) - BY_DEFECT_ONLY
    for seed in range(100):
        if seed % 2:
            storm(seed, voters=5, observers=1)
        else:
            _abdications(seed)
        if taken >= wanted:
            break
    assert wanted - taken == set()
    assert taken - set(TRANSITIONS) == set()


def _abdications(seed: int) -> None:
    """Leaders that are cut off while their followers see them again at the last moment."""
    quorum = Quorum(seed, voters=3, latency_ms=(1, 120), lossy=0.1)
    for _ in range(10):
        quorum.run_ms(700)
        leader = quorum.leader()
        if leader is not None:
            quorum.cut = {(a, b) for a in quorum.places for b in quorum.places if leader in (a, b)}
        quorum.run_ms(quorum.random.choice([400, 900, 2500]))
        quorum.cut = set()
