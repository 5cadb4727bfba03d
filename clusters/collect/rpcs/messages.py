"""Requests and responses between nodes, read with kio: what a person and the checks ask of them, without the records they carry."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.index import api_key_map

from clusters.evidence.identity import node_name, uuid_to_text
from clusters.wire import reference_messages
from clusters.wire.codec import decode
from clusters.wire.errors import error_name
from clusters.wire.messages import decode_response, skip_tags
from clusters.wire.problems import WireError

FETCH, API_VERSIONS, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH_SNAPSHOT = 1, 18, 52, 53, 54, 59
_OWN = {
    reference_messages.READ_OFFSET: (reference_messages.ReadOffsetRequest, reference_messages.ReadOffsetResponse),
    reference_messages.READ: (reference_messages.ReadRequest, reference_messages.ReadResponse),
    reference_messages.COMPARE_AND_SET: (
        reference_messages.CompareAndSetRequest,
        reference_messages.CompareAndSetResponse,
    ),
}
_UNTOLD = frozenset({FETCH, FETCH_SNAPSHOT, API_VERSIONS, reference_messages.READ_OFFSET})
"""APIs whose messages say nothing in ``detail``: they are many, long, or carry records"""
_HEAD = struct.Struct(">hhi")
_VERSION_MAX = 100
_ZERO = UUID(int=0)
_UNSUPPORTED_VERSION = 35


@dataclass(slots=True)
class Content:
    """What a message says; columns of the table ``rpcs`` of the same names. ``problem`` says why it cannot be read, if so."""

    api_key: int | None = None
    version: int | None = None
    api: str | None = None
    epoch: int | None = None
    asked_epoch: int | None = None
    leader: str | None = None
    replica: str | None = None
    replica_directory_id: str | None = None
    voter: str | None = None
    voter_directory_id: str | None = None
    pre_vote: bool | None = None
    granted: bool | None = None
    error: str | None = None
    offset: int | None = None
    last_epoch: int | None = None
    high_watermark: int | None = None
    diverging_epoch: int | None = None
    diverging_end_offset: int | None = None
    records_bytes: int | None = None
    detail: str | None = None
    problem: str | None = None


def request_head(payload: bytes) -> tuple[int, int, int] | None:
    """(api key, version, correlation id) of a request; None for one that is too short."""
    return _HEAD.unpack_from(payload) if len(payload) >= _HEAD.size else None


def known_request(head: bytes) -> bool:
    """Whether bytes can be the beginning of a request, its length included."""
    if len(head) < 12:
        return False
    api_key, version, _ = _HEAD.unpack_from(head, 4)
    return (api_key in api_key_map or api_key in _OWN) and 0 <= version < _VERSION_MAX and head[0] < 8


@lru_cache(maxsize=512)
def _classes(api_key: int, version: int) -> tuple[type[Any], type[Any]] | None:
    if api_key in _OWN:
        return _OWN[api_key] if version == 0 else None
    try:
        return load_request_schema(api_key, version), load_response_schema(api_key, version)
    except KioIndexError:
        return None


@lru_cache(maxsize=512)
def api_name(api_key: int) -> str:
    """Kafka's name of an API: 52 is ``Vote``."""
    if api_key in _OWN:
        return _OWN[api_key][0].__name__.removesuffix("Request")
    name = api_key_map.get(api_key)
    return f"api {api_key}" if name is None else "".join(part.capitalize() for part in name.split("_"))


def read_request(payload: bytes, *, whole: bool) -> Content:
    """Read the payload of a request's frame; never raises."""
    head = request_head(payload)
    if head is None:
        return Content(problem=f"{len(payload)} bytes are no request")
    api_key, version, _ = head
    content = Content(api_key, version, api_name(api_key))
    if not whole:
        content.problem = "the sender ended inside it"
        return content
    classes = _classes(api_key, version)
    if classes is None:
        content.problem = f"{content.api} v{version} is not known here"
        return content
    try:
        message = _request(classes[0], payload)
        _tell_request(content, message)
    except (WireError, ValueError, IndexError, AttributeError) as error:
        content.problem = str(error) or type(error).__name__
    return content


def read_response(payload: bytes, asked: Content | None, *, whole: bool) -> Content:
    """Read the payload of a response's frame to a request; never raises. It also tells of the request what a reader must know."""
    if asked is None or asked.api_key is None or asked.version is None:
        return Content(problem="it answers no request that was seen")
    content = Content(asked.api_key, asked.version, asked.api)
    if not whole:
        content.problem = "the sender ended inside it"
        return content
    for name in ("replica", "replica_directory_id", "voter", "voter_directory_id", "pre_vote"):
        setattr(content, name, getattr(asked, name))
    content.asked_epoch = asked.epoch
    version = asked.version
    if asked.api_key == API_VERSIONS and int.from_bytes(payload[4:6], "big") == _UNSUPPORTED_VERSION:
        version = 0  # what a server answers that does not know the version asked in
    classes = _classes(asked.api_key, version)
    if classes is None:
        content.problem = f"{content.api} v{asked.version} is not known here"
        return content
    try:
        _, message = decode_response(classes[1], payload)
        _tell_response(content, message)
    except (WireError, ValueError, IndexError, AttributeError) as error:
        content.problem = str(error) or type(error).__name__
    return content


def _request(kind: type[Any], payload: bytes) -> Any:
    size = int.from_bytes(payload[8:10], "big", signed=True)
    position = 10 + max(size, 0)
    if position > len(payload):
        raise WireError(f"a client id of {size} bytes does not fit into a request of {len(payload)}")
    if kind.__flexible__:
        position = skip_tags(payload, position)
    message, position = decode(kind, payload, position)
    if position != len(payload):
        raise WireError(f"{len(payload) - position} bytes follow a {kind.__name__}")
    return message


# ------------------------------------------------------------------------------------------------------------- columns


def _node(number: int) -> str | None:
    return node_name(number) if number >= 0 else None


def _disk(value: UUID | None) -> str | None:
    return None if value is None or value == _ZERO else uuid_to_text(value)


def _partition(message: Any) -> Any:
    """The one partition that KRaft's messages are about; None where a message has none."""
    topics = getattr(message, "topics", None)
    if topics is None:
        topics = getattr(message, "responses", None)
    return topics[0].partitions[0] if topics and getattr(topics[0], "partitions", None) else None


def _tell_request(content: Content, message: Any) -> None:
    partition = _partition(message)
    key = content.api_key
    if key == VOTE:
        content.epoch = partition.replica_epoch
        content.replica, content.offset = _node(partition.replica_id), partition.last_offset
        content.last_epoch = partition.last_offset_epoch
        content.replica_directory_id = _disk(getattr(partition, "replica_directory_id", None))
        content.voter_directory_id = _disk(getattr(partition, "voter_directory_id", None))
        content.voter = _node(getattr(message, "voter_id", -1))
        content.pre_vote = getattr(partition, "pre_vote", False)
    elif key in (BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH):
        content.epoch, content.leader = partition.leader_epoch, _node(partition.leader_id)
        content.voter_directory_id = _disk(getattr(partition, "voter_directory_id", None))
        content.voter = _node(getattr(message, "voter_id", -1))
    elif key == FETCH and partition is not None:
        replica = getattr(message, "replica_state", None)
        content.replica = _node(message.replica_id if replica is None else replica.replica_id)
        content.epoch = getattr(partition, "current_leader_epoch", None)
        content.offset = partition.fetch_offset
        content.last_epoch = getattr(partition, "last_fetched_epoch", None)
        content.replica_directory_id = _disk(getattr(partition, "replica_directory_id", None))
        content.high_watermark = _known(getattr(partition, "high_watermark", None))
    elif key == FETCH_SNAPSHOT and partition is not None:
        content.replica, content.epoch = _node(message.replica_id), partition.current_leader_epoch
        content.offset, content.last_epoch = partition.snapshot_id.end_offset, partition.snapshot_id.epoch
        content.replica_directory_id = _disk(getattr(partition, "replica_directory_id", None))
    content.detail = _detail(content, message)


def _known(high_watermark: int | None) -> int | None:
    return None if high_watermark is None or not 0 <= high_watermark < 1 << 62 else high_watermark


def _tell_response(content: Content, message: Any) -> None:
    partition = _partition(message)
    code = getattr(message, "error_code", 0) or (0 if partition is None else getattr(partition, "error_code", 0))
    content.error = error_name(code)
    key = content.api_key
    if partition is not None and key in (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, reference_messages.READ_OFFSET):
        content.epoch, content.leader = partition.leader_epoch, _node(partition.leader_id)
        content.granted = getattr(partition, "vote_granted", None)
        content.offset = getattr(partition, "applied_offset", None)
    elif partition is not None and key == FETCH:
        current, diverging = getattr(partition, "current_leader", None), getattr(partition, "diverging_epoch", None)
        if current is not None:
            content.epoch, content.leader = current.leader_epoch, _node(current.leader_id)
        if diverging is not None and diverging.end_offset >= 0:
            content.diverging_epoch, content.diverging_end_offset = diverging.epoch, diverging.end_offset
        content.high_watermark = _known(partition.high_watermark)
        content.records_bytes = len(partition.records or b"")
    elif partition is not None and key == FETCH_SNAPSHOT:
        content.epoch, content.leader = partition.current_leader.leader_epoch, _node(partition.current_leader.leader_id)
        content.records_bytes = len(partition.unaligned_records or b"")
    content.detail = _detail(content, message)


def _detail(content: Content, message: Any) -> str | None:
    if content.api_key in _UNTOLD:
        return None
    return msgspec.json.encode({each.name: getattr(message, each.name) for each in fields(message)}).decode()
