"""Does a datagram arrive? Sent from one machine's data address, awaited at another's, each told by its own worker."""

from __future__ import annotations

import contextlib
import socket
from collections import OrderedDict
from collections.abc import Sequence

_NONCE_BYTES = 16
_KEPT = 64
"""questions whose arrivals are remembered"""


class AddressError(Exception):
    """The node's address cannot be used here."""


class Probes:
    """A UDP socket at the data address, at the number of the node's TCP port."""

    def __init__(self, address: str, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self.socket.bind((address, port))
        except OSError as error:
            raise AddressError(f"{address}: {error.strerror}") from error
        self._port = port
        self._arrived: OrderedDict[bytes, set[str]] = OrderedDict()

    def send(self, nonce: bytes, addresses: Sequence[str]) -> None:
        """Send a question's datagram to each of these."""
        for address in addresses:
            with contextlib.suppress(OSError):  # a full buffer or no route: it does not arrive, which is the answer
                self.socket.sendto(nonce, (address, self._port))

    def receive(self) -> None:
        """Take what lies at the socket."""
        while True:
            try:
                nonce, (address, _) = self.socket.recvfrom(64)
            except BlockingIOError:
                return
            except OSError:
                continue  # an earlier datagram of ours was refused: nothing of theirs
            if len(nonce) != _NONCE_BYTES:
                continue
            self._arrived.setdefault(nonce, set()).add(address)
            while len(self._arrived) > _KEPT:
                self._arrived.popitem(last=False)

    def arrived(self, nonce: bytes) -> set[str]:
        """The addresses from which a question's datagram has arrived."""
        self.receive()
        return self._arrived.get(nonce, set())
