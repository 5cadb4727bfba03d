"""What the relay reads of Kafka's frames: headers of all, and of the requests and responses of the quorum the few fields that rules and
evidence speak of. Pure, standard library only; tested against kio's own codecs.

A frame here is what follows the length. Versions: Vote 0 to 2, BeginQuorumEpoch and EndQuorumEpoch 0 to 1, Fetch 12 to 18, FetchSnapshot
0 to 1 (KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166). Of others the header is read and the rest is not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

FETCH, API_VERSIONS, VOTE, BEGIN, END, FETCH_SNAPSHOT = 1, 18, 52, 53, 54, 59
API_NAMES = {
    FETCH: "Fetch",
    API_VERSIONS: "ApiVersions",
    VOTE: "Vote",
    BEGIN: "BeginQuorumEpoch",
    END: "EndQuorumEpoch",
    55: "DescribeQuorum",
    FETCH_SNAPSHOT: "FetchSnapshot",
    62: "BrokerRegistration",
    70: "ControllerRegistration",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    10652: "ReadOffset",
}
"""api key → name; a Vote with its flag ``PreVote`` (KIP-996) is called by that name"""

_FLEXIBLE_FROM = {FETCH: 12, VOTE: 0, BEGIN: 1, END: 1, FETCH_SNAPSHOT: 0}
_LAST = {FETCH: 18, VOTE: 2, BEGIN: 1, END: 1, FETCH_SNAPSHOT: 1}
_FIRST = {FETCH: 12}

Told = dict[str, int | bool | None]
"""fields by name"""


@dataclass(frozen=True, slots=True)
class Request:
    """A request's header and what its body says. ``told`` is empty where the body is not one that is read here."""

    api_key: int
    version: int
    correlation: int
    client: str | None
    told: Told = field(default_factory=dict)

    @property
    def api(self) -> str:
        """Its name."""
        if self.told.get("pre_vote"):
            return "PreVote"
        return API_NAMES.get(self.api_key, f"api-{self.api_key}")


def read_request(frame: bytes) -> Request:
    """Read a request. Raises ValueError for what is none."""
    try:
        reader = _Reader(frame)
        api_key, version, correlation = reader.i16(), reader.i16(), reader.i32()
        client = reader.string()
        read = _REQUESTS.get(api_key)
        if read is None or not _FIRST.get(api_key, 0) <= version <= _LAST[api_key]:
            return Request(api_key, version, correlation, client)
        if version >= _FLEXIBLE_FROM[api_key]:
            reader.tags()
        return Request(api_key, version, correlation, client, read(reader, version))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"no request: {error}") from error


def correlation_of(frame: bytes) -> int:
    """The correlation id of a response. Raises ValueError."""
    if len(frame) < 4:
        raise ValueError("a response has at least a correlation id")
    return int.from_bytes(frame[:4], "big", signed=True)


def read_response(frame: bytes, api_key: int, version: int) -> Told:
    """What a response to such a request says. Raises ValueError for what is none."""
    read = _RESPONSES.get(api_key)
    if read is None or not _FIRST.get(api_key, 0) <= version <= _LAST[api_key]:
        return {}
    try:
        reader = _Reader(frame)
        reader.i32()
        if version >= _FLEXIBLE_FROM[api_key]:
            reader.tags()
        return read(reader, version)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"no response of {API_NAMES[api_key]} v{version}: {error}") from error


class _Reader:
    """Kafka's primitive types from a position on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def i8(self) -> int:
        return self._take(">b", 1)

    def i16(self) -> int:
        return self._take(">h", 2)

    def i32(self) -> int:
        return self._take(">i", 4)

    def i64(self) -> int:
        return self._take(">q", 8)

    def skip(self, count: int) -> None:
        if count < 0 or self.at + count > len(self.data):
            raise IndexError(f"{count} bytes at {self.at} of {len(self.data)}")
        self.at += count

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7
            if shift > 28:
                raise IndexError("a varint of more than 5 bytes")

    def string(self) -> str | None:
        """A nullable string of the older kind, as headers have it."""
        size = self.i16()
        if size < 0:
            return None
        start = self.at
        self.skip(size)
        return self.data[start : self.at].decode()

    def skip_text(self, *, compact: bool) -> None:
        """A string or bytes; null has no content."""
        size = self.varint() - 1 if compact else self.i16()
        self.skip(max(0, size))

    def count(self, *, compact: bool) -> int:
        """The length of an array; null is empty."""
        return max(0, self.varint() - 1 if compact else self.i32())

    def tags(self) -> dict[int, _Reader]:
        """Tagged fields: each as a reader of its own."""
        found = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            start = self.at
            self.skip(size)
            found[tag] = _Reader(self.data[start : self.at])
        return found

    def _take(self, form: str, size: int) -> int:
        value: int = struct.unpack_from(form, self.data, self.at)[0]
        self.at += size
        return value


def _only_partition(reader: _Reader, *, compact: bool = True, topic_id: bool = False) -> bool:
    """Go to the first partition of the first topic; False when there is none."""
    if not reader.count(compact=compact):
        return False
    if topic_id:
        reader.skip(16)
    else:
        reader.skip_text(compact=compact)
    return reader.count(compact=compact) > 0


def _vote_request(reader: _Reader, version: int) -> Told:
    reader.skip_text(compact=True)
    if version >= 1:
        reader.i32()
    if not _only_partition(reader):
        return {}
    reader.i32()
    told: Told = {"epoch": reader.i32(), "candidate": reader.i32()}
    if version >= 1:
        reader.skip(32)
    told["last_epoch"], told["last_offset"] = reader.i32(), reader.i64()
    told["pre_vote"] = version >= 2 and bool(reader.i8())
    return told


def _vote_response(reader: _Reader, version: int) -> Told:
    del version
    told = _epoch_response(reader, 1)
    if "epoch" in told:
        told["granted"] = bool(reader.i8())
    return told


def _epoch_request(reader: _Reader, version: int, *, is_begin: bool) -> Told:
    compact = version >= 1
    reader.skip_text(compact=compact)
    if compact and is_begin:
        reader.i32()
    if not _only_partition(reader, compact=compact):
        return {}
    reader.i32()
    if compact and is_begin:
        reader.skip(16)
    return {"leader": reader.i32(), "epoch": reader.i32()}


def _begin_request(reader: _Reader, version: int) -> Told:
    return _epoch_request(reader, version, is_begin=True)


def _end_request(reader: _Reader, version: int) -> Told:
    return _epoch_request(reader, version, is_begin=False)


def _epoch_response(reader: _Reader, version: int) -> Told:
    told: Told = {"error": reader.i16()}
    if not _only_partition(reader, compact=version >= 1):
        return told
    reader.i32()
    error = reader.i16()
    return {"error": told["error"] or error, "leader": reader.i32(), "epoch": reader.i32()}


def _fetch_request(reader: _Reader, version: int) -> Told:
    if version <= 14:
        reader.i32()
    reader.skip(4 + 4 + 4 + 1 + 4 + 4)
    if not _only_partition(reader, topic_id=version >= 13):
        return {}
    reader.i32()
    return {"epoch": reader.i32(), "offset": reader.i64(), "last_epoch": reader.i32()}


def _fetch_response(reader: _Reader, version: int) -> Told:
    reader.i32()
    told: Told = {"error": reader.i16()}
    reader.i32()
    if not _only_partition(reader, topic_id=version >= 13):
        return told
    reader.i32()
    error = reader.i16()
    told["error"] = told["error"] or error
    told["high_watermark"] = reader.i64()
    reader.skip(8 + 8)
    for _ in range(reader.count(compact=True)):
        reader.skip(8 + 8)
        reader.tags()
    reader.i32()
    told["bytes"] = max(0, reader.varint() - 1)
    reader.skip(int(told["bytes"] or 0))
    tags = reader.tags()
    if 0 in tags:
        told["diverging_epoch"], told["diverging_end"] = tags[0].i32(), tags[0].i64()
    if 1 in tags:
        told["leader"], told["epoch"] = tags[1].i32(), tags[1].i32()
    if 2 in tags:
        told["snapshot_end"], told["snapshot_epoch"] = tags[2].i64(), tags[2].i32()
    return told


def _snapshot_request(reader: _Reader, version: int) -> Told:
    del version
    reader.skip(8)
    if not _only_partition(reader):
        return {}
    reader.i32()
    told: Told = {"epoch": reader.i32(), "snapshot_end": reader.i64(), "snapshot_epoch": reader.i32()}
    reader.tags()
    told["position"] = reader.i64()
    return told


def _snapshot_response(reader: _Reader, version: int) -> Told:
    del version
    reader.i32()
    told: Told = {"error": reader.i16()}
    if not _only_partition(reader):
        return told
    reader.i32()
    error = reader.i16()
    told = {"error": told["error"] or error, "snapshot_end": reader.i64(), "snapshot_epoch": reader.i32()}
    reader.tags()
    reader.i64()
    told["position"] = reader.i64()
    told["bytes"] = max(0, reader.varint() - 1)
    reader.skip(int(told["bytes"] or 0))
    tags = reader.tags()
    if 0 in tags:
        told["leader"], told["epoch"] = tags[0].i32(), tags[0].i32()
    return told


_Read = Callable[[_Reader, int], Told]
_REQUESTS: dict[int, _Read] = {
    FETCH: _fetch_request,
    VOTE: _vote_request,
    BEGIN: _begin_request,
    END: _end_request,
    FETCH_SNAPSHOT: _snapshot_request,
}
_RESPONSES: dict[int, _Read] = {
    FETCH: _fetch_response,
    VOTE: _vote_response,
    BEGIN: _epoch_response,
    END: _epoch_response,
    FETCH_SNAPSHOT: _snapshot_response,
}
