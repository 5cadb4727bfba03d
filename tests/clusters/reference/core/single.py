"""One core, asked by hand."""

from __future__ import annotations

from typing import Any

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.config import NodeConfig, Recovered
from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from clusters.candidates.reference.core.effects import Effects, QuorumState
from clusters.candidates.reference.core.messages import Error, FetchResponse, ReplicaKey, Request, VoteResponse
from clusters.candidates.reference.core.records import DATA, Batch
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.core.roles import State
from clusters.wire.reference_records import Command

ME, OTHER, THIRD = (ReplicaKey(number, f"disk-{number}") for number in (1, 2, 3))
ELECTION_MS, FETCH_MS, CHECK_QUORUM_MS = 300, 500, 750


def config(**changed: Any) -> NodeConfig:
    plain: dict[str, Any] = {
        "me": ME,
        "voters": (ME, OTHER, THIRD),
        "election_timeout_ms": ELECTION_MS,
        "election_jitter_ms": 0,
        "fetch_timeout_ms": FETCH_MS,
        "check_quorum_ms": CHECK_QUORUM_MS,
        "request_timeout_ms": 400,
        "fetch_max_wait_ms": 100,
    }
    return NodeConfig(**(plain | changed))


def records(*epochs: int) -> tuple[Batch, ...]:
    """A log with one record of each of these epochs."""
    return tuple(Batch(at, epoch, DATA, (Command("append", at),)) for at, epoch in enumerate(epochs))


def started(
    state: QuorumState | None = None,
    log: tuple[Batch, ...] = (),
    decisions: Decisions = CORRECT,
    **changed: Any,
) -> Replica:
    """A core at time 0, its first effects taken."""
    node = core.start(config(**changed), Recovered(state, log), 0, lambda greatest: 0, decisions)
    core.take(node)
    return node


def ask(node: Replica, request: Request, now_ms: int | None = None) -> tuple[Any, Effects]:
    """Ask, and return the answer (None while it is held back) and all effects."""
    core.on_request(node, "asked", request, node.now_ms if now_ms is None else now_ms)
    effects = core.take(node)
    return next((reply.response for reply in effects.reply if reply.token == "asked"), None), effects


def tick(node: Replica, now_ms: int) -> Effects:
    core.on_tick(node, now_ms)
    return core.take(node)


def elected(log: tuple[Batch, ...] = (), **changed: Any) -> Replica:
    """A leader of epoch 1 (or the next after its log's), elected by OTHER, which has not fetched yet."""
    node = started(QuorumState(log[-1].epoch) if log else None, log, **changed)
    effects = tick(node, node.election_deadline_ms)
    for _round in ("pre-vote", "vote"):
        asked = next(sent for sent in effects.send if sent.node_id == OTHER.node_id)
        core.on_response(node, asked.correlation, VoteResponse(Error.NONE, node.epoch, None, True), node.now_ms)
        effects = core.take(node)
    assert node.state is State.LEADER
    return node


def following(leader_id: int = OTHER.node_id, epoch: int = 1, log: tuple[Batch, ...] = (), **changed: Any) -> Replica:
    """A follower whose first fetch is under way with correlation 1."""
    return started(QuorumState(epoch, leader_id), log, **changed)


def fetched(epoch: int = 1, leader_id: int = OTHER.node_id, high_watermark: int = -1, **fields: Any) -> FetchResponse:
    """A leader's answer."""
    return FetchResponse(Error.NONE, epoch, leader_id, high_watermark, **fields)
