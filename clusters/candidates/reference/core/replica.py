"""The data of one replica. Functions of the modules beside it act on it; nobody outside the core writes to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from clusters.candidates.reference.core.config import NodeConfig
from clusters.candidates.reference.core.decisions import Decisions
from clusters.candidates.reference.core.effects import Effects, QuorumState, Reply, Token, TraceRow
from clusters.candidates.reference.core.log import Log
from clusters.candidates.reference.core.messages import (
    AppendRequest,
    FetchRequest,
    ReadRequest,
    ReplicaKey,
    Response,
)
from clusters.candidates.reference.core.records import Batch
from clusters.candidates.reference.core.roles import State
from clusters.candidates.reference.core.state_machine import StateMachine

NEVER_MS = 1 << 62
"""A deadline that does not come."""


@dataclass(slots=True)
class Election:
    """The answers to one round of votes or pre-votes."""

    pre_vote: bool
    granted: set[ReplicaKey]
    refused: set[ReplicaKey] = field(default_factory=set)


@dataclass(slots=True)
class Progress:
    """What a leader knows of another replica."""

    end_offset: int = -1
    """-1 until its first valid fetch in this epoch"""
    fetched_ms: int = -1
    """when it last fetched; of a voter at first when the leader was elected"""
    told: bool = False
    """it has answered BeginQuorumEpoch or fetched"""
    begin_due_ms: int = 0
    confirmed_round: int = 0
    """the latest round of BeginQuorumEpoch that it answered in this epoch"""


@dataclass(slots=True)
class PendingAppend:
    """A client's write that is appended and waits for commit and apply."""

    token: Token
    base_offset: int
    end_offset: int
    deadline_ms: int
    answered: bool = False


@dataclass(slots=True)
class PendingRead:
    """A read, or another node's ReadOffset (``request`` None), that waits for its turn."""

    token: Token
    request: ReadRequest | None
    deadline_ms: int
    round: int = 0
    """at a leader: the round of confirmations, begun after the read arrived, that must be won"""
    required_offset: int = 0
    """elsewhere: what ReadOffset answered"""


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits at the leader for records or a higher high watermark."""

    token: Token
    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True)
class Leadership:
    """What a replica knows only while it leads."""

    epoch_start: int
    """offset of its LeaderChange record"""
    voters: dict[ReplicaKey, Progress]
    """the other voters"""
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    unwritten: list[tuple[Token, AppendRequest, int]] = field(default_factory=list)
    """writes that arrived since effects were last taken, with their deadlines: they become one batch"""
    appends: deque[PendingAppend] = field(default_factory=deque)
    appends_due_ms: int = NEVER_MS
    """no pending write's deadline is earlier"""
    refused: set[int] = field(default_factory=set)
    """offsets of pending compare-and-sets that found another value"""
    parked: list[ParkedFetch] = field(default_factory=list)
    quorum_due_ms: int = NEVER_MS
    """when to look again whether a majority still fetches"""
    round: int = 0
    """rounds of confirmation begun"""
    reads: list[PendingRead] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """A kind of request to one peer, of which at most one is under way."""

    correlation: int | None = None
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """A request under way and the state of affairs in which it was sent: an answer into another one changes little."""

    kind: str
    node_id: int
    generation: int
    """counts changes of state"""
    replica: ReplicaKey | None = None
    """the voter that was asked, where it matters which"""
    round: int = 0
    """the leader's round of confirmations when it was sent"""
    reads: tuple[PendingRead, ...] = ()
    """the reads that wait for this ReadOffset"""


@dataclass(slots=True)
class Replica:
    """One replica."""

    config: NodeConfig
    decisions: Decisions
    draw: Callable[[int], int]
    log: Log
    now_ms: int
    is_voter: bool
    state: State = State.UNATTACHED
    epoch: int = 0
    leader_id: int | None = None
    voted_for: ReplicaKey | None = None
    high_watermark: int = 0
    """what is known to be committed; below a new leader's until it has committed in its epoch"""
    generation: int = 0
    election: Election | None = None
    leadership: Leadership | None = None
    election_deadline_ms: int = NEVER_MS
    fetch_deadline_ms: int = NEVER_MS
    fetch_jitter_ms: int = 0
    """drawn when it begins to follow, so that followers of one leader do not all miss it in the same moment"""
    has_fetched: bool = False
    """a follower's fetch has succeeded since it follows this leader"""
    discovery: int | None = None
    """the voter that an observer without a leader asks"""
    closing: bool = False
    machine: StateMachine = field(default_factory=StateMachine)
    calls: dict[tuple[str, int], Call] = field(default_factory=dict)
    sent: dict[int, Sent] = field(default_factory=dict)
    next_correlation: int = 1
    reads_to_ask: list[PendingRead] = field(default_factory=list)
    """reads at a replica that does not lead, for which no ReadOffset was sent yet"""
    reads_held: list[PendingRead] = field(default_factory=list)
    """reads that wait until their required offset is applied"""
    reads_due_ms: int = NEVER_MS
    """no pending read's deadline is earlier"""
    stored: QuorumState | None = None
    """what the disk was last told"""
    effects: Effects = field(default_factory=Effects)

    @property
    def me(self) -> ReplicaKey:
        """Its identity."""
        return self.config.me

    @property
    def needed(self) -> int:
        """How many voters are a majority."""
        return self.decisions.majority(len(self.config.voters))

    @property
    def known_leader(self) -> int | None:
        """Whom it would name as the leader; a resigned leader names nobody."""
        return None if self.state is State.RESIGNED else self.leader_id

    @property
    def state_name(self) -> str:
        """Its state as traces name it."""
        return "observer" if self.state is State.FOLLOWER and not self.is_voter else self.state.value


def trace(node: Replica, kind: str, **columns: object) -> None:
    """Add a row to the trace."""
    row: TraceRow = {"kind": kind}
    row.update(columns)
    node.effects.trace.append(row)


def reply(node: Replica, token: Token, response: Response) -> None:
    """Answer a request."""
    node.effects.reply.append(Reply(token, response))


def leader_name(node: Replica) -> str | None:
    """The leader as traces name it."""
    return None if node.leader_id is None else f"n{node.leader_id}"


def voter_names(node: Replica) -> list[str]:
    """The voters as traces name them."""
    return [str(voter) for voter in node.config.voters]


def append_batch(node: Replica, batch: Batch) -> None:
    """Append to the log, in memory now and on disk by the next effects."""
    node.log.append(batch)
    node.effects.persist.append.append(batch)
    trace(
        node,
        "append",
        offset=batch.base_offset,
        end_offset=batch.end_offset,
        epoch=batch.epoch,
        checksum=batch.checksum,
        state=node.state_name,
    )


def truncate_log(node: Replica, offset: int) -> None:
    """Drop every record at or above an offset, in memory now and on disk by the next effects.

    Nothing stops a truncation below the high watermark, which only a defect brings about: whoever judges the node must be
    able to see it.
    """
    before = node.log.end_offset
    persist = node.effects.persist
    on_disk = persist.append[0].base_offset if persist.append else before
    node.log.truncate(offset)
    end = node.log.end_offset
    trace(node, "truncate", offset=end, log_end=before, high_watermark=node.high_watermark, epoch=node.epoch)
    persist.append = [batch for batch in persist.append if batch.end_offset <= end]
    if end < on_disk:
        persist.truncate_to = end if persist.truncate_to is None else min(persist.truncate_to, end)
    node.high_watermark = min(node.high_watermark, end)
    if node.machine.applied_end > end:
        node.machine = StateMachine()
