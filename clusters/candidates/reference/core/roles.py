"""The states of a replica and every legal step between them: KIP-595's, with prospective (KIP-996).

Three rules stand above the table. A voter is who is in the voter set by node id and directory id; only a voter stands for
election. An epoch never falls, and it rises only by learning a higher one, by standing as candidate, or by resigning. The
vote of an epoch is kept through every step inside it: a replica that steps back to ``unattached`` with a vote is ``voted``.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """What a replica is doing."""

    UNATTACHED = "unattached"
    """knows no leader and has no vote in this epoch"""
    VOTED = "voted"
    """knows no leader and has voted in this epoch"""
    PROSPECTIVE = "prospective"
    """asks whether it would be elected, without raising its epoch"""
    CANDIDATE = "candidate"
    """stands for election"""
    LEADER = "leader"
    FOLLOWER = "follower"
    """fetches from the leader; told as ``observer`` in a trace when the replica is no voter"""
    RESIGNED = "resigned"
    """led this epoch and never will again"""


class Event(StrEnum):
    """Why a replica changes its state."""

    HIGHER_EPOCH = "learned of a higher epoch"
    VOTE_GRANTED = "granted its vote to a candidate"
    ELECTION_TIMEOUT = "the election timeout passed"
    FETCH_TIMEOUT = "the fetch timeout passed"
    OBSERVER_FETCH_TIMEOUT = "the fetch timeout passed, and it is no voter"
    LEADER_DISCOVERED = "learned who leads this epoch or a higher one"
    PRE_VOTE_WON = "a majority would elect it"
    PRE_VOTE_LOST = "no majority would elect it, and it neither follows a leader nor has a vote"
    PRE_VOTE_LOST_AFTER_VOTE = "no majority would elect it, and its vote of this epoch is given"
    PRE_VOTE_LOST_TO_LEADER = "no majority would elect it, and it knows the leader of its epoch"
    ELECTION_WON = "a majority elected it"
    RESIGNED = "lost its majority, or is asked to stop"


TRANSITIONS: MappingProxyType[tuple[State, Event], State] = MappingProxyType(
    {
        (State.UNATTACHED, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.UNATTACHED, Event.VOTE_GRANTED): State.VOTED,
        (State.UNATTACHED, Event.ELECTION_TIMEOUT): State.PROSPECTIVE,
        (State.UNATTACHED, Event.LEADER_DISCOVERED): State.FOLLOWER,
        (State.VOTED, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.VOTED, Event.VOTE_GRANTED): State.VOTED,
        (State.VOTED, Event.ELECTION_TIMEOUT): State.PROSPECTIVE,
        (State.VOTED, Event.LEADER_DISCOVERED): State.FOLLOWER,
        (State.PROSPECTIVE, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.PROSPECTIVE, Event.VOTE_GRANTED): State.PROSPECTIVE,
        (State.PROSPECTIVE, Event.LEADER_DISCOVERED): State.FOLLOWER,
        (State.PROSPECTIVE, Event.PRE_VOTE_WON): State.CANDIDATE,
        (State.PROSPECTIVE, Event.PRE_VOTE_LOST): State.UNATTACHED,
        (State.PROSPECTIVE, Event.PRE_VOTE_LOST_AFTER_VOTE): State.VOTED,
        (State.PROSPECTIVE, Event.PRE_VOTE_LOST_TO_LEADER): State.FOLLOWER,
        (State.CANDIDATE, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.CANDIDATE, Event.VOTE_GRANTED): State.CANDIDATE,
        (State.CANDIDATE, Event.ELECTION_TIMEOUT): State.PROSPECTIVE,
        (State.CANDIDATE, Event.ELECTION_WON): State.LEADER,
        (State.CANDIDATE, Event.LEADER_DISCOVERED): State.FOLLOWER,
        (State.LEADER, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.LEADER, Event.RESIGNED): State.RESIGNED,
        (State.FOLLOWER, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.FOLLOWER, Event.FETCH_TIMEOUT): State.PROSPECTIVE,
        (State.FOLLOWER, Event.OBSERVER_FETCH_TIMEOUT): State.UNATTACHED,
        (State.FOLLOWER, Event.LEADER_DISCOVERED): State.FOLLOWER,
        (State.RESIGNED, Event.HIGHER_EPOCH): State.UNATTACHED,
        (State.RESIGNED, Event.ELECTION_TIMEOUT): State.UNATTACHED,
        (State.RESIGNED, Event.LEADER_DISCOVERED): State.FOLLOWER,
    }
)
"""(state, event) → next state; a pair that is not here cannot happen, and :func:`step` says so.

A leader becomes a follower by way of unattached (KIP-595). Whoever has voted, a candidate for itself, votes for nobody else in
that epoch: there ``VOTE_GRANTED`` comes about only by a defect.
"""


def step(state: State, event: Event) -> State:
    """The state after an event. Raises ValueError for a pair that is not in the table: the core is wrong, not its peer."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a replica that is {state} cannot take the event “{event}”") from None
