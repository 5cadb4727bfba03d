"""Votes, pre-votes, and what a restart keeps (S853-1 … 5, R650-6 … 14, KIP-996)."""

from __future__ import annotations

import pytest

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.effects import QuorumState
from clusters.candidates.reference.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.core.roles import State
from tests.clusters.reference.core.single import (
    CHECK_QUORUM_MS,
    ELECTION_MS,
    FETCH_MS,
    ME,
    OTHER,
    THIRD,
    ask,
    elected,
    fetched,
    following,
    records,
    started,
    tick,
)


def vote(
    epoch: int, *, by: ReplicaKey = OTHER, to: ReplicaKey = ME, last: tuple[int, int] = (0, 0), pre: bool = False
) -> VoteRequest:
    return VoteRequest(epoch, by, to, *last, pre)


def test_a_vote_is_given_once_an_epoch_and_again_to_the_same_candidate() -> None:
    node = started()
    first, effects = ask(node, vote(1))
    assert first == VoteResponse(Error.NONE, 1, None, granted=True)
    assert effects.persist.quorum_state == QuorumState(1, None, OTHER)
    assert effects.persist.sync_quorum_state
    assert node.state is State.VOTED
    assert ask(node, vote(1))[0].granted
    assert not ask(node, vote(1, by=THIRD))[0].granted
    assert ask(node, vote(2, by=THIRD))[0].granted


def test_a_vote_survives_a_restart() -> None:
    node = started(QuorumState(1, None, OTHER))
    assert node.state is State.VOTED
    assert not ask(node, vote(1, by=THIRD))[0].granted
    assert ask(node, vote(1))[0].granted


def test_candidates_of_one_node_id_and_two_directory_ids_are_two() -> None:
    node = started(QuorumState(1, None, OTHER))
    assert not ask(node, vote(1, by=ReplicaKey(OTHER.node_id, "another-disk")))[0].granted


@pytest.mark.parametrize(
    ("last", "granted"),
    [((2, 3), True), ((2, 4), True), ((3, 1), True), ((2, 2), False), ((1, 9), False), ((0, 0), False)],
)
@pytest.mark.parametrize("pre", [False, True])
def test_logs_are_compared_epoch_first(last: tuple[int, int], granted: bool, pre: bool) -> None:
    node = started(QuorumState(3), records(1, 2, 2))
    answer, effects = ask(node, vote(4, last=last, pre=pre))
    assert answer.granted is granted
    (row,) = [row for row in effects.trace if row["kind"] == "vote"]
    assert (row["entry_epoch"], row["offset"], row["log_epoch"], row["log_end"]) == (*last, 2, 3)
    assert (row["granted"], row["pre_vote"]) == (granted, pre)


def test_an_older_epoch_is_fenced_and_another_disk_s_vote_is_refused() -> None:
    node = started(QuorumState(5))
    assert ask(node, vote(4))[0] == VoteResponse(Error.FENCED_LEADER_EPOCH, 5, None, granted=False)
    answer, _ = ask(node, vote(6, to=ReplicaKey(ME.node_id, "the-disk-before")))
    assert answer == VoteResponse(Error.INVALID_VOTER_KEY, 6, None, granted=False)


def test_who_knows_the_leader_votes_for_nobody_else_in_its_epoch() -> None:
    assert not ask(following(), vote(1))[0].granted
    assert not ask(elected(), vote(1))[0].granted


def test_pre_votes_are_granted_to_many_and_remembered_nowhere() -> None:
    node = started(QuorumState(1, None, OTHER))
    for candidate in (OTHER, THIRD):
        answer, effects = ask(node, vote(1, by=candidate, pre=True))
        assert answer.granted
        assert not effects.persist
    assert (node.epoch, node.voted_for, node.state) == (1, OTHER, State.VOTED)


def test_a_pre_vote_of_a_higher_epoch_is_learned_first() -> None:
    node = elected()
    assert ask(node, vote(7, last=(9, 9), pre=True))[0].granted
    assert (node.epoch, node.state) == (7, State.UNATTACHED)


def test_a_follower_grants_pre_votes_only_until_its_leader_answers() -> None:
    node = following()
    assert ask(node, vote(1, by=THIRD, pre=True))[0].granted
    core.on_response(node, 1, fetched(), 1)
    assert not ask(node, vote(1, by=THIRD, pre=True))[0].granted
    ask(node, EndQuorumEpochRequest(1, OTHER.node_id, (THIRD, ME)))
    assert ask(node, vote(1, by=THIRD, pre=True))[0].granted


def test_a_leader_grants_no_pre_vote() -> None:
    assert not ask(elected(), vote(1, pre=True, last=(9, 9)))[0].granted


def _votes(node: Replica, answers: dict[int, bool], now_ms: int) -> None:
    for sent in tick(node, now_ms).send:
        if sent.node_id in answers:
            granted = answers[sent.node_id]
            core.on_response(node, sent.correlation, VoteResponse(Error.NONE, node.epoch, None, granted), now_ms)


def test_no_epoch_is_raised_without_a_majority_of_pre_votes() -> None:
    node = started()
    _votes(node, {OTHER.node_id: False, THIRD.node_id: False}, ELECTION_MS)
    assert (node.state, node.epoch) == (State.UNATTACHED, 0)
    _votes(node, {OTHER.node_id: True}, 2 * ELECTION_MS)
    assert (node.state, node.epoch, node.voted_for) == (State.CANDIDATE, 1, ME)


def test_a_prospective_that_knows_its_leader_follows_it_again() -> None:
    node = following()
    tick(node, FETCH_MS)
    assert (node.state, node.leader_id) == (State.PROSPECTIVE, OTHER.node_id)
    tick(node, FETCH_MS + ELECTION_MS)
    assert (node.state, node.leader_id, node.epoch) == (State.FOLLOWER, OTHER.node_id, 1)


def test_a_prospective_that_has_voted_keeps_its_vote() -> None:
    node = started(QuorumState(1, None, OTHER))
    tick(node, ELECTION_MS)
    assert node.state is State.PROSPECTIVE
    assert not ask(node, vote(1, by=THIRD))[0].granted
    tick(node, 2 * ELECTION_MS)
    assert (node.state, node.voted_for) == (State.VOTED, OTHER)


def test_votes_of_an_earlier_round_do_not_count() -> None:
    """M-7: a grant of epoch 1 must not elect the candidate of epoch 2."""
    node = started()
    _votes(node, {OTHER.node_id: True}, ELECTION_MS)
    late = [sent for sent in core.take(node).send if sent.node_id == OTHER.node_id]
    assert node.state is State.CANDIDATE
    tick(node, 2 * ELECTION_MS)
    assert node.state is State.PROSPECTIVE
    core.on_response(node, late[0].correlation, VoteResponse(Error.NONE, 1, None, granted=True), 2 * ELECTION_MS)
    assert (node.state, node.epoch) == (State.PROSPECTIVE, 1)


def test_a_leader_begins_its_epoch_with_its_record_and_tells_every_voter() -> None:
    node = started()
    _votes(node, {OTHER.node_id: True}, ELECTION_MS)
    sent = next(sent for sent in core.take(node).send if sent.node_id == OTHER.node_id)
    core.on_response(node, sent.correlation, VoteResponse(Error.NONE, 1, None, granted=True), ELECTION_MS)
    effects = core.take(node)
    (batch,) = effects.persist.append
    assert (batch.base_offset, batch.epoch, batch.kind) == (0, 1, "leader_change")
    assert effects.persist.quorum_state == QuorumState(1, ME.node_id, ME)
    begins = {sent.request for sent in effects.send}
    assert begins == {BeginQuorumEpochRequest(1, ME.node_id, voter) for voter in (OTHER, THIRD)}


def test_a_leader_without_a_majority_of_fetches_resigns_and_raises_its_epoch_once() -> None:
    node = elected()
    now_ms = node.now_ms
    tick(node, now_ms + CHECK_QUORUM_MS - 1)
    assert node.state is State.LEADER
    effects = tick(node, now_ms + CHECK_QUORUM_MS)
    assert (node.state, node.epoch, node.known_leader) == (State.RESIGNED, 1, None)
    assert [row["detail"] for row in effects.trace if row["kind"] == "resign"] == ["check-quorum"]
    for _ in range(20):
        tick(node, core.deadline_ms(node))
    assert node.epoch == 2


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        (QuorumState(3, ME.node_id, ME), State.RESIGNED),
        (QuorumState(3, OTHER.node_id), State.FOLLOWER),
        (QuorumState(3, None, ME), State.CANDIDATE),
        (QuorumState(3, None, OTHER), State.VOTED),
        (QuorumState(3), State.UNATTACHED),
        (None, State.UNATTACHED),
    ],
)
def test_what_a_voter_starts_as(stored: QuorumState | None, state: State) -> None:
    node = started(stored)
    assert (node.state, node.epoch) == (state, stored.epoch if stored else 0)


def test_a_restarted_leader_never_leads_the_same_epoch() -> None:
    node = started(QuorumState(3, ME.node_id, ME))
    for _ in range(50):
        tick(node, core.deadline_ms(node))
        assert not (node.state is State.LEADER and node.epoch == 3)
    assert node.epoch == 4


def test_the_log_s_epoch_counts_and_ends_an_older_vote() -> None:
    node = started(QuorumState(2, None, OTHER), records(1, 5))
    assert (node.epoch, node.voted_for, node.state) == (5, None, State.UNATTACHED)


def test_a_wiped_voter_is_an_observer_that_never_stands() -> None:
    node = started(me=ReplicaKey(ME.node_id, "new-disk"))
    asked = set()
    for turn in range(1, 100):
        for correlation in list(node.sent):
            core.on_failure(node, correlation, 100 * turn)
        asked |= {type(sent.request) for sent in tick(node, 100 * turn + 50).send}
    assert asked == {FetchRequest}
    assert (node.state, node.epoch) == (State.UNATTACHED, 0)
    begin = BeginQuorumEpochRequest(4, OTHER.node_id, ME)
    assert ask(node, begin)[0].error is Error.INVALID_VOTER_KEY
    assert node.leader_id is None
