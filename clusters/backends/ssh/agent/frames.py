"""A message between controller and agent: a JSON object and, behind it, raw bytes. Used by both ends; no other module of theirs is.

On the stream: two unsigned 32-bit numbers, big-endian (bytes of JSON, bytes of the rest), then both parts.
"""

from __future__ import annotations

import json
import struct
from typing import Any

BLOB_BYTES_MAX = 1 << 20
"""of the raw bytes of one message"""
HELLO = b"nemesis-agent 1\n"
"""the first line that the machine sends: what a login shell prints before it is not ours"""

_HEAD = struct.Struct(">II")
_JSON_BYTES_MAX = 8 << 20


class FrameError(Exception):
    """The stream holds something that is no message."""


def encode(message: dict[str, Any], blob: bytes = b"") -> bytes:
    """A message as bytes."""
    text = json.dumps(message).encode()
    if len(text) > _JSON_BYTES_MAX or len(blob) > BLOB_BYTES_MAX:
        raise FrameError(f"a message of {len(text)} and {len(blob)} bytes is too long")
    return _HEAD.pack(len(text), len(blob)) + text + blob


class Decoder:
    """Takes bytes as they come, gives messages when they are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """The messages that ``data`` completes. Raises FrameError."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _HEAD.size:
            text_bytes, blob_bytes = _HEAD.unpack_from(self._buffer)
            if text_bytes > _JSON_BYTES_MAX or blob_bytes > BLOB_BYTES_MAX:
                raise FrameError(f"a message of {text_bytes} and {blob_bytes} bytes is announced")
            end = _HEAD.size + text_bytes + blob_bytes
            if len(self._buffer) < end:
                break
            text = bytes(self._buffer[_HEAD.size : _HEAD.size + text_bytes])
            blob = bytes(self._buffer[_HEAD.size + text_bytes : end])
            del self._buffer[:end]
            try:
                message = json.loads(text)
            except ValueError as error:
                raise FrameError(f"a message is no JSON: {error}") from error
            if not isinstance(message, dict):
                raise FrameError("a message is no JSON object")
            found.append((message, blob))
        return found
