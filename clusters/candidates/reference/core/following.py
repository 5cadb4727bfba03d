"""What a follower and an observer do: fetch, truncate where the logs diverge, append, learn what is committed."""

from __future__ import annotations

from clusters.candidates.reference.core.leading import raise_high_watermark
from clusters.candidates.reference.core.messages import EpochEnd, Error, FetchRequest, FetchResponse
from clusters.candidates.reference.core.replica import Replica, append_batch, truncate_log
from clusters.candidates.reference.core.roles import State
from clusters.candidates.reference.core.states import extend_fetch_deadline, hear


def fetch_target(node: Replica) -> int | None:
    """Whom to fetch from: the leader; an observer that knows none asks voters at random until one tells it (R853-13)."""
    if node.state is State.FOLLOWER:
        return node.leader_id
    if node.is_voter:
        return None
    if node.discovery is None:
        others = [voter.node_id for voter in node.config.voters if voter.node_id != node.me.node_id]
        node.discovery = others[node.draw(len(others) - 1)] if others else None
    return node.discovery


def fetch_request(node: Replica) -> FetchRequest:
    """Ask for what follows this replica's log."""
    last_epoch, end_offset = node.log.position
    wait_ms = node.config.fetch_max_wait_ms
    return FetchRequest(node.epoch, node.me, end_offset, last_epoch, wait_ms, node.high_watermark)


def on_fetch_answer(node: Replica, answer: FetchResponse, *, current: bool) -> bool:
    """The leader answers; ``current`` says that this replica still does what it did when it asked (S853-12).

    Returns False when the next fetch should wait a little.
    """
    generation = node.generation
    hear(node, answer.epoch, answer.leader_id)
    current = current and node.generation == generation
    if current:
        node.discovery = None
    if not node.decisions.fetch_answer_counts(current, answer.epoch, node.epoch):
        return not current
    if answer.error is not Error.NONE or node.state is not State.FOLLOWER:
        return False
    node.has_fetched = True
    extend_fetch_deadline(node)
    if answer.diverging is not None:
        return _truncate(node, answer.diverging)
    for batch in answer.batches:
        if batch.base_offset != node.log.end_offset:
            return False
        append_batch(node, batch)
    committed = min(answer.high_watermark, node.log.end_offset)
    if committed > node.high_watermark:
        raise_high_watermark(node, committed)
    return True


def _truncate(node: Replica, diverging: EpochEnd) -> bool:
    """Cut the log at the end of the highest epoch that both logs may have in common (S853-8)."""
    own = node.log.epoch_end(diverging.epoch)
    common_end = min(own.end_offset, diverging.end_offset) if own.epoch == diverging.epoch else own.end_offset
    offset = node.decisions.truncation_offset(common_end, node.high_watermark)
    if offset >= node.log.end_offset:
        return False
    truncate_log(node, offset)
    return True
