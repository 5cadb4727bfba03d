"""Frames with their headers, split from a stream."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4.request import FetchRequest as OldFetchRequest
from kio.static.primitive import i32, i64

from clusters.wire.errors import error_code, error_name
from clusters.wire.framing import FrameSplitter, frame
from clusters.wire.messages import (
    RequestHeader,
    RequestTable,
    correlation_id,
    decode_response,
    encode_request,
    encode_response,
)
from clusters.wire.problems import UnsupportedRequest, WireError
from clusters.wire.reference_messages import ReadRequest, ReadResponse

READ = ReadRequest(cluster_id="c", key=i64(7), timeout_ms=i32(250))
TABLE = RequestTable([ReadRequest, ApiVersionsRequest])


def payload(framed: bytes) -> bytes:
    (only,) = FrameSplitter().feed(framed)
    return only


def test_a_read_request_has_these_bytes():
    header = bytes.fromhex("299a 0000 00000005 0002 6d65 00")  # api key, version, correlation, client id, no tags
    body = bytes.fromhex("0263 0000000000000007 01 000000fa 00")  # cluster id, key, consistency, timeout, no tags
    assert encode_request(READ, 5, "me") == bytes.fromhex("0000001d") + header + body


def test_a_request_comes_back_with_its_header():
    header, message = TABLE.decode(payload(encode_request(READ, 5, "me")))
    assert header == RequestHeader(10650, 0, 5, "me")
    assert message == READ


def test_an_absent_client_id_stays_absent():
    assert TABLE.decode(payload(encode_request(READ, 5)))[0].client_id is None


def test_a_response_comes_back_with_its_correlation_id():
    answer = ReadResponse(error_code=ErrorCode.not_leader_or_follower, leader_id=i32(2), leader_epoch=i32(9))
    received = payload(encode_response(answer, -3))
    assert correlation_id(received) == -3
    assert decode_response(ReadResponse, received) == (-3, answer)


def test_an_api_versions_response_has_a_header_without_tags():
    answer = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(), throttle_time=timedelta(0))
    received = payload(encode_response(answer, 1))
    assert received.hex() == "000000010000010000000000"
    assert decode_response(ApiVersionsResponse, received) == (1, answer)


def test_an_unknown_api_or_version_names_itself():
    old = OldFetchRequest(replica_id=-1, max_wait=timedelta(0), min_bytes=0, topics=())
    with pytest.raises(UnsupportedRequest) as caught:
        TABLE.decode(payload(encode_request(old, 77)))
    assert (caught.value.api_key, caught.value.api_version, caught.value.correlation_id) == (1, 4, 77)


def test_versions_are_listed_for_api_versions():
    assert TABLE.versions() == [(18, 3, 3), (10650, 0, 0)]


def test_bytes_behind_a_message_are_refused():
    with pytest.raises(WireError, match="1 bytes follow"):
        TABLE.decode(payload(encode_request(READ, 5)) + b"\0")
    with pytest.raises(WireError, match="1 bytes follow"):
        decode_response(ReadResponse, payload(encode_response(ReadResponse(error_code=ErrorCode.none), 1)) + b"\0")


@given(st.binary(max_size=60))
def test_garbage_requests_are_wire_errors(data):
    try:
        TABLE.decode(data)
    except WireError:
        return
    assert data[:2] in (b"\x29\x9a", b"\x00\x12")


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_a_stream_cut_anywhere_gives_the_same_payloads(payloads, data):
    stream = b"".join(map(frame, payloads))
    splitter, found, position = FrameSplitter(), [], 0
    while position < len(stream):
        size = data.draw(st.integers(1, 30))
        found += splitter.feed(stream[position : position + size])
        position += size
    assert found == payloads
    assert splitter.pending_bytes == 0


@pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff", b"\x00\x00\x01\x01"])
def test_a_frame_of_impossible_size_is_refused(claimed):
    with pytest.raises(WireError, match="a frame claims"):
        FrameSplitter(max_frame_bytes=256).feed(claimed)


def test_error_names_are_kafkas():
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(0) == "NONE"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(9999) == "ERROR_9999"
    assert error_code("REQUEST_TIMED_OUT") is ErrorCode.request_timed_out
