"""Writes and linearizable reads (KIP-650, X650-1 … 5), and what their errors mean."""

from __future__ import annotations

from typing import Any

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.effects import Effects
from clusters.candidates.reference.core.messages import (
    AppendRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Error,
    FetchRequest,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReadRequest,
    VoteRequest,
)
from clusters.candidates.reference.core.records import DATA, Batch
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.core.roles import State
from clusters.wire.reference_records import Command
from tests.clusters.reference.core.single import (
    CHECK_QUORUM_MS,
    ME,
    OTHER,
    THIRD,
    ask,
    elected,
    fetched,
    following,
    records,
    tick,
)

READ = ReadRequest(1000, key=1)
WRITE = AppendRequest((Command("write", 7, 1),), 1000)


def committed() -> Replica:
    """A leader that has committed its first record."""
    node = elected()
    for correlation in list(node.sent):
        core.on_response(node, correlation, BeginQuorumEpochResponse(Error.NONE, 1, ME.node_id), node.now_ms)
    ask(node, FetchRequest(1, OTHER, 1, 1, 100, 1))
    assert node.high_watermark == 1
    return node


def begins(effects: Effects) -> dict[int, int]:
    """The confirmations that were asked for: node id → correlation."""
    return {
        sent.node_id: sent.correlation for sent in effects.send if isinstance(sent.request, BeginQuorumEpochRequest)
    }


def confirm(node: Replica, correlation: int, error: Error = Error.NONE, epoch: int = 1) -> dict[Any, Any]:
    core.on_response(node, correlation, BeginQuorumEpochResponse(error, epoch, ME.node_id), node.now_ms)
    return {reply.token: reply.response for reply in core.take(node).reply}


def test_a_leader_answers_a_read_after_a_majority_has_confirmed_it() -> None:
    node = committed()
    held, effects = ask(node, READ)
    assert held is None
    answers = confirm(node, begins(effects)[THIRD.node_id])
    assert (answers["asked"].error, answers["asked"].value, answers["asked"].applied_offset) == (Error.NONE, None, 1)


def test_a_confirmation_asked_for_before_a_read_does_not_serve_it() -> None:
    node = committed()
    _, effects = ask(node, READ)
    before = begins(effects)
    core.on_request(node, "later", READ, node.now_ms)
    core.take(node)
    assert set(confirm(node, before[THIRD.node_id])) == {"asked"}
    again = [number for number, sent in node.sent.items() if sent.kind == "begin" and sent.node_id == THIRD.node_id]
    assert set(confirm(node, again[0])) == {"later"}


def test_a_refused_confirmation_does_not_count() -> None:
    node = committed()
    _, effects = ask(node, READ)
    assert confirm(node, begins(effects)[THIRD.node_id], Error.INVALID_VOTER_KEY) == {}


def test_a_leader_that_has_committed_nothing_of_its_epoch_answers_no_read() -> None:
    """X650-2."""
    node = elected()
    held, _ = ask(node, READ)
    asked = [number for number, sent in node.sent.items() if sent.kind == "begin" and sent.node_id == THIRD.node_id]
    assert held is None
    confirm(node, asked[0])
    again = [number for number, sent in node.sent.items() if sent.kind == "begin" and sent.node_id == THIRD.node_id]
    assert confirm(node, again[0]) == {}
    _, effects = ask(node, FetchRequest(1, OTHER, 1, 1, 100, 0))
    assert {"asked"} == {reply.token for reply in effects.reply if hasattr(reply.response, "value")}


def test_a_deposed_leader_refuses_the_reads_and_tells_writers_that_nobody_knows() -> None:
    node = committed()
    core.on_request(node, "read", READ, node.now_ms)
    core.on_request(node, "appended", WRITE, node.now_ms)
    core.take(node)
    core.on_request(node, "arrived", WRITE, node.now_ms)
    core.on_request(node, "vote", VoteRequest(5, OTHER, ME, 1, 9, False), node.now_ms)
    answers = {reply.token: reply.response.error for reply in core.take(node).reply}
    assert answers["read"] is Error.NOT_LEADER_OR_FOLLOWER
    assert answers["appended"] is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert answers["arrived"] is Error.NOT_LEADER_OR_FOLLOWER
    assert node.log.end_offset == 2


def test_a_follower_asks_the_leader_and_waits_until_it_has_applied_so_much() -> None:
    node = following()
    _, effects = ask(node, READ)
    (asked,) = [sent for sent in effects.send if isinstance(sent.request, ReadOffsetRequest)]
    core.on_response(node, asked.correlation, ReadOffsetResponse(Error.NONE, 1, OTHER.node_id, 2), 1)
    assert core.take(node).reply == []
    log = (*records(1), Batch(1, 1, DATA, (Command("write", 7, 1),)))
    core.on_response(node, 1, fetched(batches=log, high_watermark=1), 2)
    effects = core.take(node)
    assert effects.reply == []
    core.on_response(node, effects.send[0].correlation, fetched(high_watermark=2), 3)
    effects = core.take(node)
    (answer,) = effects.reply
    assert (answer.response.value, answer.response.applied_offset) == (7, 2)
    (row,) = [row for row in effects.trace if row["kind"] == "read"]
    assert (row["offset"], row["required_offset"], row["high_watermark"]) == (2, 2, 2)


def test_a_read_that_arrives_while_the_leader_is_asked_needs_an_answer_of_its_own() -> None:
    """R650-23: an offset that was asked for before a read is older than the read."""
    node = following()
    _, effects = ask(node, READ)
    (first,) = [sent for sent in effects.send if isinstance(sent.request, ReadOffsetRequest)]
    core.on_request(node, "later", READ, 1)
    assert core.take(node).send == []
    core.on_response(node, first.correlation, ReadOffsetResponse(Error.NONE, 1, OTHER.node_id, 0), 2)
    effects = core.take(node)
    assert {reply.token for reply in effects.reply} == {"asked"}
    assert [type(sent.request) for sent in effects.send] == [ReadOffsetRequest]


def test_read_offset_is_answered_by_a_confirmed_leader_only() -> None:
    answer, _ = ask(following(), ReadOffsetRequest(100))
    assert (answer.error, answer.leader_id) == (Error.NOT_LEADER_OR_FOLLOWER, OTHER.node_id)
    node = committed()
    held, effects = ask(node, ReadOffsetRequest(100))
    assert held is None
    assert confirm(node, begins(effects)[THIRD.node_id])["asked"].offset == 1


def test_a_stale_read_is_answered_at_once_by_whoever_knows_what_is_committed() -> None:
    stale = ReadRequest(100, key=1, linearizable=False)
    node = following(log=records(1))
    assert ask(node, stale)[0].error is Error.LEADER_NOT_AVAILABLE
    core.on_response(node, 1, fetched(high_watermark=1), 1)
    core.take(node)
    answer, effects = ask(node, stale)
    assert (answer.error, answer.value, answer.applied_offset) == (Error.NONE, None, 1)
    assert [row for row in effects.trace if row["kind"] == "read"] == []


def test_deadlines_end_every_wait() -> None:
    node = committed()
    core.on_request(node, "read", ReadRequest(50, key=1), node.now_ms)
    core.on_request(node, "write", AppendRequest((Command("write", 1, 1),), 50), node.now_ms)
    core.take(node)
    assert core.deadline_ms(node) <= node.now_ms + 50
    answers = {reply.token: reply.response.error for reply in tick(node, node.now_ms + 50).reply}
    assert answers == {"read": Error.REQUEST_TIMED_OUT, "write": Error.REQUEST_TIMED_OUT}


def test_a_refused_write_was_not_appended() -> None:
    node = following()
    assert ask(node, WRITE)[0].error is Error.NOT_LEADER_OR_FOLLOWER
    assert node.log.end_offset == 0
    leader = committed()
    assert ask(leader, AppendRequest((), 100))[0].error is Error.INVALID_REQUEST
    assert ask(leader, AppendRequest((Command("write", 1),), 100))[0].error is Error.INVALID_REQUEST
    assert leader.log.end_offset == 1


def test_a_compare_and_set_is_decided_where_it_is_applied() -> None:
    node = committed()
    commands = (Command("write", 1, 5), Command("cas", 2, 5, 1), Command("cas", 3, 5, 1))
    core.on_request(node, "write", AppendRequest(commands, 1000), node.now_ms)
    core.take(node)
    _, effects = ask(node, FetchRequest(1, OTHER, 4, 1, 100, 1))
    (answer,) = [reply.response for reply in effects.reply if reply.token == "write"]
    assert answer.applied == (True, True, False)
    assert node.machine.value(5) == 2
    assert [row["offset"] for row in effects.trace if row["kind"] == "acknowledge"] == [1, 2]


def test_shutdown_answers_everybody_and_resigns() -> None:
    node = committed()
    core.on_request(node, "read", READ, node.now_ms)
    core.on_request(node, "write", WRITE, node.now_ms)
    core.take(node)
    core.on_shutdown(node, node.now_ms)
    effects = core.take(node)
    errors = {reply.token: reply.response.error for reply in effects.reply if isinstance(reply.token, str)}
    assert errors["read"] is Error.NOT_LEADER_OR_FOLLOWER
    assert errors["write"] is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert node.state is State.RESIGNED
    assert {sent.node_id for sent in effects.send} == {OTHER.node_id, THIRD.node_id}
    assert ask(node, WRITE)[0].error is Error.BROKER_NOT_AVAILABLE


def test_a_resigned_leader_serves_no_fetch() -> None:
    """R853-68."""
    node = committed()
    tick(node, node.now_ms + CHECK_QUORUM_MS)
    assert node.state is State.RESIGNED
    answer, _ = ask(node, FetchRequest(1, OTHER, 1, 1, 100, 1))
    assert (answer.error, answer.leader_id) == (Error.NOT_LEADER_OR_FOLLOWER, None)
