"""TCP through asyncio's event loop: protocols and transports, no streams."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from clusters.candidates.reference.server.environment import Connection, Handler

MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""a peer that takes nothing off its connection loses it at so many bytes"""
_BACKLOG = 1024


class TcpConnection(asyncio.Protocol):
    """:class:`.environment.Connection` on a transport; ``handler`` is set before any callback."""

    def __init__(self) -> None:
        self.handler: Handler | None = None
        self._transport: asyncio.Transport | None = None
        self._unsent = bytearray()
        self._is_closed = False
        self.connecting: asyncio.Task[None] | None = None

    def send(self, data: bytes) -> None:
        """Hand bytes to the transport, or keep them until there is one."""
        if self._is_closed:
            return
        if self._transport is None:
            self._unsent += data
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._transport.abort()

    def close(self) -> None:
        """Abort: nothing that is still unsent may be delivered after that."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()

    def failed(self) -> None:
        """The connection was never made."""
        if not self._is_closed and self.handler is not None:
            self._is_closed = True
            self.handler.closed()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the transport is there."""
        assert isinstance(transport, asyncio.Transport)
        if self._is_closed:
            transport.abort()
            return
        _tune(transport.get_extra_info("socket"))
        self._transport = transport
        if self._unsent:
            transport.write(bytes(self._unsent))
            self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes."""
        if not self._is_closed and self.handler is not None:
            self.handler.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the end, of either kind."""
        del exc
        self.failed()


def _tune(connected: socket.socket) -> None:
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A partition loses the end of a connection; without probes its other side would stay open for ever.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


class TcpNetwork:
    """:class:`.environment.Network` on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, host: str, port: int, accept: Callable[[Connection], Handler]) -> None:
        """Bind and listen at once; connections are accepted by the running loop."""
        listener = socket.create_server((host, port), backlog=_BACKLOG)
        listener.setblocking(False)

        def accepted() -> TcpConnection:
            connection = TcpConnection()
            connection.handler = accept(connection)
            return connection

        async def serve() -> None:
            self._servers.append(await self._loop.create_server(accepted, sock=listener, backlog=_BACKLOG))

        self._run(serve())

    def connect(self, host: str, port: int, handler: Handler) -> Connection:
        """Connect in the background."""
        connection = TcpConnection()
        connection.handler = handler

        async def connect() -> None:
            try:
                await self._loop.create_connection(lambda: connection, host, port)
            except OSError:
                connection.failed()

        connection.connecting = self._run(connect())
        return connection

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
