"""The relay's own parsers against kio's codecs: whatever kio writes, in every version of every release, they read the same fields."""

import dataclasses
import datetime
import importlib
import typing
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from clusters.backends.companions.raft_frames import Told, correlation_of, read_request, read_response
from clusters.wire.messages import encode_request, encode_response

VERSIONS = {
    "vote": range(3),
    "begin_quorum_epoch": range(2),
    "end_quorum_epoch": range(2),
    "fetch": range(12, 19),
    "fetch_snapshot": range(2),
}
CASES = [(api, version) for api, versions in VERSIONS.items() for version in versions]


def value_of(kind: str) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one a type
    match kind:
        case "error_code":
            return st.sampled_from(list(ErrorCode))
        case "string":
            return st.text(max_size=8)
        case "bool":
            return st.booleans()
        case "uuid":
            return st.uuids()
        case "records":
            return st.binary(max_size=300)
        case "timedelta_i32":
            return st.integers(0, 10_000).map(lambda ms: datetime.timedelta(milliseconds=ms))
    bits = int(kind.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(low, high)


@cache
def message(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    parts = {}
    for each in dataclasses.fields(kind):
        hint = hints[each.name]
        inner = [arg for arg in typing.get_args(hint) if arg not in (type(None), Ellipsis)]
        is_array = typing.get_origin(hint) is tuple or any(typing.get_origin(arg) is tuple for arg in inner)
        if is_array and typing.get_origin(hint) is not tuple:
            inner = [arg for arg in typing.get_args(inner[0]) if arg is not Ellipsis]
        element = inner[0] if is_array else hint
        one = message(element) if dataclasses.is_dataclass(element) else value_of(each.metadata["kafka_type"])
        parts[each.name] = st.lists(one, max_size=2).map(tuple) if is_array else one
    return st.builds(kind, **parts)


def named(api: str, version: int, part: str) -> Any:
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{part}")
    return getattr(module, "".join(word.title() for word in api.split("_")) + part.title())


def first_partition(body: Any) -> Any:
    topics = body.responses if hasattr(body, "responses") else body.topics
    return topics[0].partitions[0] if topics and topics[0].partitions else None


def first_of(partition: Any, *names: str) -> Any:
    return next(getattr(partition, name) for name in names if hasattr(partition, name))


def expected_request(body: Any) -> Told:
    partition = first_partition(body)
    if partition is None:
        return {}
    told: dict[str, Any] = {
        "epoch": first_of(partition, "replica_epoch", "candidate_epoch", "current_leader_epoch", "leader_epoch")
    }
    if hasattr(partition, "last_offset"):
        told["candidate"] = first_of(partition, "replica_id", "candidate_id")
        told |= {"last_epoch": partition.last_offset_epoch, "last_offset": partition.last_offset}
        told["pre_vote"] = getattr(partition, "pre_vote", False)
    elif hasattr(partition, "fetch_offset"):
        told |= {"offset": partition.fetch_offset, "last_epoch": partition.last_fetched_epoch}
    elif hasattr(partition, "snapshot_id"):
        told |= {"snapshot_end": partition.snapshot_id.end_offset, "snapshot_epoch": partition.snapshot_id.epoch}
        told["position"] = partition.position
    else:
        told["leader"] = partition.leader_id
    return told


def tagged(value: Any, kind: Any) -> Any:
    """What a tagged field says: one that has its default value is not sent."""
    return None if value == kind() else value


def expected_response(body: Any) -> Told:
    partition = first_partition(body)
    error = body.error_code.value
    if partition is None:
        return {"error": error}
    told: dict[str, Any] = {"error": error or partition.error_code.value}
    if not hasattr(partition, "current_leader"):
        told |= {"leader": partition.leader_id, "epoch": partition.leader_epoch}
        if hasattr(partition, "vote_granted"):
            told["granted"] = partition.vote_granted
        return told
    if hasattr(partition, "size"):
        told |= {"snapshot_end": partition.snapshot_id.end_offset, "snapshot_epoch": partition.snapshot_id.epoch}
        told |= {"position": partition.position, "bytes": len(partition.unaligned_records)}
    else:
        told |= {"high_watermark": partition.high_watermark, "bytes": len(partition.records or b"")}
        if diverging := tagged(partition.diverging_epoch, type(partition.diverging_epoch)):
            told |= {"diverging_epoch": diverging.epoch, "diverging_end": diverging.end_offset}
        if snapshot := tagged(partition.snapshot_id, type(partition.snapshot_id)):
            told |= {"snapshot_end": snapshot.end_offset, "snapshot_epoch": snapshot.epoch}
    told |= {"leader": partition.current_leader.leader_id, "epoch": partition.current_leader.leader_epoch}
    return told


USUAL = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(("api", "version"), CASES)
@given(data=st.data())
@USUAL
def test_requests(api: str, version: int, data: Any) -> None:
    kind = named(api, version, "request")
    body = data.draw(message(kind))
    correlation, client = data.draw(value_of("int32")), data.draw(st.none() | st.text(max_size=9))
    request = read_request(encode_request(body, correlation, client)[4:])
    assert (request.api_key, request.version, request.correlation, request.client) == (
        kind.__api_key__,
        version,
        correlation,
        client,
    )
    assert request.told == expected_request(body)
    assert request.api == ("PreVote" if request.told.get("pre_vote") else api.title().replace("_", ""))


@pytest.mark.parametrize(("api", "version"), CASES)
@given(data=st.data())
@USUAL
def test_responses(api: str, version: int, data: Any) -> None:
    kind = named(api, version, "response")
    body = data.draw(message(kind))
    correlation = data.draw(value_of("int32"))
    frame = encode_response(body, correlation)[4:]
    assert correlation_of(frame) == correlation
    told = read_response(frame, kind.__api_key__, version)
    expected = expected_response(body)
    for tag in ("leader", "epoch"):
        if expected.get(tag) == -1 and tag not in told:
            del expected[tag]  # a tagged field that says nothing is not sent
    assert told == expected


@pytest.mark.parametrize(("api", "version"), CASES)
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_torn_frame_is_refused_or_read_and_nothing_else(api: str, version: int, data: Any) -> None:
    frame = encode_request(data.draw(message(named(api, version, "request"))), 3, "n1")[4:]
    answer = encode_response(data.draw(message(named(api, version, "response"))), 3)[4:]
    cut = data.draw(st.integers(0, len(frame)))
    for read in (
        lambda: read_request(frame[:cut]),
        lambda: read_response(answer[:cut], named(api, version, "response").__api_key__, version),
        lambda: read_response(data.draw(st.binary(max_size=60)), named(api, version, "response").__api_key__, version),
    ):
        try:
            read()
        except ValueError:
            continue
