"""Connections to other replicas. Every request has a deadline; when it passes, its connection is replaced.

Each peer has two connections: one for Fetch, whose answers may be held back and are long, and one for everything else. What is under
way on a connection that ends is told as failed, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from clusters.candidates.reference.core.effects import Outgoing
from clusters.candidates.reference.core.messages import FetchRequest, PeerResponse
from clusters.candidates.reference.server.environment import Clock, Connection, Network, Timer
from clusters.candidates.reference.server.peer_messages import Local, answer_class, read_answer, write_request
from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import correlation_id, decode_response, encode_request
from clusters.wire.problems import WireError

Answered = Callable[[int, PeerResponse], None]
Failed = Callable[[int], None]


@dataclass(slots=True)
class _UnderWay:
    """A request without an answer yet."""

    answer: type[Any]
    deadline: Timer


@dataclass(slots=True)
class _Channel:
    """One connection to a peer, made when it is needed; also its handler."""

    peers: Peers
    host: str
    port: int
    connection: Connection | None = None
    splitter: FrameSplitter = field(default_factory=FrameSplitter)
    under_way: dict[int, _UnderWay] = field(default_factory=dict)

    def received(self, data: bytes) -> None:
        """Bytes from the peer; what is no answer costs the connection."""
        try:
            for payload in self.splitter.feed(data):
                self._answered(payload)
        except WireError:
            self.replace()

    def closed(self) -> None:
        """The connection is gone."""
        self.connection = None
        self._fail_all()

    def send(self, correlation: int, frame: bytes, waiting: _UnderWay) -> None:
        """Send a request, connecting first where there is no connection."""
        self.under_way[correlation] = waiting
        if self.connection is None:
            self.splitter = FrameSplitter()
            self.connection = self.peers.network.connect(self.host, self.port, self)
        self.connection.send(frame)

    def replace(self) -> None:
        """Drop the connection: answers to what was asked on it may still be under way, and must not be taken for others."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._fail_all()

    def _answered(self, payload: bytes) -> None:
        correlation = correlation_id(payload)
        waiting = self.under_way.get(correlation)
        if waiting is None:
            raise WireError(f"an answer has the correlation id {correlation}, which nobody waits for")
        _, message = decode_response(waiting.answer, payload)
        answer = read_answer(message)
        del self.under_way[correlation]
        waiting.deadline.cancel()
        self.peers.answered(correlation, answer)

    def _fail_all(self) -> None:
        lost = self.under_way
        self.under_way = {}
        for correlation, waiting in lost.items():
            waiting.deadline.cancel()
            self.peers.failed(correlation)


class Peers:
    """Sends the core's requests and tells what became of them."""

    def __init__(self, clock: Clock, network: Network, local: Local, addresses: dict[int, tuple[str, int]]) -> None:
        self.network = network
        self._clock = clock
        self._local = local
        self._addresses = addresses
        self._channels: dict[tuple[int, bool], _Channel] = {}
        self.answered: Answered
        self.failed: Failed

    def send(self, outgoing: Outgoing) -> None:
        """Send one request. A node without an address fails it soon, never from inside this call."""
        address = self._addresses.get(outgoing.node_id)
        if address is None:
            self._clock.soon(lambda: self.failed(outgoing.correlation))
            return
        request = outgoing.request
        is_fetch = isinstance(request, FetchRequest)
        channel = self._channels.get((outgoing.node_id, is_fetch))
        if channel is None:
            channel = self._channels[outgoing.node_id, is_fetch] = _Channel(self, *address)
        message = write_request(request, self._local, self._clock.wall_ms())
        frame = encode_request(message, outgoing.correlation, f"n{self._local.node_id}")
        due_ms = self._clock.now_ns() // 1_000_000 + outgoing.timeout_ms
        deadline = self._clock.at_ms(due_ms, channel.replace)
        channel.send(outgoing.correlation, frame, _UnderWay(answer_class(request), deadline))

    def close(self) -> None:
        """Drop all connections."""
        for channel in self._channels.values():
            if channel.connection is not None:
                channel.connection.close()
