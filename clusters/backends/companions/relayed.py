"""One relayed connection: frames go through in order, and rules may act on each of them.

One frame of each direction is here at a time. What a rule delays or holds therefore holds up what comes behind it on the same
connection and direction, and nothing else; the kernel's buffers fill, and the sender waits, as it would for a slow peer. No frame
overtakes another one: answers come in the order of their requests, and clients close a connection where they do not. An answer that
is dropped is simply missing: a client with one request under way (KRaft's and the reference's) finds out by its timeout.

A frame longer than :data:`FRAME_BYTES_MAX` passes piece by piece, unread; so does the rest of a connection whose lengths are nonsense.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from clusters.backends.companions.raft_frames import Request, correlation_of, read_request, read_response
from clusters.backends.companions.rpc_rules import Frame, Rule

FRAME_BYTES_MAX = 16 << 20
"""Kafka's largest batch has 8 MiB"""

_READ_BYTES = 1 << 16
_PENDING_MAX = 10_000
_NONSENSE_BYTES = 1 << 30
_HALF_CLOSED_PATIENCE_S = 30.0
_GIVEN_UP_S = 0.2
_LOOK_S = 0.02
ESTABLISHED, _CLOSED, _CLOSE_WAIT = 1, 7, 8

Act = Callable[[Rule, Frame, Request], Awaitable[bool]]
"""waits as long as a rule says, and keeps evidence; False when the frame shall not pass"""


class Reset(Exception):
    """A rule closes the connection."""


@dataclass(slots=True)
class _Asked:
    """A request that will be answered."""

    request: Request
    swallow: bool
    """the answer to a duplicate, which nobody waits for"""


@dataclass(slots=True)
class Relayed:
    """A connection of ``node`` (near) to ``peer`` (far)."""

    node: str
    peer: str
    near: socket.socket
    far: socket.socket
    choose: Callable[[Frame], Rule | None]
    act: Act
    frames: int = 0
    unread: int = 0
    """frames that could not be read, or were too long"""
    _asked: deque[_Asked] = field(default_factory=lambda: deque(maxlen=_PENDING_MAX))
    _half_closed: bool = False

    async def run(self, address: tuple[str, int]) -> bool:
        """Connect on, and pass frames until both sides have closed; False when the far side could not be reached.

        Whatever ends it otherwise, the other side sees a reset, as it would without the relay.
        """
        directions: list[asyncio.Task[None]] = []
        try:
            if not await self._connect(address):
                return False
            directions = [
                asyncio.create_task(self._pump(self.near, self.far, self._request)),
                asyncio.create_task(self._pump(self.far, self.near, self._response)),
            ]
            await asyncio.gather(*directions)
        except (OSError, Reset):
            reset_when_closed(self.near)
            reset_when_closed(self.far)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self.near.close()
            self.far.close()
        return True

    async def _connect(self, address: tuple[str, int]) -> bool:
        """Connect on, unless the node gives up meanwhile: nothing may be sent in its name later."""
        loop = asyncio.get_running_loop()
        connecting = asyncio.ensure_future(loop.sock_connect(self.far, address))
        began = loop.time()
        try:
            while not connecting.done():
                await asyncio.wait([connecting], timeout=_LOOK_S)
                state = tcp_state(self.near)
                if state == _CLOSED or (state == _CLOSE_WAIT and loop.time() - began > _GIVEN_UP_S):
                    raise ConnectionAbortedError("the node gave up")
            connecting.result()
        except OSError:
            reset_when_closed(self.near)
            return False
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        return True

    async def _pump(
        self, source: socket.socket, target: socket.socket, handle: Callable[[bytes], Awaitable[int]]
    ) -> None:
        loop = asyncio.get_running_loop()
        buffer = bytearray()
        while data := await self._receive(source):
            buffer += data
            while len(buffer) >= 4:
                size = int.from_bytes(buffer[:4], "big")
                if size > FRAME_BYTES_MAX:
                    self.unread += 1
                    await self._stream(source, target, buffer, 4 + size if size < _NONSENSE_BYTES else None)
                    continue
                if len(buffer) < 4 + size:
                    break
                frame = bytes(buffer[: 4 + size])
                del buffer[: 4 + size]
                self.frames += 1
                for _ in range(await handle(frame[4:])):
                    await loop.sock_sendall(target, frame)
        await loop.sock_sendall(target, buffer)
        self._half_closed = True
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    async def _stream(self, source: socket.socket, target: socket.socket, buffer: bytearray, left: int | None) -> None:
        """Pass so many bytes as they come; None: all there are."""
        loop = asyncio.get_running_loop()
        while left is None or left > 0:
            part = bytes(buffer[:left])
            del buffer[: len(part)]
            if not part:
                part = await self._receive(source, _READ_BYTES if left is None else min(left, _READ_BYTES))
                if not part:
                    return
            await loop.sock_sendall(target, part)
            left = None if left is None else left - len(part)

    async def _receive(self, source: socket.socket, count: int = _READ_BYTES) -> bytes:
        """Bytes; none at the end. A connection that is closed on one side is reset when the other one stays silent for long."""
        loop = asyncio.get_running_loop()
        while True:
            half_closed = self._half_closed
            try:
                return await asyncio.wait_for(loop.sock_recv(source, count), _HALF_CLOSED_PATIENCE_S)
            except asyncio.TimeoutError:  # noqa: UP041 - not the built-in one before Python 3.11
                if half_closed:
                    raise ConnectionAbortedError("half closed, and silent for long") from None

    async def _request(self, frame: bytes) -> int:
        """How often a request shall be sent on."""
        try:
            request = read_request(frame)
        except ValueError:
            self.unread += 1
            return 1
        seen = Frame(request.api, "request", self.node, self.peer, request.told)
        rule = self.choose(seen)
        if rule is not None and not await self.act(rule, seen, request):
            return 0
        twice = rule is not None and rule.action == "duplicate"
        self._asked.append(_Asked(request, False))
        if twice:
            self._asked.append(_Asked(request, True))
        return 1 + twice

    async def _response(self, frame: bytes) -> int:
        """How often a response shall be sent on."""
        try:
            correlation = correlation_of(frame)
            asked = next((each for each in self._asked if each.request.correlation == correlation), None)
            if asked is None:
                return 1
            self._asked.remove(asked)
            if asked.swallow:
                return 0
            told = read_response(frame, asked.request.api_key, asked.request.version)
        except ValueError:
            self.unread += 1
            return 1
        seen = Frame(asked.request.api, "response", self.peer, self.node, told)
        rule = self.choose(seen)
        return int(rule is None or await self.act(rule, seen, asked.request))


def tcp_state(sock: socket.socket) -> int:
    """The state of a connection, as the kernel numbers it."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


def reset_when_closed(sock: socket.socket) -> None:
    """Let the close be a reset; nothing happens when it is closed. Who waits for the socket must stop before it is closed."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
