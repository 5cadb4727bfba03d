"""Every decision of the protocol that one could get wrong, as one function each.

The core asks only through the :class:`Decisions` that it was started with. A defect replaces one of these functions; nothing
else in the project knows that it could be replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clusters.candidates.reference.core.effects import QuorumState
from clusters.candidates.reference.core.messages import EpochEnd, ReplicaKey

Position = tuple[int, int]
"""(epoch of the last record, end offset): how far a log reaches, compared epoch first."""


def majority(voters: int) -> int:
    """How many of so many voters are a majority."""
    return voters // 2 + 1


def vote_is_free(voted_for: ReplicaKey | None, candidate: ReplicaKey) -> bool:
    """Whether this epoch's vote may go to the candidate: one vote an epoch, the same answer when asked again (S853-4)."""
    return voted_for is None or voted_for == candidate


def log_is_up_to_date(candidate: Position, own: Position) -> bool:
    """Whether a candidate's log reaches at least as far as one's own (S853-4; for pre-votes R650-12)."""
    return candidate >= own


def pre_vote_is_won(granted: int, needed: int) -> bool:
    """Whether a prospective may become a candidate and raise its epoch (R650-13)."""
    return granted >= needed


def stored_quorum_state(state: QuorumState) -> QuorumState | None:
    """What of a replica's promises is written to its disk; None writes nothing (S853-1)."""
    return state


def recovered_epoch(stored: int, in_log: int) -> int:
    """The epoch that a replica starts in (S853-1)."""
    return max(stored, in_log)


def resumes_leadership(was_leader: bool) -> bool:
    """Whether a replica that led when it stopped leads on in the same epoch: never (S853-2)."""
    del was_leader
    return False


def directory_id(previous: str | None, fresh: str) -> str:
    """The directory id that an empty disk is formatted with, whatever the disk before it had (R853-30)."""
    del previous
    return fresh


def syncs_quorum_state() -> bool:
    """Whether promises are synced to the disk before a message tells of them."""
    return True


def syncs_log() -> bool:
    """Whether records are synced to the disk before a message tells of them."""
    return True


def leadership_lapsed(silence_ms: int, check_quorum_ms: int) -> bool:
    """Whether a leader that no majority has fetched from for so long must resign (S853-14)."""
    return silence_ms >= check_quorum_ms


def replicated_end(voters: Sequence[int], observers: Sequence[int], needed: int) -> int:
    """The end offset that a majority of voters has reached; observers do not count (R853-7). Offsets in any order."""
    del observers
    return sorted(voters, reverse=True)[needed - 1]


def may_commit(entry_epoch: int, leader_epoch: int) -> bool:
    """Whether a leader may commit by counting up to an entry of this epoch: only of its own (S853-9)."""
    return entry_epoch == leader_epoch


def position_is_valid(fetch_offset: int, last_fetched_epoch: int, leader_end: EpochEnd) -> bool:
    """Whether a fetching replica's log is a prefix of the leader's; ``leader_end`` is where the leader's records of that
    epoch, or of the next lower one it has, end (S853-7)."""
    return fetch_offset == 0 or (leader_end.epoch == last_fetched_epoch and fetch_offset <= leader_end.end_offset)


def truncation_offset(common_end: int, high_watermark: int) -> int:
    """Where a follower cuts its log that diverges: at the end of what it may have in common with the leader (S853-8)."""
    del high_watermark
    return common_end


def fetch_answer_counts(is_current: bool, answer_epoch: int, own_epoch: int) -> bool:
    """Whether a follower may act on the answer to a fetch: it still does what it did when it asked, and the answer is of its own
    epoch (S853-12)."""
    return is_current and answer_epoch == own_epoch


def applicable_end(high_watermark: int, log_end: int) -> int:
    """Up to where the state machine applies the log: what is committed (X650-5)."""
    del log_end
    return high_watermark


def acknowledged_end(applied_end: int, log_end: int) -> int:
    """Up to where a leader tells its clients ok: what is committed and applied (X650-3)."""
    del log_end
    return applied_end


def read_is_confirmed(confirmations: int, needed: int) -> bool:
    """Whether a leader has proven, after a read arrived, that it still leads (X650-1)."""
    return confirmations >= needed


def read_is_covered(applied_end: int, required_offset: int) -> bool:
    """Whether a state machine has reached what a linearizable read must see (R650-26)."""
    return applied_end >= required_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The decisions of one node."""

    majority: Callable[[int], int] = majority
    vote_is_free: Callable[[ReplicaKey | None, ReplicaKey], bool] = vote_is_free
    log_is_up_to_date: Callable[[Position, Position], bool] = log_is_up_to_date
    pre_vote_is_won: Callable[[int, int], bool] = pre_vote_is_won
    stored_quorum_state: Callable[[QuorumState], QuorumState | None] = stored_quorum_state
    recovered_epoch: Callable[[int, int], int] = recovered_epoch
    resumes_leadership: Callable[[bool], bool] = resumes_leadership
    directory_id: Callable[[str | None, str], str] = directory_id
    """asked by whoever formats a disk, not by the core"""
    syncs_quorum_state: Callable[[], bool] = syncs_quorum_state
    syncs_log: Callable[[], bool] = syncs_log
    leadership_lapsed: Callable[[int, int], bool] = leadership_lapsed
    replicated_end: Callable[[Sequence[int], Sequence[int], int], int] = replicated_end
    may_commit: Callable[[int, int], bool] = may_commit
    position_is_valid: Callable[[int, int, EpochEnd], bool] = position_is_valid
    truncation_offset: Callable[[int, int], int] = truncation_offset
    fetch_answer_counts: Callable[[bool, int, int], bool] = fetch_answer_counts
    applicable_end: Callable[[int, int], int] = applicable_end
    acknowledged_end: Callable[[int, int], int] = acknowledged_end
    read_is_confirmed: Callable[[int, int], bool] = read_is_confirmed
    read_is_covered: Callable[[int, int], bool] = read_is_covered


CORRECT = Decisions()
