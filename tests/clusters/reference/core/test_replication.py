"""Fetches, truncation, high watermarks, and in what order a core wants things done (R853-5, S853-6 … 12)."""

from __future__ import annotations

import pytest

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.messages import (
    AppendRequest,
    DescribeQuorumRequest,
    EpochEnd,
    Error,
    FetchRequest,
    FetchResponse,
    ReplicaKey,
)
from clusters.candidates.reference.core.roles import State
from clusters.wire.reference_records import Command
from tests.clusters.reference.core.single import (
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


def fetch(
    offset: int, last_epoch: int, *, epoch: int = 1, by: ReplicaKey | None = OTHER, watermark: int | None = -1
) -> FetchRequest:
    return FetchRequest(epoch, by, offset, last_epoch, 100, watermark)


def write(value: int) -> AppendRequest:
    return AppendRequest((Command("write", value, 1),), 1000)


def test_a_fetch_is_answered_by_the_leader_of_its_epoch_only() -> None:
    assert ask(elected(), fetch(0, 0, epoch=0))[0].error is Error.FENCED_LEADER_EPOCH
    assert ask(elected(), fetch(0, 0, epoch=2))[0].error is Error.UNKNOWN_LEADER_EPOCH
    answer, _ = ask(following(), fetch(0, 0))
    assert (answer.error, answer.leader_id) == (Error.NOT_LEADER_OR_FOLLOWER, OTHER.node_id)
    assert ask(elected(), fetch(-1, 0))[0].error is Error.INVALID_REQUEST


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (0, 0, None),
        (1, 1, None),
        (3, 2, None),
        (4, 2, EpochEnd(2, 3)),
        (2, 1, EpochEnd(1, 1)),
        (5, 3, EpochEnd(3, 4)),
        (9, 4, EpochEnd(3, 4)),
    ],
)
def test_a_position_outside_of_the_log_is_told_where_the_logs_part(
    offset: int, last_epoch: int, diverging: EpochEnd | None
) -> None:
    """The leader's log holds epochs 1, 2, 2 and then its own record of epoch 3 (R853-5, S853-7)."""
    node = elected(records(1, 2, 2))
    answer, _ = ask(node, fetch(offset, last_epoch, epoch=3))
    assert answer.diverging == diverging
    assert bool(answer.batches) is (diverging is None)


def test_what_is_fetched_is_on_the_disk_before_the_next_fetch_leaves() -> None:
    node = following()
    core.on_response(node, 1, fetched(batches=records(1, 1), high_watermark=1), 1)
    effects = core.take(node)
    assert [batch.base_offset for batch in effects.persist.append] == [0, 1]
    assert effects.persist.sync_log
    (sent,) = effects.send
    assert sent.request == fetch(2, 1, by=ME, watermark=1)
    assert (node.high_watermark, node.machine.applied_end) == (1, 1)


def test_a_high_watermark_is_never_beyond_the_own_log() -> None:
    node = following()
    core.on_response(node, 1, fetched(batches=records(1), high_watermark=7), 1)
    core.take(node)
    assert node.high_watermark == 1


@pytest.mark.parametrize(
    ("log", "diverging", "end"),
    [
        ((1, 1, 1), EpochEnd(1, 2), 2),
        ((1, 1, 2, 2), EpochEnd(1, 9), 2),
        ((1, 3, 3), EpochEnd(2, 5), 1),
        ((2, 2), EpochEnd(1, 4), 0),
        ((1, 2, 3), EpochEnd(2, 2), 2),
    ],
)
def test_a_log_is_cut_where_the_two_may_last_agree(log: tuple[int, ...], diverging: EpochEnd, end: int) -> None:
    node = following(epoch=5, log=records(*log))
    core.on_response(node, 1, fetched(epoch=5, diverging=diverging), 1)
    effects = core.take(node)
    assert node.log.end_offset == end
    assert effects.persist.truncate_to == end
    assert effects.persist.append == []
    assert [row["offset"] for row in effects.trace if row["kind"] == "truncate"] == [end]
    assert effects.send[0].request.fetch_offset == end


def test_an_answer_that_is_not_awaited_changes_nothing() -> None:
    node = following()
    core.on_response(node, 99, fetched(batches=records(1)), 1)
    core.on_failure(node, 1, 1)
    core.on_response(node, 1, fetched(batches=records(1)), 1)
    assert node.log.end_offset == 0
    assert not core.take(node).persist


def test_an_answer_from_an_earlier_time_as_follower_changes_nothing() -> None:
    node = following()
    tick(node, FETCH_MS)
    assert node.state is State.PROSPECTIVE
    core.on_response(node, 1, fetched(batches=records(1)), FETCH_MS + 1)
    assert (node.log.end_offset, node.state) == (0, State.PROSPECTIVE)


def test_records_are_committed_by_a_majority_and_then_acknowledged() -> None:
    node = elected()
    core.on_request(node, "write", write(7), node.now_ms)
    effects = core.take(node)
    assert [batch.base_offset for batch in effects.persist.append] == [1]
    assert effects.reply == []
    answer, effects = ask(node, fetch(2, 1))
    assert answer.high_watermark == 2
    (written,) = [reply.response for reply in effects.reply if reply.token == "write"]
    assert (written.error, written.base_offset, written.applied) == (Error.NONE, 1, (True,))
    assert [row["kind"] for row in effects.trace] == ["fetch", "high_watermark", "apply", "acknowledge"]


def test_old_epochs_are_committed_only_with_a_record_of_the_own() -> None:
    """S853-9, figure 8: three records of epoch 1 are on a majority, and still not committed."""
    node = elected(records(1, 1, 1))
    answer, _ = ask(node, fetch(3, 1, epoch=2))
    assert (node.high_watermark, answer.high_watermark) == (0, -1)
    assert [batch.kind for batch in answer.batches] == ["leader_change"]
    answer, _ = ask(node, fetch(4, 2, epoch=2))
    assert (node.high_watermark, answer.high_watermark) == (4, 4)


@pytest.mark.parametrize("by", [ReplicaKey(2, "the-disk-after"), ReplicaKey(9, "observer")])
def test_who_is_no_voter_does_not_count(by: ReplicaKey) -> None:
    """R853-7, R853-31: neither observers nor a wiped voter's new disk."""
    node = elected()
    answer, _ = ask(node, fetch(1, 1, by=by))
    assert answer is None
    assert node.high_watermark == 0
    answer, _ = ask(node, fetch(1, 1))
    assert node.high_watermark == 1


def test_a_fetch_waits_for_records_for_a_higher_watermark_or_for_its_time() -> None:
    node = elected()
    ask(node, fetch(1, 1))
    held, _ = ask(node, fetch(1, 1, by=THIRD, watermark=1))
    assert held is None
    core.on_request(node, "write", write(1), node.now_ms)
    answers = {reply.token: reply.response for reply in core.take(node).reply}
    assert [batch.base_offset for batch in answers["asked"].batches] == [1]

    held, _ = ask(node, fetch(2, 1, by=THIRD, watermark=2))
    assert held is None
    (empty,) = tick(node, node.now_ms + 100).reply
    assert isinstance(empty.response, FetchResponse)
    assert empty.response.batches == ()


def test_a_client_sees_only_what_is_committed() -> None:
    node = elected()
    held, _ = ask(node, fetch(0, -1, epoch=-1, by=None, watermark=None))
    assert held is None
    _, effects = ask(node, fetch(1, 1))
    seen = [reply.response for reply in effects.reply if isinstance(reply.response, FetchResponse)]
    assert [(len(answer.batches), answer.high_watermark) for answer in seen] == [(1, 1), (0, 1)]


def test_writes_of_one_turn_become_one_batch() -> None:
    node = elected()
    for value in range(5):
        core.on_request(node, value, write(value), node.now_ms)
    (batch,) = core.take(node).persist.append
    assert [record.value for record in batch.records] == [0, 1, 2, 3, 4]


def test_truncation_of_what_was_not_yet_taken_never_reaches_the_disk() -> None:
    node = following(epoch=5, log=records(1, 1))
    core.on_response(node, 1, fetched(epoch=5, diverging=EpochEnd(1, 1)), 1)
    sent = core.take(node).send[0]
    core.on_response(node, sent.correlation, fetched(epoch=5, batches=(records(1, 2)[1],)), 2)
    effects = core.take(node)
    assert effects.persist.truncate_to is None
    assert [batch.epoch for batch in effects.persist.append] == [2]


def test_a_single_voter_commits_alone() -> None:
    node = started(voters=(ME,))
    tick(node, node.election_deadline_ms)
    assert (node.state, node.high_watermark) == (State.LEADER, 1)
    core.on_request(node, "write", write(1), node.now_ms)
    effects = core.take(node)
    assert effects.persist.append
    assert [reply.response.error for reply in effects.reply] == [Error.NONE]


def test_an_observer_that_is_gone_is_forgotten() -> None:
    node = elected()
    observer = ReplicaKey(9, "observer")
    for now_ms in range(node.now_ms, node.now_ms + 30 * FETCH_MS, 100):
        core.on_request(node, "voter", fetch(1, 1), now_ms)
        if now_ms < 3000:
            core.on_request(node, "observer", fetch(1, 1, by=observer), now_ms)
        tick(node, now_ms)
        if now_ms == 3000:
            assert [each.replica for each in ask(node, DescribeQuorumRequest())[0].observers] == [observer]
    assert ask(node, DescribeQuorumRequest())[0].observers == ()
