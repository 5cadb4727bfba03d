"""A conversation with the kernel about links, routes, rules and queues (rtnetlink), without any library."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

EXCLUSIVE, CREATE, DUMP = 0x200, 0x400, 0x300
"""flags of requests"""

_ERROR, _DONE = 2, 3
_REQUEST, _ACK = 0x1, 0x4
_PATIENCE_S = 5.0
_BUFFER_BYTES = 1 << 18


class Netlink:
    """A socket of the network namespace that this thread was in when it was made. Every method raises OSError."""

    def __init__(self) -> None:
        self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._sock.settimeout(_PATIENCE_S)
        self._sock.bind((0, 0))
        self._sequence = 0

    def ask(self, kind: int, flags: int, body: bytes) -> list[tuple[int, bytes]]:
        """Send a request; all (kind, body) up to the acknowledgement."""
        self._sequence += 1
        wanted = _REQUEST | flags if flags == DUMP else _REQUEST | _ACK | flags
        self._sock.send(struct.pack("=IHHII", 16 + len(body), kind, wanted, self._sequence, 0) + body)
        answers: list[tuple[int, bytes]] = []
        while True:
            for number, sequence, answer in _messages(self._sock.recv(_BUFFER_BYTES)):
                if sequence != self._sequence:
                    continue
                if number == _ERROR and (error := -struct.unpack_from("=i", answer)[0]):
                    raise OSError(error, os.strerror(error))
                if number in (_ERROR, _DONE):
                    return answers
                answers.append((number, answer))

    def close(self) -> None:
        """Close the socket; what was made stays."""
        self._sock.close()


def attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by their type; of several of one type the last."""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:size]
        data = data[max(4, (size + 3) & ~3) :]
    return found


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def number(kind: int, value: int) -> bytes:
    """An attribute of 32 bits."""
    return attribute(kind, struct.pack("=I", value))


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    while len(data) >= 16:
        size, kind, _, sequence, _ = struct.unpack_from("=IHHII", data)
        yield kind, sequence, data[16:size]
        data = data[max(16, (size + 3) & ~3) :]
