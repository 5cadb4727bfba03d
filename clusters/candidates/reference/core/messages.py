"""What nodes and clients say to each other, as values. Names, error names and error codes are Kafka's.

Offsets start at 0; an end offset and a high watermark are exclusive. A replica is known by its node id *and* its directory
id (R853-29); ``leader_id`` None is Kafka's −1. Where a message has a Kafka schema the comment names it; Append, Read and
ReadOffset are carried as the server decides (Produce, or messages of its own).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from clusters.candidates.reference.core.records import Batch
from clusters.evidence.identity import node_name
from clusters.wire.reference_records import Command


class Error(IntEnum):
    """Kafka's error codes, as far as the core answers with them."""

    NONE = 0
    LEADER_NOT_AVAILABLE = 5
    """no leader is known to ask: nothing was done"""
    NOT_LEADER_OR_FOLLOWER = 6
    """the node does not lead: nothing was appended, a write that gets it certainly failed"""
    REQUEST_TIMED_OUT = 7
    """the deadline passed; of a write nobody knows whether it will take effect"""
    BROKER_NOT_AVAILABLE = 8
    """the node is closing, or has as many requests pending as it takes: nothing was appended"""
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    """the leader lost its leadership after it had appended the write: nobody knows whether it will take effect"""
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    """the sender's epoch is older than the receiver's"""
    UNKNOWN_LEADER_EPOCH = 75
    """the sender's epoch is newer than the receiver's"""
    INVALID_VOTER_KEY = 125
    """the request is meant for another directory id, e.g. for the disk that was there before a wipe"""


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """Who a replica is: node id and directory id, in Kafka's text form (R853-29)."""

    node_id: int
    directory_id: str

    @property
    def node(self) -> str:
        """The node's name in every table: ``n1``."""
        return node_name(self.node_id)

    def __str__(self) -> str:
        return f"{node_name(self.node_id)}/{self.directory_id}"


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Vote (52) v2. A pre-vote carries the sender's current epoch, a vote the raised one (KIP-996)."""

    epoch: int
    replica: ReplicaKey
    """who asks"""
    voter: ReplicaKey
    """who is asked: another directory id than the receiver's is refused with INVALID_VOTER_KEY"""
    last_epoch: int
    """epoch of the asking replica's last record, 0 for an empty log"""
    last_offset: int
    """end offset of the asking replica's log"""
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """Answer to Vote; ``epoch`` and ``leader_id`` are the responder's."""

    error: Error
    epoch: int
    leader_id: int | None
    granted: bool


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53) v1: a leader tells a voter that it leads; also the round that confirms reads (X650-1)."""

    epoch: int
    leader_id: int
    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    """Answer to BeginQuorumEpoch."""

    error: Error
    epoch: int
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54) v1: a leader that resigns names its successors, the longest log first."""

    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    """Answer to EndQuorumEpoch."""

    error: Error
    epoch: int
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """An epoch and the end offset of its records: where a log last agreed with the leader's."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Fetch (1) v17/v18 of the one partition.

    ``replica`` None is Kafka's replica id −1: a client that reads the log; its position is validated only when
    ``last_fetched_epoch`` is given (not negative).
    """

    epoch: int
    """current leader epoch; −1 from a client that does not know it"""
    replica: ReplicaKey | None
    fetch_offset: int
    last_fetched_epoch: int
    """epoch of the record before ``fetch_offset``; 0 for an empty log; −1 from a client that does not know it"""
    max_wait_ms: int
    high_watermark: int | None = None
    """the fetching replica's own (v18); None where it is not told: the answer is then held back at most ``max_wait_ms``"""


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Answer to Fetch. ``diverging`` is set when the position is not in the leader's log; then there are no batches."""

    error: Error
    epoch: int
    leader_id: int | None
    high_watermark: int
    """−1 until the leader has committed in its epoch"""
    batches: tuple[Batch, ...] = ()
    """to the log end, committed or not; for a client (``replica`` None) only what is committed"""
    diverging: EpochEnd | None = None


@dataclass(frozen=True, slots=True)
class ReadOffsetRequest:
    """Asks the leader how far a linearizable read must see (R650-23)."""

    timeout_ms: int
    """how long the asker will wait"""


@dataclass(frozen=True, slots=True)
class ReadOffsetResponse:
    """``offset`` is the leader's applied end offset, proven current after the request arrived (X650-1 … 3); −1 on error."""

    error: Error
    epoch: int
    leader_id: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """A client's commands (write, append, cas), appended together and answered after commit *and* apply (X650-3)."""

    commands: tuple[Command, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class AppendResponse:
    """Answer to Append. ``base_offset`` is −1 when nothing was appended or nobody may rely on it."""

    error: Error
    epoch: int
    leader_id: int | None
    base_offset: int = -1
    applied: tuple[bool, ...] = ()
    """one for each command: False only for a cas that found another value"""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read at this node, whatever its role (R650-19): of one key, or of the log from an offset on."""

    timeout_ms: int
    key: int | None = None
    from_offset: int | None = None
    """log read: the values of ``append`` commands with offsets from here on"""
    limit: int = 1000
    """log read: at most so many values"""
    linearizable: bool = True
    """False answers at once from what is applied (R650-28)"""


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """Answer to Read. ``value`` None with error NONE: the key is unwritten."""

    error: Error
    epoch: int
    leader_id: int | None
    value: int | None = None
    entries: tuple[tuple[int, int], ...] = ()
    """log read: (offset, value)"""
    applied_offset: int = -1
    """applied end offset of the answer; after a log read cut by ``limit``, the offset to go on from"""


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """DescribeQuorum (55)."""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """What the leader knows of one replica; −1 where it knows nothing."""

    replica: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
    """Answer to DescribeQuorum: without error only by the leader."""

    error: Error
    epoch: int
    leader_id: int | None
    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()


PeerRequest = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | ReadOffsetRequest
PeerResponse = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | ReadOffsetResponse
Request = PeerRequest | AppendRequest | ReadRequest | DescribeQuorumRequest
Response = PeerResponse | AppendResponse | ReadResponse | DescribeQuorumResponse
