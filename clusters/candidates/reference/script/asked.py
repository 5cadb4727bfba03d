"""Operations that a script's clients invoke: each asked once, of one node."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.candidates.reference.core.messages import (
    AppendRequest,
    AppendResponse,
    Error,
    ReadRequest,
    ReadResponse,
    Response,
)
from clusters.wire.reference_records import Command
from workloads.history.operation import Completion, Consistency, Invocation, Operation, Phase, Status

_WRITE_SURELY_FAILED = {Error.NOT_LEADER_OR_FOLLOWER, Error.BROKER_NOT_AVAILABLE, Error.INVALID_REQUEST}


@dataclass(slots=True, eq=False)
class Asked:
    """One operation: invoked, and completed once there is an answer (or ``info`` when there will be none)."""

    op_id: int
    process: int
    node: str
    invocation: Invocation
    invoked_ns: int
    phase: Phase
    completion: Completion | None = None
    completed_ns: int | None = None

    @property
    def status(self) -> Status | None:
        """How it ended, None while it runs."""
        return None if self.completion is None else self.completion.status

    @property
    def value(self) -> int | None:
        """What a read returned; None when the key is unwritten."""
        return self.completion.output[0] if self.completion is not None and self.completion.output else None

    def row(self) -> Operation:
        """The row of the table ``operations``; one that still runs is ``info``."""
        completion = self.completion or Completion(Status.INFO, error="UNFINISHED")
        asked = self.invocation
        return Operation(
            op_id=self.op_id,
            process=self.process,
            client_node=self.node,
            pinned=True,
            f=asked.f,
            key=asked.key,
            input=asked.input,
            output=completion.output,
            status=completion.status,
            error=completion.error,
            invoked_ns=self.invoked_ns,
            completed_ns=self.completed_ns,
            consistency=asked.consistency,
            phase=self.phase,
            offset=completion.offset,
            epoch=completion.epoch,
        )


def request(invocation: Invocation, timeout_ms: int) -> AppendRequest | ReadRequest:
    """What a node is asked for an invocation."""
    linearizable = invocation.consistency is Consistency.LINEARIZABLE
    match invocation.f:
        case "read":
            return ReadRequest(timeout_ms, key=invocation.key, linearizable=linearizable)
        case "poll":
            return ReadRequest(timeout_ms, from_offset=invocation.input[0], linearizable=linearizable)
        case "cas":
            expected, new = invocation.input
            return AppendRequest((Command("cas", new, invocation.key, expected),), timeout_ms)
        case f:
            return AppendRequest((Command(f, invocation.input[0], invocation.key),), timeout_ms)


def completion(response: Response) -> Completion:
    """What a client makes of an answer: of a write whose answer is not certain, nobody knows."""
    match response:
        case AppendResponse(error=Error.NONE, applied=applied, base_offset=offset, epoch=epoch):
            if all(applied):
                return Completion(Status.OK, offset=offset, epoch=epoch)
            return Completion(Status.FAIL, error="CAS_MISMATCH", offset=offset, epoch=epoch)
        case AppendResponse(error=error, epoch=epoch):
            surely = error in _WRITE_SURELY_FAILED
            return Completion(Status.FAIL if surely else Status.INFO, error=error.name, epoch=epoch)
        case ReadResponse(error=Error.NONE, applied_offset=offset, epoch=epoch):
            entries = tuple(number for entry in response.entries for number in entry)
            output = entries if response.value is None else (response.value,)
            return Completion(Status.OK, output, offset=offset, epoch=epoch)
        case ReadResponse(error=error, epoch=epoch):
            return Completion(Status.FAIL, error=error.name, epoch=epoch)
    raise TypeError(f"{type(response).__name__} answers no client")
