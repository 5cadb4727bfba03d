"""One connection of a measuring client to one node: framed requests, one in flight, each sent once.

Whatever goes wrong is one of two things, and the difference decides between ``fail`` and ``info``: :class:`Unsent`, nothing
left this process, so the operation certainly has no effect; or :class:`Unanswered`, it may have arrived, and may take effect at
any later time. After a timeout, a lost connection or an answer that makes no sense the connection is dropped: a late answer must
never be taken for the next one's.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import correlation_id, decode_response, encode_request
from clusters.wire.problems import WireError
from workloads.clients.client import Connect
from workloads.clients.deadlines import Deadlines
from workloads.error_table import Trouble

Response = TypeVar("Response")

_CORRELATION_MAX = 2**31 - 1


class Unsent(Exception):
    """Nothing was sent: the operation certainly has no effect."""

    trouble = Trouble.NOT_CONNECTED


class Unanswered(Exception):
    """It was sent, at least in part, and nobody knows what came of it."""

    def __init__(self, trouble: Trouble, detail: object = "") -> None:
        super().__init__(f"{trouble} {detail}".strip())
        self.trouble = trouble


class _Exchange(asyncio.Protocol):
    """The bytes of one connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: asyncio.Future[bytes] | None = None
        self._splitter = FrameSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            payloads = self._splitter.feed(data)
        except WireError as error:
            self.fail(Unanswered(Trouble.GARBLED, error))
            return
        for payload in payloads:
            waiting, self.waiting = self.waiting, None
            if waiting is None:
                self.drop()
                return
            if not waiting.done():
                waiting.set_result(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.fail(Unanswered(Trouble.CONNECTION_LOST, exc or ""))

    def fail(self, error: Unanswered) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
        self.drop()

    def expire(self) -> None:
        self.fail(Unanswered(Trouble.TIMED_OUT))

    def drop(self) -> None:
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.abort()


class Connection:
    """Connects to ``node`` when there is something to send, and again after it was dropped."""

    def __init__(self, connect: Connect, node: str, deadlines: Deadlines, client_id: str) -> None:
        self.node = node
        self._connect = connect
        self._deadlines = deadlines
        self._client_id = client_id
        self._exchange: _Exchange | None = None
        self._correlation = 0

    @property
    def connected(self) -> bool:
        """Whether the next request needs no new connection, as far as is known."""
        return self._exchange is not None and self._exchange.transport is not None

    async def request(self, message: Any, response: type[Response], timeout_s: float) -> Response:
        """Send a message of :mod:`clusters.wire` once and return the answer. Raises :class:`Unsent` or :class:`Unanswered`.

        ``timeout_s`` counts from now and includes connecting.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        exchange = self._exchange
        if exchange is None or exchange.transport is None:
            exchange = await self._open(loop, timeout_s)
        transport = exchange.transport
        if transport is None or exchange.waiting is not None:
            raise Unsent(f"{self.node} closed the connection")
        self._correlation = correlation = self._correlation % _CORRELATION_MAX + 1
        frame = encode_request(message, correlation, self._client_id)
        waiting: asyncio.Future[bytes] = loop.create_future()
        exchange.waiting = waiting
        self._deadlines.arm(exchange, end_s - loop.time(), exchange.expire)
        try:
            transport.write(frame)
            payload = await waiting
        except asyncio.CancelledError:
            exchange.waiting = None
            self.drop()
            raise
        finally:
            self._deadlines.disarm(exchange)
        return self._read(payload, correlation, response)

    def drop(self) -> None:
        """Abort the connection; what is in flight stays unanswered."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.fail(Unanswered(Trouble.CONNECTION_LOST))

    def _read(self, payload: bytes, correlation: int, response: type[Response]) -> Response:
        try:
            if correlation_id(payload) != correlation:
                raise WireError("the answer belongs to another request")
            return decode_response(response, payload)[1]
        except WireError as error:
            self.drop()
            raise Unanswered(Trouble.GARBLED, error) from error

    async def _open(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> _Exchange:
        self._exchange = None
        try:
            async with asyncio.timeout(timeout_s):
                sock = await self._connect(self.node)
                try:
                    _, exchange = await loop.create_connection(_Exchange, sock=sock)
                except BaseException:
                    sock.close()
                    raise
        except TimeoutError as error:
            raise Unsent(f"connecting to {self.node} took longer than {timeout_s:g} s") from error
        except OSError as error:
            raise Unsent(f"{self.node} cannot be connected to: {error}") from error
        self._exchange = exchange
        return exchange
