"""Requests to peers: which are wanted now, at most one of a kind to one peer under way, and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusters.candidates.reference.core.clients import on_read_offset_answer
from clusters.candidates.reference.core.effects import Outgoing
from clusters.candidates.reference.core.elections import on_vote_answer, vote_request
from clusters.candidates.reference.core.following import fetch_request, fetch_target, on_fetch_answer
from clusters.candidates.reference.core.leading import begin_due_ms, begin_request
from clusters.candidates.reference.core.messages import (
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    Error,
    FetchResponse,
    PeerRequest,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReplicaKey,
    Response,
    VoteResponse,
)
from clusters.candidates.reference.core.replica import NEVER_MS, Call, PendingRead, Replica, Sent
from clusters.candidates.reference.core.states import hear

VOTE, BEGIN, END, FETCH, READ_OFFSET = "vote", "begin", "end", "fetch", "read_offset"


class Wanted(NamedTuple):
    """A request that should be under way from ``due_ms`` on; ``replica`` is the voter that is meant, for votes and rounds."""

    kind: str
    node_id: int
    replica: ReplicaKey | None = None
    due_ms: int = 0


def wanted(node: Replica) -> Iterator[Wanted]:
    """Every request that this state of affairs asks for."""
    election, leadership = node.election, node.leadership
    if election is not None:
        for voter in node.config.voters:
            if voter not in election.granted and voter not in election.refused:
                yield Wanted(VOTE, voter.node_id, voter)
    elif leadership is not None:
        for voter in leadership.voters:
            yield Wanted(BEGIN, voter.node_id, voter, begin_due_ms(node, leadership, voter))
    else:
        target = fetch_target(node)
        if target is not None:
            yield Wanted(FETCH, target)
    if node.reads_to_ask and node.known_leader is not None and leadership is None:
        yield Wanted(READ_OFFSET, node.known_leader)


def send_wanted(node: Replica) -> None:
    """Send what is wanted and not under way."""
    if node.closing:
        return
    for want in wanted(node):
        call = node.calls.get((want.kind, want.node_id))
        if call is None:
            call = node.calls[want.kind, want.node_id] = Call()
        if call.correlation is None and node.now_ms >= max(call.not_before_ms, want.due_ms):
            call.correlation = _send(node, want)


def next_call_ms(node: Replica) -> int:
    """When the next request that is not under way may be sent."""
    due = NEVER_MS
    if not node.closing:
        for want in wanted(node):
            call = node.calls.get((want.kind, want.node_id))
            if call is not None and call.correlation is None:
                due = min(due, max(call.not_before_ms, want.due_ms))
    return due


def _send(node: Replica, want: Wanted) -> int:
    request: PeerRequest
    reads: tuple[PendingRead, ...] = ()
    if want.kind == VOTE and node.election is not None and want.replica is not None:
        request = vote_request(node, node.election, want.replica)
    elif want.kind == BEGIN and node.leadership is not None and want.replica is not None:
        request = begin_request(node, node.leadership, want.replica)
    elif want.kind == FETCH:
        request = fetch_request(node)
    else:
        reads = tuple(node.reads_to_ask)
        node.reads_to_ask.clear()
        request = ReadOffsetRequest(
            min(node.config.request_timeout_ms, max(p.deadline_ms for p in reads) - node.now_ms)
        )
    round_ = node.leadership.round if node.leadership is not None else 0
    return _transmit(node, request, Sent(want.kind, want.node_id, node.generation, want.replica, round_, reads))


def _transmit(node: Replica, request: PeerRequest, sent: Sent) -> int:
    """Put a request among the effects and remember in which state of affairs it was sent."""
    correlation = node.next_correlation
    node.next_correlation += 1
    node.sent[correlation] = sent
    node.effects.send.append(Outgoing(correlation, sent.node_id, request, node.config.request_timeout_ms))
    return correlation


def on_response(node: Replica, correlation: int, response: Response) -> None:
    """A peer answers; an answer that nobody waits for, or of another kind than was asked for, changes nothing."""
    sent = _settle_call(node, correlation)
    if sent is None:
        return
    current = sent.generation == node.generation
    match response:
        case VoteResponse() if sent.kind == VOTE and sent.replica is not None:
            on_vote_answer(node, sent.replica, response, current=current)
        case BeginQuorumEpochResponse() if sent.kind == BEGIN and sent.replica is not None:
            _on_begin_answer(node, sent, sent.replica, response)
        case FetchResponse() if sent.kind == FETCH:
            if not on_fetch_answer(node, response, current=current):
                _pause(node, sent)
        case ReadOffsetResponse() if sent.kind == READ_OFFSET:
            on_read_offset_answer(node, sent.reads, response)
            hear(node, response.epoch, response.leader_id)
        case _:
            pass


def on_failure(node: Replica, correlation: int) -> None:
    """There will be no answer."""
    sent = _settle_call(node, correlation)
    if sent is None:
        return
    _pause(node, sent)
    if sent.kind == READ_OFFSET:
        on_read_offset_answer(node, sent.reads, None)
    elif sent.kind == FETCH:
        node.discovery = None


def _on_begin_answer(node: Replica, sent: Sent, voter: ReplicaKey, response: BeginQuorumEpochResponse) -> None:
    """A voter has heard who leads. An answer without error in this epoch proves that, when it was given, the voter had
    joined no later one."""
    hear(node, response.epoch, response.leader_id)
    leadership = node.leadership
    if leadership is None or sent.generation != node.generation:
        return
    if response.error is not Error.NONE or response.epoch != node.epoch:
        _pause(node, sent)
        return
    progress = leadership.voters[voter]
    progress.told = True
    progress.confirmed_round = max(progress.confirmed_round, sent.round)


def _settle_call(node: Replica, correlation: int) -> Sent | None:
    sent = node.sent.pop(correlation, None)
    if sent is not None:
        call = node.calls.get((sent.kind, sent.node_id))
        if call is not None and call.correlation == correlation:
            call.correlation = None
    return sent


def _pause(node: Replica, sent: Sent) -> None:
    call = node.calls.get((sent.kind, sent.node_id))
    if call is not None and sent.generation == node.generation:
        call.not_before_ms = node.now_ms + node.config.retry_backoff_ms


def send_end_quorum_epoch(node: Replica, preferred: tuple[ReplicaKey, ...]) -> None:
    """Tell the voters that this node has resigned, once; their timeouts would tell them too (R853-3)."""
    request = EndQuorumEpochRequest(node.epoch, node.me.node_id, preferred)
    for voter in preferred:
        _transmit(node, request, Sent(END, voter.node_id, node.generation, voter))
