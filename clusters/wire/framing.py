"""Kafka's framing: each request and response is a 4-byte big-endian length and as many bytes."""

from __future__ import annotations

from clusters.wire.problems import WireError

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's default of ``socket.request.max.bytes``: what claims to be longer is no frame"""


def frame(payload: bytes | bytearray) -> bytes:
    """Put the length before a payload."""
    return len(payload).to_bytes(4, "big") + payload


class FrameSplitter:
    """Cuts a byte stream into payloads. Holds at most one incomplete frame.

    A length below 0 or above ``max_frame_bytes`` raises WireError: the stream is garbage from there on, and the connection has
    to be closed.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffer = bytearray()
        self._max_frame_bytes = max_frame_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes and return the payloads that are complete now, in order."""
        buffer = self._buffer
        buffer += data
        payloads = []
        position, have = 0, len(buffer)
        while have - position >= 4:
            size = int.from_bytes(buffer[position : position + 4], "big", signed=True)
            if not 0 <= size <= self._max_frame_bytes:
                raise WireError(f"a frame claims {size} bytes; allowed are 0 to {self._max_frame_bytes}")
            end = position + 4 + size
            if end > have:
                break
            payloads.append(bytes(buffer[position + 4 : end]))
            position = end
        if position:
            del buffer[:position]
        return payloads

    @property
    def pending_bytes(self) -> int:
        """Bytes of an incomplete frame: not 0 at the end of a stream means that it was torn."""
        return len(self._buffer)
