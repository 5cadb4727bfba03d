"""Changes of state: each goes through the table of ``roles``, ends what belonged to the old state, and is traced."""

from __future__ import annotations

from clusters.candidates.reference.core.clients import fail_reads, fail_writes
from clusters.candidates.reference.core.leading import leave_fetches
from clusters.candidates.reference.core.records import LEADER_CHANGE, Batch, LeaderChange
from clusters.candidates.reference.core.replica import (
    NEVER_MS,
    Leadership,
    Progress,
    Replica,
    append_batch,
    leader_name,
    trace,
    voter_names,
)
from clusters.candidates.reference.core.roles import Event, State, step


def move(node: Replica, event: Event) -> None:
    """Take the step of the table and forget what belonged to the state that is left. The caller sets epoch, leader and
    vote before it, deadlines after it."""
    previous = node.state_name
    node.state = step(node.state, event)
    node.generation += 1
    node.calls.clear()
    node.election = None
    node.election_deadline_ms = NEVER_MS
    node.fetch_deadline_ms = NEVER_MS
    node.has_fetched = False
    node.discovery = None
    trace_state(node, previous)


def trace_state(node: Replica, previous: str | None) -> None:
    """Trace the state, as it was entered."""
    trace(node, "state", state=node.state_name, previous_state=previous, epoch=node.epoch, leader=leader_name(node))


def election_timeout_ms(node: Replica) -> int:
    """When an election timeout that begins now is over."""
    if not node.is_voter:
        return NEVER_MS
    config = node.config
    return node.now_ms + config.election_timeout_ms + node.draw(config.election_jitter_ms)


def learn_epoch(node: Replica, epoch: int) -> None:
    """A higher epoch exists and nobody says who leads it (R853-14, -18, -20, -23, -25).

    An election timeout that was running runs on, so that a peer that raises its epoch again and again delays nobody.
    """
    running = node.election_deadline_ms
    end_leadership(node)
    node.epoch, node.leader_id, node.voted_for = epoch, None, None
    move(node, Event.HIGHER_EPOCH)
    node.election_deadline_ms = running if running != NEVER_MS else election_timeout_ms(node)


def follow(node: Replica, epoch: int, leader_id: int) -> None:
    """Somebody else leads this epoch or a higher one (R853-17, -27). The vote of this epoch is kept."""
    if node.state is State.LEADER:
        learn_epoch(node, epoch)
    if epoch > node.epoch:
        node.epoch, node.voted_for = epoch, None
    node.leader_id = leader_id
    move(node, Event.LEADER_DISCOVERED)
    begin_fetching(node)


def begin_fetching(node: Replica) -> None:
    """Give a leader that is followed from now on its time to answer."""
    node.fetch_jitter_ms = node.draw(node.config.election_jitter_ms // 4)
    extend_fetch_deadline(node)


def extend_fetch_deadline(node: Replica) -> None:
    """The leader is alive: its next answer has the full time again."""
    node.fetch_deadline_ms = node.now_ms + node.config.fetch_timeout_ms + node.fetch_jitter_ms


def hear(node: Replica, epoch: int, leader_id: int | None) -> None:
    """Take what any answer says of epoch and leader (S853-13). Older epochs say nothing."""
    other = leader_id is not None and leader_id != node.me.node_id
    if epoch > node.epoch:
        if leader_id is not None and other:
            follow(node, epoch, leader_id)
        else:
            learn_epoch(node, epoch)
    elif epoch == node.epoch and leader_id is not None and other and node.leader_id is None:
        follow(node, epoch, leader_id)


def lead(node: Replica, *, elected: bool = True) -> None:
    """Begin to lead this epoch: its first record says so (S853-11)."""
    if elected:
        node.leader_id = node.me.node_id
        move(node, Event.ELECTION_WON)
    now_ms = node.now_ms
    node.leadership = Leadership(
        epoch_start=node.log.end_offset,
        voters={voter: Progress(fetched_ms=now_ms) for voter in node.config.voters if voter != node.me},
        quorum_due_ms=now_ms + node.config.check_quorum_ms,
    )
    change = LeaderChange(node.me.node_id, tuple(voter_names(node)))
    append_batch(node, Batch(node.log.end_offset, node.epoch, LEADER_CHANGE, (change,)))


def resign(node: Replica, detail: str) -> None:
    """Stop leading without knowing of a higher epoch (R853-24); this epoch is never led again."""
    trace(node, "resign", epoch=node.epoch, detail=detail)
    end_leadership(node)
    move(node, Event.RESIGNED)
    node.election_deadline_ms = election_timeout_ms(node)


def end_leadership(node: Replica) -> None:
    """Answer everybody who waits for this node as the leader (S853-3)."""
    leadership, node.leadership = node.leadership, None
    if leadership is not None:
        fail_writes(node, leadership)
        fail_reads(node, leadership.reads)
        leave_fetches(node, leadership)
