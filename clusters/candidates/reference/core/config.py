"""What a node is configured with and what it finds on its disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.candidates.reference.core.effects import QuorumState
from clusters.candidates.reference.core.messages import ReplicaKey
from clusters.candidates.reference.core.records import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node. Times in milliseconds."""

    me: ReplicaKey
    """the identity read from ``meta.properties``"""
    voters: tuple[ReplicaKey, ...]
    """the initial voters; a node that is none of them by node id *and* directory id is an observer (R853-9, R853-31)"""
    election_timeout_ms: int
    election_jitter_ms: int
    """a drawn 0 … this is added to each election timeout, and up to a quarter of it to the fetch timeout; 0 makes timers tie"""
    fetch_timeout_ms: int
    """a follower without a successful fetch for so long stands for election"""
    check_quorum_ms: int
    """a leader that a majority has not fetched from for so long resigns (S853-14)"""
    request_timeout_ms: int
    """deadline of every request to a peer"""
    fetch_max_wait_ms: int
    """how long a leader holds a fetch that it has nothing to answer; less than ``request_timeout_ms``"""
    retry_backoff_ms: int = 20
    """pause before a request that failed is sent again"""
    fetch_max_records: int = 2000
    """records in one fetch answer, at least one batch"""
    max_pending: int = 20_000
    """client requests that may wait at once; more are refused"""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a node finds on its disk when it starts; both empty on a new disk."""

    quorum_state: QuorumState | None
    batches: Sequence[Batch] = ()
