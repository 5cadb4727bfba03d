"""Operations that a script's clients invoke: each asked once, of one node, over a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.produce.v10.response import ProduceResponse
from kio.static.primitive import i8, i32, i64

from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import decode_response, encode_request
from clusters.wire.reference_messages import (
    LINEARIZABLE,
    STALE,
    CompareAndSetRequest,
    CompareAndSetResponse,
    ReadRequest,
    ReadResponse,
    poll,
    polled,
    produce,
    produced,
)
from clusters.wire.reference_records import Command
from workloads.history.operation import Completion, Consistency, Invocation, Operation, Phase, Status

_WRITE_SURELY_FAILED = {ErrorCode.not_leader_or_follower, ErrorCode.broker_not_available, ErrorCode.invalid_request}
NO_ANSWER = Completion(Status.INFO, error="NO_ANSWER")


@dataclass(slots=True, eq=False)
class Asked:
    """One operation: invoked, and completed once there is an answer, or ``info`` when there will be none.

    Also the handler of its connection.
    """

    op_id: int
    process: int
    node: str
    invocation: Invocation
    invoked_ns: int
    phase: Phase
    now_ns: Callable[[], int]
    completion: Completion | None = None
    completed_ns: int | None = None
    _splitter: FrameSplitter = field(default_factory=FrameSplitter)

    @property
    def status(self) -> Status | None:
        """How it ended, None while it runs."""
        return None if self.completion is None else self.completion.status

    @property
    def value(self) -> int | None:
        """What a read returned; None when the key is unwritten."""
        return self.completion.output[0] if self.completion is not None and self.completion.output else None

    def received(self, data: bytes) -> None:
        """The answer."""
        for payload in self._splitter.feed(data):
            if self.completion is None:
                self.completion = _completion(self.invocation, payload)
                self.completed_ns = self.now_ns()

    def closed(self) -> None:
        """There will be no answer."""
        if self.completion is None:
            self.completion = NO_ANSWER

    def row(self) -> Operation:
        """The row of the table ``operations``; one that still runs is ``info``."""
        completion = self.completion or NO_ANSWER
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


@dataclass(slots=True)
class Processes:
    """Which process a client of a node is: the one that asked last, until it does not know what became of its operation."""

    last: dict[str, Asked] = field(default_factory=dict)
    """node → its latest operation"""
    _next: int = 0

    def idle(self, node: str) -> int:
        """The process that may ask next."""
        last = self.last.get(node)
        if last is not None and last.status in (Status.OK, Status.FAIL):
            return last.process
        self._next += 1
        return self._next - 1


def request(invocation: Invocation, timeout_ms: int, wall_ms: int) -> bytes:
    """The frame that asks for an invocation."""
    return encode_request(_request(invocation, timeout_ms, wall_ms), 1, "script")


def _request(invocation: Invocation, timeout_ms: int, wall_ms: int) -> Any:
    stale = invocation.consistency is Consistency.STALE
    key = invocation.key
    match invocation.f:
        case "read" if key is not None:
            consistency = i8(STALE if stale else LINEARIZABLE)
            return ReadRequest(key=i64(key), consistency=consistency, timeout_ms=i32(timeout_ms))
        case "poll":
            return poll(invocation.input[0], timeout_ms=timeout_ms, stale=stale)
        case "cas" if key is not None:
            expected, new = invocation.input
            return CompareAndSetRequest(key=i64(key), expected=i64(expected), new=i64(new), timeout_ms=i32(timeout_ms))
        case "write" | "append":
            command = Command(invocation.f, invocation.input[0], key)
            return produce([command], timestamp_ms=wall_ms, timeout_ms=timeout_ms)
    raise ValueError(f"{invocation} cannot be asked of the reference")


def _completion(invocation: Invocation, payload: bytes) -> Completion:
    """What a client makes of an answer: of a write whose answer is not certain, nobody knows."""
    match invocation.f:
        case "read":
            read = decode_response(ReadResponse, payload)[1]
            output = (int(read.value),) if read.written else ()
            return _read(read.error_code, output, int(read.applied_offset), int(read.leader_epoch))
        case "poll":
            answer = polled(decode_response(FetchResponse, payload)[1], invocation.input[0])
            entries = tuple(number for entry in answer.appended for number in entry)
            return _read(answer.error_code, entries, answer.high_watermark, answer.leader_epoch)
        case "cas":
            swap = decode_response(CompareAndSetResponse, payload)[1]
            if swap.error_code is ErrorCode.none and not swap.swapped:
                return Completion(Status.FAIL, error="CAS_MISMATCH", offset=int(swap.offset))
            return _written(swap.error_code, int(swap.offset), int(swap.leader_epoch))
    written = produced(decode_response(ProduceResponse, payload)[1])
    return _written(written.error_code, written.base_offset, written.leader_epoch)


def _read(error: ErrorCode, output: tuple[int, ...], offset: int, epoch: int) -> Completion:
    if error is ErrorCode.none:
        return Completion(Status.OK, output, offset=offset, epoch=epoch)
    return Completion(Status.FAIL, error=error.name.upper(), epoch=epoch)


def _written(error: ErrorCode, offset: int, epoch: int) -> Completion:
    if error is ErrorCode.none:
        return Completion(Status.OK, offset=offset, epoch=epoch)
    status = Status.FAIL if error in _WRITE_SURELY_FAILED else Status.INFO
    return Completion(status, error=error.name.upper(), epoch=epoch)
