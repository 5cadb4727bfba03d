"""Clients of the reference candidate for the workloads ``register`` and ``log``.

Messages and the meaning of their errors are told in :mod:`clusters.wire.reference_messages`. Reads go to any node, writes are
answered by the leader. A following client asks, with its next operation, the leader that an answer named; where none was named
or the node could not be asked, the next node in turn.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import NamedTuple

from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.produce.v10.response import ProduceResponse
from kio.static.primitive import i8, i32, i64

from clusters.evidence.identity import node_name
from clusters.wire.problems import WireError
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
from workloads.clients.client import Connect
from workloads.clients.connection import Connection, Unanswered, Unsent
from workloads.clients.deadlines import Deadlines
from workloads.error_table import Trouble, completion, trouble
from workloads.history.operation import Completion, Consistency, Invocation, Status

VALUE_WAS_ANOTHER = "value-was-another"
"""``error`` of a compare-and-set that was applied and found another value"""


class _Answer(NamedTuple):
    """What an answer says, whatever was asked."""

    code: int
    leader_id: int
    leader_epoch: int
    offset: int
    output: tuple[int, ...] = ()
    refused: bool = False
    """a compare-and-set found another value"""


def wall_clock_ms() -> int:
    """Return milliseconds since 1970, which records carry for display."""
    return time.time_ns() // 1_000_000


class ReferenceClients:
    """The ClientFactory of one run: its clients share one timer."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.now_ms = now_ms
        self.deadlines = Deadlines()
        self._made = count()

    def __call__(
        self, connect: Connect, nodes: tuple[str, ...], pinned_to: str | None, process: int
    ) -> ReferenceClient:
        """Make one process's client; a following one begins at the next node in turn."""
        start = pinned_to or nodes[next(self._made) % len(nodes)]
        others = () if pinned_to else nodes

        def connection(node: str) -> Connection:
            return Connection(connect, node, self.deadlines, f"process-{process}")

        return ReferenceClient(connection, start, others, self.now_ms)


class ReferenceClient:
    """One process's client. It may go to ``others``; there are none for a pinned one."""

    def __init__(
        self, connection: Callable[[str], Connection], start: str, others: tuple[str, ...], now_ms: Callable[[], int]
    ) -> None:
        self._make_connection = connection
        self._connection = connection(start)
        self._others = others
        self._now_ms = now_ms
        self._ask: Mapping[str, Callable[[Invocation, float], Awaitable[_Answer]]] = {
            "read": self._read,
            "write": self._write,
            "cas": self._compare_and_set,
            "append": self._append,
            "poll": self._poll,
        }

    @property
    def node(self) -> str:
        """The node that the next operation will be sent to."""
        return self._connection.node

    async def invoke(self, invocation: Invocation, timeout_s: float) -> Completion:
        """Send one operation once and say how it ended. Raises KeyError for an operation that the reference has not."""
        mutating = invocation.f not in ("read", "poll")
        try:
            answer = await self._ask[invocation.f](invocation, timeout_s)
        except (Unsent, Unanswered) as error:
            self._turn(-1)
            return trouble(error.trouble, mutating=mutating)
        except WireError:
            self._connection.drop()
            return trouble(Trouble.GARBLED, mutating=mutating)
        if answer.code:
            self._turn(answer.leader_id)
        epoch, offset = _known(answer.leader_epoch), _known(answer.offset)
        if answer.refused and not answer.code:
            return Completion(Status.FAIL, (), VALUE_WAS_ANOTHER, offset, epoch)
        return completion(answer.code, mutating=mutating, output=answer.output, offset=offset, epoch=epoch)

    async def close(self) -> None:
        """Drop the connection."""
        self._connection.drop()

    def _turn(self, leader_id: int) -> None:
        """After an error: a following client turns to the leader that was named, else to the next node."""
        if not self._others:
            return
        asked = self.node
        turned = node_name(leader_id) if leader_id >= 0 else asked
        if turned == asked or turned not in self._others:
            turned = self._others[(self._others.index(asked) + 1) % len(self._others)]
        if turned != asked:
            self._connection.drop()
            self._connection = self._make_connection(turned)

    async def _read(self, invocation: Invocation, timeout_s: float) -> _Answer:
        request = ReadRequest(
            key=i64(_key(invocation)),
            consistency=i8(STALE if invocation.consistency is Consistency.STALE else LINEARIZABLE),
            timeout_ms=i32(_milliseconds(timeout_s)),
        )
        answer = await self._connection.request(request, ReadResponse, timeout_s)
        output = (int(answer.value),) if answer.written else ()
        return _Answer(answer.error_code, answer.leader_id, answer.leader_epoch, answer.applied_offset, output)

    async def _write(self, invocation: Invocation, timeout_s: float) -> _Answer:
        return await self._produce(Command("write", invocation.input[0], _key(invocation)), timeout_s)

    async def _append(self, invocation: Invocation, timeout_s: float) -> _Answer:
        return await self._produce(Command("append", invocation.input[0]), timeout_s)

    async def _produce(self, command: Command, timeout_s: float) -> _Answer:
        request = produce((command,), timestamp_ms=self._now_ms(), timeout_ms=_milliseconds(timeout_s))
        answer = produced(await self._connection.request(request, ProduceResponse, timeout_s))
        return _Answer(answer.error_code, answer.leader_id, answer.leader_epoch, answer.base_offset)

    async def _compare_and_set(self, invocation: Invocation, timeout_s: float) -> _Answer:
        expected, new = invocation.input
        request = CompareAndSetRequest(
            key=i64(_key(invocation)),
            expected=i64(expected),
            new=i64(new),
            timeout_ms=i32(_milliseconds(timeout_s)),
        )
        answer = await self._connection.request(request, CompareAndSetResponse, timeout_s)
        return _Answer(
            answer.error_code, answer.leader_id, answer.leader_epoch, answer.offset, refused=not answer.swapped
        )

    async def _poll(self, invocation: Invocation, timeout_s: float) -> _Answer:
        position = invocation.input[0]
        stale = invocation.consistency is Consistency.STALE
        request = poll(position, timeout_ms=_milliseconds(timeout_s), stale=stale)
        answer = polled(await self._connection.request(request, FetchResponse, timeout_s), position)
        output = tuple(number for pair in answer.appended for number in pair)
        return _Answer(answer.error_code, answer.leader_id, answer.leader_epoch, answer.high_watermark, output)


def _key(invocation: Invocation) -> int:
    if invocation.key is None:
        raise ValueError(f"{invocation.f} needs a key")
    return invocation.key


def _known(number: int) -> int | None:
    return None if number < 0 else int(number)


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))
