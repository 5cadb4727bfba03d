"""Requests and responses with their headers: message ↔ frame.

A message is an instance of one of kio's classes (one class per API version) or of :mod:`clusters.wire.reference_messages`.
Requests of flexible versions have header v2, others v1; responses of flexible versions have header v1, others v0; ApiVersions
responses always have header v0. Encoders return whole frames, length included, ready to be sent; decoders take the payload of
one frame as :class:`clusters.wire.framing.FrameSplitter` gives it. Everything that is wrong with bytes raises WireError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from clusters.wire.codec import decode, decoder, encoder, read_unsigned_varint
from clusters.wire.problems import UnsupportedRequest, WireError

Response = TypeVar("Response")

_REQUEST_HEAD = struct.Struct(">hhi")
_RESPONSE_HEAD = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What stands before a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@lru_cache(maxsize=256)
def _client_id_bytes(client_id: str | None, tags: bool) -> bytes:
    if client_id is None:
        raw = b"\xff\xff"
    else:
        text = client_id.encode()
        raw = len(text).to_bytes(2, "big") + text
    return raw + (b"\0" if tags else b"")


def _response_has_tags(response: type[Any]) -> bool:
    return int(response.__header_schema__.__version__) >= 1


def encode_request(message: Any, correlation_id: int, client_id: str | None = None) -> bytes:
    """The frame of a request."""
    out = bytearray(4)
    kind = type(message)
    out += _REQUEST_HEAD.pack(kind.__api_key__, kind.__version__, correlation_id)
    out += _client_id_bytes(client_id, kind.__flexible__)
    encoder(kind)(out, message)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)


def encode_response(message: Any, correlation_id: int) -> bytes:
    """The frame of a response."""
    out = bytearray(4)
    kind = type(message)
    out += _RESPONSE_HEAD.pack(correlation_id)
    if _response_has_tags(kind):
        out.append(0)
    encoder(kind)(out, message)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)


def skip_tags(data: bytes, position: int) -> int:
    """The position behind a header's tagged fields. Raises WireError where they do not fit."""
    if position < len(data) and data[position] == 0:
        return position + 1
    try:
        count, position = read_unsigned_varint(data, position)
        for _ in range(min(count, len(data))):
            _, position = read_unsigned_varint(data, position)
            size, position = read_unsigned_varint(data, position)
            position += size
            if position > len(data):
                raise WireError("a header's tags reach beyond its frame")
    except IndexError:
        raise WireError("a header's tags end inside a varint") from None
    return position


def correlation_id(payload: bytes) -> int:
    """The correlation id of a response, without reading the rest."""
    if len(payload) < 4:
        raise WireError(f"a response of {len(payload)} bytes has no header")
    (value,) = _RESPONSE_HEAD.unpack_from(payload)
    return int(value)


def decode_response(response: type[Response], payload: bytes) -> tuple[int, Response]:
    """Read a response of a known class: (correlation id, message). Bytes behind it raise WireError, too."""
    correlation = correlation_id(payload)
    position = skip_tags(payload, 4) if _response_has_tags(response) else 4
    message, position = decode(response, payload, position)
    if position != len(payload):
        raise WireError(f"{len(payload) - position} bytes follow a {response.__name__}")
    return correlation, message


class RequestTable:
    """The request classes that a server understands, by api key and version."""

    def __init__(self, requests: Iterable[type[Any]]) -> None:
        self._classes: Mapping[tuple[int, int], type[Any]] = {
            (int(each.__api_key__), int(each.__version__)): each for each in requests
        }
        for each in self._classes.values():
            decoder(each)

    def versions(self) -> list[tuple[int, int, int]]:
        """(api key, lowest version, highest version), as an ApiVersions response lists them."""
        found: dict[int, list[int]] = {}
        for key, version in self._classes:
            found.setdefault(key, []).append(version)
        return [(key, min(each), max(each)) for key, each in sorted(found.items())]

    def decode(self, payload: bytes) -> tuple[RequestHeader, Any]:
        """Read a request: (header, message). Raises UnsupportedRequest for one outside the table, WireError for garbage."""
        if len(payload) < 10:
            raise WireError(f"a request of {len(payload)} bytes has no header")
        api_key, api_version, correlation = _REQUEST_HEAD.unpack_from(payload)
        kind = self._classes.get((api_key, api_version))
        if kind is None:
            raise UnsupportedRequest(api_key, api_version, correlation)
        size = int.from_bytes(payload[8:10], "big", signed=True)
        position = 10 + max(size, 0)
        if position > len(payload):
            raise WireError(f"a client id of {size} bytes does not fit into a request of {len(payload)}")
        try:
            client_id = None if size < 0 else payload[10:position].decode()
        except UnicodeDecodeError as error:
            raise WireError(f"a client id is no text: {error}") from None
        if kind.__flexible__:
            position = skip_tags(payload, position)
        message, position = decode(kind, payload, position)
        if position != len(payload):
            raise WireError(f"{len(payload) - position} bytes follow a {kind.__name__}")
        return RequestHeader(api_key, api_version, correlation, client_id), message
