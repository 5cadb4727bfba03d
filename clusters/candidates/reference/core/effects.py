"""What a node wants done. One value, whose fields are carried out IN THEIR ORDER, each to its end before the next.

1. ``persist``: promises and records reach the disk. Nothing below may leave the machine before this is done, synced where
   it says so; if it fails the process must end without doing anything of what follows.
2. ``trace``: rows handed to the kernel (written, not necessarily synced) BEFORE any message that they explain.
3. ``send``: requests to peers.
4. ``reply``: answers to requests that were handed in under a token, perhaps long ago.

Several inputs may be handed to a node before its effects are taken once: that is how one fsync serves many operations.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from clusters.candidates.reference.core.messages import PeerRequest, ReplicaKey, Response
from clusters.candidates.reference.core.records import Batch

Token = Hashable
"""Names one incoming request: whatever the server needs to find the connection again (e.g. (connection, correlation id))."""

TraceRow = dict[str, Any]
"""Columns of ``node_events`` that the core knows (``kind`` always); the server adds run, node, directory id, incarnation,
``seq`` and ``ts_ns``, in the order of the list."""


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The promises of a replica, Kafka's ``quorum-state`` with ``data_version`` 1 (S853-1)."""

    epoch: int = 0
    leader_id: int | None = None
    voted_for: ReplicaKey | None = None


@dataclass(slots=True)
class Persist:
    """What reaches the disk, in the order of the fields."""

    quorum_state: QuorumState | None = None
    """replace the file: write beside it, fsync when ``sync_quorum_state``, rename, fsync the folder"""
    sync_quorum_state: bool = True
    truncate_to: int | None = None
    """new log end: drop every record at or above this offset before ``append``"""
    append: list[Batch] = field(default_factory=list)
    """contiguous; the first begins at the log's end (after ``truncate_to``)"""
    sync_log: bool = True
    """fsync the segments when anything was truncated or appended"""

    def __bool__(self) -> bool:
        return bool(self.quorum_state is not None or self.truncate_to is not None or self.append)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to a peer. The server hands the answer back with the same ``correlation``, or says that there is none
    after ``timeout_ms`` or a lost connection; then it replaces that connection, since the answer may still be under way."""

    correlation: int
    node_id: int
    request: PeerRequest
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request handed in as ``token``. At most one a token; none when the token was dropped."""

    token: Token
    response: Response


@dataclass(slots=True)
class Effects:
    """See the file's head for the order, which is an obligation."""

    persist: Persist = field(default_factory=Persist)
    trace: list[TraceRow] = field(default_factory=list)
    send: list[Outgoing] = field(default_factory=list)
    reply: list[Reply] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.persist or self.trace or self.send or self.reply)
