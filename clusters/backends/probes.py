"""Does a datagram arrive? Asked of the network itself: sent from inside the source's namespace, awaited in the destination's."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from clusters.links import Pair

_TRIES = 3
_TRY_S = 0.05
_PAYLOAD = struct.Struct(">16sH")


class Network(Protocol):
    """Nodes with an address and a network namespace each."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """Node → address."""
        ...

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Sockets that this thread makes meanwhile are the node's."""
        ...


@dataclass(slots=True)
class Probe:
    """One question about many pairs; a pair counts as open when any of its datagrams arrived."""

    pairs: Sequence[Pair]
    answer: Callable[[list[bool]], None]
    nonce: bytes = field(default_factory=lambda: os.urandom(16))
    arrived: set[int] = field(default_factory=set)
    tries: int = 0
    next_try: float = 0.0


class Probes:
    """A bound UDP socket in each node's namespace, and the questions under way. All of a question's pairs take one wait."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._sockets: dict[str, socket.socket] = {}
        self._open: list[Probe] = []

    def build(self) -> Mapping[socket.socket, str]:
        """Make the sockets: socket → node, to be watched for :meth:`receive`."""
        for node, address in self._network.addresses.items():
            with self._network.inside(node):
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            sock.bind((address, 0))
            self._sockets[node] = sock
        return {sock: node for node, sock in self._sockets.items()}

    def ask(self, pairs: Sequence[Pair], answer: Callable[[list[bool]], None]) -> None:
        """Begin to probe; ``answer`` is called once, at most 150 ms later, with one truth for each pair."""
        self._open.append(Probe(pairs, answer))
        self.tick()

    def receive(self, node: str) -> None:
        """Take what lies at a node's socket."""
        sources = {address: name for name, address in self._network.addresses.items()}
        while True:
            try:
                payload, (address, _) = self._sockets[node].recvfrom(64)
            except BlockingIOError:
                break
            if len(payload) != _PAYLOAD.size:
                continue
            nonce, index = _PAYLOAD.unpack(payload)
            for probe in self._open:
                if probe.nonce == nonce and probe.pairs[index] == (sources.get(address), node):
                    probe.arrived.add(index)
        self._finish()

    def tick(self) -> float | None:
        """Send what is due; returns the seconds until the next call is due, None when nothing is under way."""
        now = time.monotonic()
        for probe in list(self._open):
            if probe.next_try > now:
                continue
            if probe.tries == _TRIES:
                # This process may have been kept waiting for a CPU: what arrived meanwhile lies in the sockets.
                for node in {destination for _, destination in probe.pairs}:
                    self.receive(node)
                self._close(probe)
                continue
            probe.tries += 1
            probe.next_try = now + _TRY_S
            self._send(probe)
        self._finish()
        return max(0.0, min(probe.next_try for probe in self._open) - time.monotonic()) if self._open else None

    def _send(self, probe: Probe) -> None:
        for index, (source, destination) in enumerate(probe.pairs):
            if index in probe.arrived:
                continue
            target = self._sockets[destination].getsockname()
            try:
                self._sockets[source].sendto(_PAYLOAD.pack(probe.nonce, index), target)
            except OSError:
                continue  # a full buffer or no route: the datagram did not arrive, which is the answer

    def _finish(self) -> None:
        for probe in list(self._open):
            if len(probe.arrived) == len(probe.pairs):
                self._close(probe)

    def _close(self, probe: Probe) -> None:
        if probe in self._open:
            self._open.remove(probe)
            probe.answer([index in probe.arrived for index in range(len(probe.pairs))])
