"""A server on loopback that answers Kafka requests as a test says: real sockets, real frames."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import RequestTable, encode_response
from workloads.clients.client import Connect

HANG_UP = b"hang up"
SILENCE = b"silence"
"""What a handler returns instead of an answer; other bytes are sent as they are."""

Handler = Callable[[str, Any], Any]


@dataclass
class WireServer:
    """Nodes that share one handler, ``handler(node, request) -> response message or bytes``."""

    table: RequestTable
    handler: Handler
    ports: dict[str, int] = field(default_factory=dict)
    connections: list[str] = field(default_factory=list)
    received: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def connect(self) -> Connect:
        async def connect(node: str) -> socket.socket:
            opened = socket.socket()
            opened.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", self.ports[node]))
            except BaseException:
                opened.close()
                raise
            return opened

        return connect

    async def serve(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(node)
        splitter = FrameSplitter()
        try:
            while data := await reader.read(65536):
                for payload in splitter.feed(data):
                    header, request = self.table.decode(payload)
                    self.received.append((node, request))
                    answer = self.handler(node, request)
                    if answer == HANG_UP:
                        return
                    if answer == SILENCE:
                        continue
                    writer.write(
                        answer if isinstance(answer, bytes) else encode_response(answer, header.correlation_id)
                    )
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(table: RequestTable, handler: Handler, nodes: tuple[str, ...], dead: tuple[str, ...] = ()) -> Any:
    """Serve as ``nodes``; nobody listens at the ports of ``dead`` ones."""
    running = WireServer(table, handler)
    servers = []
    for node in nodes:
        server = await asyncio.start_server(
            lambda reader, writer, node=node: running.serve(node, reader, writer), "127.0.0.1", 0
        )
        running.ports[node] = server.sockets[0].getsockname()[1]
        servers.append(server)
    for node in dead:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            running.ports[node] = unused.getsockname()[1]
    try:
        yield running
    finally:
        for server in servers:
            server.close()
