"""One KRaft replica as a state machine: hand in what happened, take out what is to be done.

Usage, the same for the asyncio server and for virtual time::

    node = start(config, recovered, now_ms, draw, decisions)
    execute(take(node))
    while True:
        (for everything that has arrived)  on_request / on_response / on_failure
        (when deadline_ms(node) has passed) on_tick
        execute(take(node))

``now_ms`` is any monotonic clock in whole milliseconds, the same for all calls on one node; it never falls. ``draw(n)``
returns a whole number 0 … n; it is the only source of chance. Inputs that have arrived go first, timers after them, as on
any machine whose process was paused.
"""

from __future__ import annotations

from collections.abc import Callable

from clusters.candidates.reference.core import calls, clients, elections, leading, states
from clusters.candidates.reference.core.config import NodeConfig, Recovered
from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from clusters.candidates.reference.core.effects import Effects, QuorumState, Token
from clusters.candidates.reference.core.log import Log
from clusters.candidates.reference.core.messages import (
    AppendRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    ReadOffsetRequest,
    ReadRequest,
    Request,
    Response,
    VoteRequest,
)
from clusters.candidates.reference.core.replica import (
    Replica,
    leader_name,
    reply,
    trace,
    voter_names,
)
from clusters.candidates.reference.core.roles import State


def start(
    config: NodeConfig,
    recovered: Recovered,
    now_ms: int,
    draw: Callable[[int], int],
    decisions: Decisions = CORRECT,
) -> Replica:
    """Start a replica on what its disk holds. The first ``take`` has the trace's ``start`` row.

    A voter that led comes back as resigned and never leads that epoch again (S853-2); a vote is kept (S853-1); an observer
    begins as a follower or unattached.
    """
    node = Replica(config, decisions, draw, Log(recovered.batches), now_ms, is_voter=config.me in config.voters)
    stored = recovered.quorum_state or QuorumState()
    node.stored = recovered.quorum_state
    node.epoch = decisions.recovered_epoch(stored.epoch, node.log.last_epoch)
    if node.epoch == stored.epoch:
        node.leader_id, node.voted_for = stored.leader_id, stored.voted_for
    resumes = _recover_state(node)
    trace(
        node,
        "start",
        epoch=node.epoch,
        state=node.state_name,
        leader=leader_name(node),
        voted_for=node.voted_for.node if node.voted_for is not None else None,
        log_end=node.log.end_offset,
        log_epoch=node.log.last_epoch,
        voters=voter_names(node),
    )
    states.trace_state(node, None)
    if resumes:
        states.lead(node, elected=False)
    elif node.state is State.CANDIDATE:
        elections.ask_votes(node)
    return node


def _recover_state(node: Replica) -> bool:
    """Choose the state to begin in; True when the replica leads on at once."""
    led = node.leader_id == node.me.node_id
    resumes = node.is_voter and node.decisions.resumes_leadership(led)
    if resumes:
        node.state = State.LEADER
    elif led and node.is_voter:
        node.state = State.RESIGNED
    elif led:
        node.leader_id = None
    elif node.leader_id is not None:
        node.state = State.FOLLOWER
        states.begin_fetching(node)
    elif node.voted_for is not None:
        node.state = State.CANDIDATE if node.voted_for == node.me else State.VOTED
    if node.state not in (State.LEADER, State.FOLLOWER):
        node.election_deadline_ms = states.election_timeout_ms(node)
    return resumes


def on_request(node: Replica, token: Token, request: Request, now_ms: int) -> None:
    """A peer or a client asks. The answer comes in some later ``take`` under the same token, before its deadline."""
    node.now_ms = max(node.now_ms, now_ms)
    match request:
        case FetchRequest():
            leading.on_fetch(node, token, request)
        case AppendRequest():
            clients.on_append(node, token, request)
        case ReadRequest():
            clients.on_read(node, token, request)
        case ReadOffsetRequest():
            clients.on_read_offset(node, token, request)
        case VoteRequest():
            elections.on_vote(node, token, request)
        case BeginQuorumEpochRequest():
            elections.on_begin_quorum_epoch(node, token, request)
        case EndQuorumEpochRequest():
            elections.on_end_quorum_epoch(node, token, request)
        case DescribeQuorumRequest():
            reply(node, token, leading.describe_quorum(node))


def on_response(node: Replica, correlation: int, response: Response, now_ms: int) -> None:
    """A peer answers. Answers that nobody waits for any more change nothing (S853-12)."""
    node.now_ms = max(node.now_ms, now_ms)
    calls.on_response(node, correlation, response)


def on_failure(node: Replica, correlation: int, now_ms: int) -> None:
    """There will be no answer: the deadline passed or the connection was lost."""
    node.now_ms = max(node.now_ms, now_ms)
    calls.on_failure(node, correlation)


def on_disconnect(node: Replica, token: Token) -> None:
    """Nobody waits for the answer of this token any more. What it appended stays appended."""
    leadership = node.leadership
    reads = [node.reads_to_ask, node.reads_held]
    if leadership is not None:
        reads.append(leadership.reads)
        leadership.parked = [parked for parked in leadership.parked if parked.token != token]
        for pending in leadership.appends:
            pending.answered = pending.answered or pending.token == token
    for waiting in reads:
        waiting[:] = [pending for pending in waiting if pending.token != token]


def on_tick(node: Replica, now_ms: int) -> None:
    """Time has passed: do everything whose time has come."""
    node.now_ms = now_ms = max(node.now_ms, now_ms)
    leadership = node.leadership
    if node.reads_due_ms <= now_ms:
        clients.expire_reads(node)
    if leadership is not None:
        if leadership.appends_due_ms <= now_ms:
            clients.expire_writes(node, leadership)
        if leadership.quorum_due_ms <= now_ms and leading.has_lapsed(node, leadership):
            resign(node, "check-quorum")
    elif not node.closing and node.fetch_deadline_ms <= now_ms:
        elections.on_fetch_timeout(node)
    elif not node.closing and node.election_deadline_ms <= now_ms:
        elections.on_election_timeout(node)


def on_shutdown(node: Replica, now_ms: int) -> None:
    """The process is asked to stop: a leader resigns and says so (EndQuorumEpoch); every pending request is answered.

    From here on the node serves no clients and no fetches, and asks nothing; it still votes.
    """
    node.now_ms = max(node.now_ms, now_ms)
    if node.leadership is not None:
        resign(node, "shutdown")
    node.closing = True
    asked = [pending for sent in node.sent.values() for pending in sent.reads]
    clients.fail_reads(node, [*node.reads_to_ask, *asked, *node.reads_held], Error.BROKER_NOT_AVAILABLE)
    node.reads_to_ask.clear()
    node.reads_held.clear()
    node.sent.clear()


def resign(node: Replica, detail: str) -> None:
    """Stop leading, and name the successors to the voters, the longest log first."""
    leadership = node.leadership
    if leadership is None:
        return
    order = sorted(leadership.voters, key=lambda voter: -leadership.voters[voter].end_offset)
    states.resign(node, detail)
    calls.send_end_quorum_epoch(node, tuple(order))


def deadline_ms(node: Replica) -> int:
    """When ``on_tick`` must be called next, in the clock of ``now_ms``."""
    due = min(node.reads_due_ms, calls.next_call_ms(node))
    leadership = node.leadership
    if leadership is not None:
        parked = min((each.deadline_ms for each in leadership.parked), default=due)
        return min(due, parked, leadership.appends_due_ms, leadership.quorum_due_ms)
    return due if node.closing else min(due, node.fetch_deadline_ms, node.election_deadline_ms)


def take(node: Replica) -> Effects:
    """Return everything to do since the last call, to be carried out in the order of its fields."""
    leadership = node.leadership
    if leadership is not None:
        clients.write_arrivals(node, leadership)
        leading.advance_high_watermark(node, leadership)
    clients.apply(node)
    if leadership is not None:
        clients.acknowledge(node, leadership)
        leading.serve_parked(node, leadership)
    clients.settle_reads(node)
    calls.send_wanted(node)
    promises = node.decisions.stored_quorum_state(QuorumState(node.epoch, node.leader_id, node.voted_for))
    effects, node.effects = node.effects, Effects()
    if promises is not None and promises != node.stored:
        effects.persist.quorum_state = node.stored = promises
    effects.persist.sync_quorum_state = node.decisions.syncs_quorum_state()
    effects.persist.sync_log = node.decisions.syncs_log()
    return effects
