"""Kafka's errors: which of them say for certain that an operation did not and will not take effect.

A client turns every answer into ok, fail or info through :func:`completion`, whatever the candidate. *Definite* is claimed for
an error only where a server decides it before anything is appended. Everything else is info, an unknown code included: an
error that is taken for a failure and was none makes a correct candidate look wrong.

NOT_CONTROLLER (41) is not definite. Kafka's controller answers it before appending when it is not active, and with the
same bytes when it loses leadership while the record waits to be committed, which may still happen (KIP-595; Kafka's
``QuorumController`` fails its deferred events so). Nothing in the answer tells the two apart.

NOT_LEADER_OR_FOLLOWER (6) is definite: Kafka's raft layer checks it before it serves, for reads, fetches and voter changes,
and the reference answers it only before it appends; an append whose leader was deposed ends there with REQUEST_TIMED_OUT (7).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from clusters.wire.errors import error_name
from workloads.history.operation import Completion, Status


@dataclass(frozen=True, slots=True)
class KafkaError:
    """One row of the table."""

    code: int
    name: str
    definite: bool
    reason: str


_ROWS = (
    KafkaError(-1, "UNKNOWN_SERVER_ERROR", False, "an exception at any point of the operation"),
    KafkaError(1, "OFFSET_OUT_OF_RANGE", True, "a read that was refused"),
    KafkaError(2, "CORRUPT_MESSAGE", True, "refused before appending"),
    KafkaError(3, "UNKNOWN_TOPIC_OR_PARTITION", True, "refused before appending"),
    KafkaError(5, "LEADER_NOT_AVAILABLE", True, "nobody to append was known"),
    KafkaError(6, "NOT_LEADER_OR_FOLLOWER", True, "checked before serving"),
    KafkaError(7, "REQUEST_TIMED_OUT", False, "the record waits for its commit"),
    KafkaError(8, "BROKER_NOT_AVAILABLE", True, "closing, refused before appending"),
    KafkaError(10, "MESSAGE_TOO_LARGE", True, "refused before appending"),
    KafkaError(13, "NETWORK_EXCEPTION", False, "the request may have arrived"),
    KafkaError(19, "NOT_ENOUGH_REPLICAS", True, "refused before appending"),
    KafkaError(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", False, "appended"),
    KafkaError(29, "TOPIC_AUTHORIZATION_FAILED", True, "refused before appending"),
    KafkaError(31, "CLUSTER_AUTHORIZATION_FAILED", True, "refused before appending"),
    KafkaError(35, "UNSUPPORTED_VERSION", True, "refused before appending"),
    KafkaError(40, "INVALID_CONFIG", True, "validated before appending"),
    KafkaError(41, "NOT_CONTROLLER", False, "before appending, or after losing leadership: the same answer"),
    KafkaError(42, "INVALID_REQUEST", True, "validated before appending"),
    KafkaError(44, "POLICY_VIOLATION", True, "validated before appending"),
    KafkaError(74, "FENCED_LEADER_EPOCH", True, "checked before serving"),
    KafkaError(75, "UNKNOWN_LEADER_EPOCH", True, "checked before serving"),
    KafkaError(77, "STALE_BROKER_EPOCH", True, "checked before appending"),
    KafkaError(87, "INVALID_RECORD", True, "validated before appending"),
    KafkaError(89, "THROTTLING_QUOTA_EXCEEDED", True, "refused before appending"),
    KafkaError(98, "SNAPSHOT_NOT_FOUND", True, "a read that was refused"),
    KafkaError(99, "POSITION_OUT_OF_RANGE", True, "a read that was refused"),
    KafkaError(101, "DUPLICATE_BROKER_REGISTRATION", True, "checked before appending"),
    KafkaError(102, "BROKER_ID_NOT_REGISTERED", True, "checked before appending"),
    KafkaError(104, "INCONSISTENT_CLUSTER_ID", True, "checked before appending"),
    KafkaError(119, "INVALID_REGISTRATION", True, "validated before appending"),
)

ERRORS: dict[int, KafkaError] = {row.code: row for row in _ROWS}


class Trouble(StrEnum):
    """What a client met instead of an answer; the name is the operation's ``error``."""

    NO_LEADER = "no-leader"
    """no node says that it leads, so nothing was sent"""
    NOT_CONNECTED = "not-connected"
    """the connection could not be made, so nothing was sent"""
    CONNECTION_LOST = "connection-lost"
    """the connection ended after sending had begun"""
    TIMED_OUT = "timed-out"
    """no answer in time"""
    GARBLED = "garbled"
    """an answer that is none of the protocol"""


_NOTHING_SENT = (Trouble.NO_LEADER, Trouble.NOT_CONNECTED)


def is_definite(code: int) -> bool:
    """Whether an error code says for certain that the operation has no effect; an unknown code does not."""
    row = ERRORS.get(int(code))
    return row is not None and row.definite


def completion(
    code: int,
    *,
    mutating: bool,
    output: tuple[int, ...] = (),
    offset: int | None = None,
    epoch: int | None = None,
    node: str | None = None,
) -> Completion:
    """How an operation ended, from the answer's error code; 0 is ok with the given output.

    An operation that reads (``mutating`` False) has no effect that could come later: any error of it is a fail.
    """
    if code == 0:
        return Completion(Status.OK, output, None, offset, epoch, node)
    status = Status.FAIL if not mutating or is_definite(code) else Status.INFO
    return Completion(status, (), error_name(code), None, None, node)


def trouble(what: Trouble, *, mutating: bool, node: str | None = None) -> Completion:
    """How an operation ended that got no answer: a fail only if nothing was sent or nothing can come of it."""
    status = Status.FAIL if not mutating or what in _NOTHING_SENT else Status.INFO
    return Completion(status, (), what.value, None, None, node)
