"""Captured packets become messages, whatever TCP and the captures did to them; their fate is what the receiver's kernel said."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.vote.v0 import request as old_vote_request

from clusters.collect.rpcs.conversation import Conversations, Message
from clusters.collect.rpcs.packets import ACK, FIN, RST, PacketFile, Segment
from clusters.collect.rpcs.rows import Rows, on_the_controllers_clock
from clusters.evidence.identity import uuid_to_text
from clusters.wire import reference_messages
from clusters.wire.messages import encode_request, encode_response
from clusters.wire.problems import WireError
from tests.clusters.wires import DISK, MS, NAMES, PORT, Wire, fetch, fetched, vote, voted


def read(
    seen: dict[str, list[Segment]], *, captured: Sequence[str] = ("n1", "n2"), lossy: Sequence[str] = ()
) -> list[Message]:
    conversations = Conversations(PORT, NAMES, frozenset(captured))
    found: list[Message] = []
    for node in captured:
        for segment in seen[node]:
            conversations.see(node, segment)
        found += conversations.settled()
    return found + list(conversations.finish(frozenset(lossy)))


def told(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """What the messages say, without times, in an order of their own."""
    return sorted(
        (m.src, m.dst, m.request, m.correlation_id or 0, m.content.api or "", m.content.epoch or 0, m.content.offset or 0,
         m.content.granted, m.content.high_watermark, m.fate, m.content.problem)
        for m in messages
    )  # fmt: skip


def test_a_vote_is_read_with_everything_that_it_says() -> None:
    wire = Wire().open()
    wire.say(True, vote(1, pre_vote=True))
    wire.say(False, voted(1, granted=False))
    request, response = sorted(read(wire.seen), key=lambda m: not m.request)
    asked = request.content
    assert (asked.api, asked.version, asked.epoch, asked.replica, asked.voter) == ("Vote", 2, 5, "n1", "n2")
    assert asked.replica_directory_id == uuid_to_text(DISK)
    assert (asked.pre_vote, asked.offset, asked.last_epoch, asked.problem) == (True, 90, 4, None)
    assert "__cluster_metadata" in (asked.detail or "")
    answer = response.content
    assert (answer.granted, answer.epoch, answer.asked_epoch, answer.leader, answer.error) == (
        False,
        5,
        5,
        None,
        "NONE",
    )
    assert (answer.replica, answer.pre_vote) == ("n1", True), "an answer tells what it answers"
    assert (response.src, response.dst, response.fate) == ("n2", "n1", "delivered")


def test_a_fetch_tells_offsets_and_the_size_of_its_records_but_not_the_records() -> None:
    wire = Wire().open()
    wire.say(True, fetch(1, 90))
    wire.say(False, fetched(1, 80, records=b"r" * 5000, diverging=77))
    request, response = sorted(read(wire.seen), key=lambda m: not m.request)
    assert (request.content.offset, request.content.last_epoch, request.content.replica) == (90, 4, "n1")
    assert (response.content.high_watermark, response.content.records_bytes) == (80, 5000)
    assert (response.content.diverging_epoch, response.content.diverging_end_offset) == (3, 77)
    assert (response.content.leader, response.content.epoch, response.content.detail) == ("n2", 5, None)


def test_votes_of_old_releases_have_no_directory_ids_and_are_no_pre_votes() -> None:
    asked = old_vote_request.PartitionData(
        partition_index=0, replica_epoch=3, replica_id=1, last_offset_epoch=2, last_offset=9
    )
    topic = old_vote_request.TopicData(topic_name="__cluster_metadata", partitions=(asked,))
    wire = Wire().open()
    wire.say(True, encode_request(old_vote_request.VoteRequest(cluster_id="c", topics=(topic,)), 1, "x"))
    (request,) = read(wire.seen)
    assert (request.content.pre_vote, request.content.replica_directory_id, request.content.epoch) == (False, None, 3)


def test_the_references_own_messages_are_read() -> None:
    wire = Wire().open()
    wire.say(True, encode_request(reference_messages.read_offset_request("c", 0), 4, "n1"))
    answer = reference_messages.read_offset_response(
        "c", error_code=ErrorCode.none, leader_id=2, leader_epoch=6, applied_offset=33
    )
    wire.say(False, encode_response(answer, 4))
    request, response = sorted(read(wire.seen), key=lambda m: not m.request)
    assert request.content.api == "ReadOffset"
    assert (response.content.offset, response.content.epoch, response.content.problem) == (33, 6, None)


SAID = [
    (True, fetch(1, 1)),
    (False, fetched(1, 1, b"a" * 300)),
    (True, vote(2)),
    (True, fetch(3, 2)),
    (False, voted(2)),
    (False, fetched(3, 2)),
    (True, encode_request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 9, "n1")),
]


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_segmentation_order_and_repetition_change_nothing(data: st.DataObject) -> None:
    """However the streams are cut, what each capture sees twice or out of order, the messages are the same."""
    plain = Wire().open()
    for forth, frame in SAID:
        plain.say(forth, frame)
    wanted = told(read(plain.seen))
    assert len(wanted) == len(SAID)

    wire = Wire(isn=data.draw(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))).open()
    for forth, frame in SAID:
        cuts = sorted(data.draw(st.sets(st.integers(1, len(frame) - 1), max_size=4)))
        for begin, end in zip([0, *cuts], [*cuts, len(frame)], strict=True):
            wire.send(forth, frame[begin:end])
        wire.send(not forth)
    for segments in wire.seen.values():
        for _ in range(data.draw(st.integers(0, 6))):
            again = data.draw(st.integers(0, len(segments) - 1))
            late = data.draw(st.integers(again, len(segments)))
            segments.insert(late, replace(segments[again], ts_ns=segments[min(late, len(segments) - 1)].ts_ns))
        # What was sent in one go may arrive in any order, acknowledgements after it.
        begin = data.draw(st.integers(3, len(segments) - 1))
        window = segments[begin : begin + 3]
        if len({s.source for s in window}) == 1:
            segments[begin : begin + 3] = data.draw(st.permutations(window))
    assert told(read(wire.seen)) == wanted


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_each_capture_alone_finds_the_same_messages(data: st.DataObject) -> None:
    """Packets that one capture lost are taken from the other, and no fate is made up where both are needed."""
    wire = Wire().open()
    for forth, frame in SAID:
        wire.say(forth, frame)
    lost = data.draw(st.sets(st.integers(3, len(wire.seen["n1"]) - 1), max_size=5))
    loser = data.draw(st.sampled_from(("n1", "n2")))
    wire.seen[loser] = [segment for at, segment in enumerate(wire.seen[loser]) if at not in lost]
    found = read(wire.seen, lossy=[loser])
    assert [row[:9] for row in told(found)] == [row[:9] for row in told(read(_without_loss().seen))]
    assert {message.fate for message in found} <= {"delivered", "unknown"}


def _without_loss() -> Wire:
    wire = Wire().open()
    for forth, frame in SAID:
        wire.say(forth, frame)
    return wire


def test_times_are_those_of_the_ends() -> None:
    wire = Wire().open()
    wire.now_ns = 100 * MS
    wire.say(True, vote(1))
    (request,) = read(wire.seen)
    assert (request.sent_ns, request.sent_by) == (100 * MS, "n1")
    assert (request.delivered_ns, request.delivered_by) == (101 * MS, "n2")


def test_what_is_retransmitted_is_delivered_by_the_copy_that_was_acknowledged() -> None:
    """Cut at the receiver: its capture sees each copy, its kernel acknowledges the one that the filter let in."""
    wire = Wire().open()
    wire.now_ns = 100 * MS
    segment = wire.send(True, vote(1))
    for node in ("n1", "n2"):
        wire.seen[node].append(replace(segment, ts_ns=300 * MS + (node == "n2") * MS))
    wire.now_ns = 302 * MS
    wire.send(False)
    (request,) = read(wire.seen)
    assert (request.sent_ns, request.delivered_ns, request.fate) == (100 * MS, 301 * MS, "delivered")


def test_what_never_arrives_is_lost_and_what_is_refused_is_unacknowledged() -> None:
    lost = Wire(port=1).open()
    lost.send(True, vote(1), seen=["n1"])
    refused = Wire(port=2).open()
    refused.send(True, vote(1))
    assert [m.fate for m in read(lost.seen)] == ["lost"]
    assert [m.fate for m in read(refused.seen)] == ["unacknowledged"]
    assert [m.fate for m in read(lost.seen, lossy=["n2"])] == ["unknown"], "a capture with holes proves no loss"
    assert [m.fate for m in read(lost.seen, captured=["n1"])] == ["unknown"]


def test_without_the_receivers_capture_an_acknowledgement_at_the_sender_tells() -> None:
    wire = Wire().open()
    wire.say(True, vote(1))
    (request,) = read(wire.seen, captured=["n1"])
    assert (request.fate, request.delivered_ns) == ("delivered", None)


def test_a_node_killed_in_the_middle_of_a_message_leaves_a_torn_one() -> None:
    wire = Wire().open()
    wire.send(True, vote(1)[:30])
    wire.send(False)
    wire.send(True, flags=RST)
    (request,) = read(wire.seen)
    assert (request.fate, request.missing, request.content.api) == ("torn", len(vote(1)) - 30, "Vote")
    assert request.content.problem == "the sender ended inside it"


@pytest.mark.parametrize("end", [FIN | ACK, RST])
def test_a_port_that_is_used_again_is_another_connection(end: int) -> None:
    first = Wire(isn=(1000, 5000)).open()
    first.say(True, vote(1, epoch=5))
    first.send(True, flags=end)
    second = Wire(isn=(777_000, 4000))
    second.now_ns = first.now_ns
    second.open()
    second.say(True, vote(1, epoch=6))
    second.say(False, voted(1, epoch=6))
    messages = read({node: first.seen[node] + second.seen[node] for node in first.seen})
    assert [(m.connection, m.content.epoch, m.fate) for m in messages] == [
        ("n1-n2#1", 5, "delivered"),
        ("n1-n2#2", 6, "delivered"),
        ("n1-n2#2", 6, "delivered"),
    ]


def test_a_connection_that_was_there_before_the_capture_is_read_from_its_next_message() -> None:
    wire = Wire().open()
    for node in wire.seen:
        wire.seen[node].clear()
    wire.send(True, vote(7)[20:])  # the end of one whose beginning nobody saw
    wire.say(True, fetch(8, 3))
    wire.say(False, fetched(8, 3))
    assert [(m.content.api, m.request, m.fate) for m in read(wire.seen)] == [
        ("Fetch", True, "delivered"),
        ("Fetch", False, "delivered"),
    ]


def test_behind_a_piece_that_both_captures_lost_the_stream_goes_on() -> None:
    wire = Wire().open()
    wire.say(True, fetch(1, 1))
    wire.send(True, fetch(2, 2), seen=())
    wire.say(True, fetch(3, 3))
    found = read(wire.seen, lossy=["n1", "n2"])
    assert [m.content.offset for m in found] == [1, 3]


def test_a_request_that_is_repeated_is_answered_twice() -> None:
    wire = Wire().open()
    for forth, frame in ((True, vote(1)), (True, vote(1)), (False, voted(1)), (False, voted(1))):
        wire.say(forth, frame)
    assert [m.content.problem for m in read(wire.seen)] == [None] * 4


def test_garbage_is_a_problem_in_a_row_and_no_exception() -> None:
    wire = Wire().open()
    unknown = struct.pack(">ihhi", 10, 52, 99, 1) + b"\xff\xff"
    torn_inside = bytearray(vote(2))
    torn_inside[-10:] = b"\xff" * 10
    wire.say(True, unknown)
    wire.say(True, bytes(torn_inside))
    wire.say(True, struct.pack(">i", 3) + b"abc")
    wire.say(False, struct.pack(">ii", 4, 12345))
    found = read(wire.seen)
    assert len(found) == 4
    assert all(m.content.problem for m in found)
    assert found[0].content.problem == "Vote v99 is not known here"


def test_other_traffic_is_no_evidence() -> None:
    wire = Wire().open()
    wire.say(True, vote(1))
    foreign = {node: [replace(s, source=b"\x0a\x4d\xff\xfe") for s in wire.seen[node]] for node in wire.seen}
    assert read(foreign) == []


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=6))
def test_a_file_is_read_as_it_grows_in_several_members(cuts: list[int]) -> None:
    wire = Wire().open()
    wire.say(True, vote(1))
    plain = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 101)
    for segment in wire.seen["n1"]:
        tcp = struct.pack(
            ">HHIIBBHHH", segment.source_port, segment.destination_port, segment.seq, segment.ack, 0x50,
            segment.flags, 0, 0, 0,
        ) + segment.payload  # fmt: skip
        packet = (
            struct.pack(">BBHIBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 64, 6, 0, segment.source, segment.destination) + tcp
        )
        seconds, ns = divmod(segment.ts_ns, 1_000_000_000)
        plain += struct.pack("<IIII", seconds, ns, len(packet), len(packet)) + packet
    file = gzip.compress(plain[:100]) + gzip.compress(plain[100:])
    reader, found = PacketFile(), []
    for part in _cut(file, cuts):
        found += list(reader.feed(part))
    assert found == wire.seen["n1"]


def _cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(WireError, match="pcap"):
        list(PacketFile().feed(gzip.compress(b"x" * 100)))
    with pytest.raises(WireError, match="unpacked"):
        list(PacketFile().feed(b"x" * 100))


def test_rows_are_on_the_controllers_clock_and_tell_what_is_news() -> None:
    wire = Wire().open()
    wire.now_ns = 1000 * MS
    for number in range(1, 4):
        wire.say(True, fetch(number, 10 * number))
        wire.say(False, fetched(number, 10 * number))
    wire.say(True, vote(9))
    wire.say(True, vote(10))
    rows = Rows()
    rows.add(read(wire.seen))
    assert len(rows) == 8
    table = on_the_controllers_clock(rows.take(), "r", 500 * MS, {"n1": 0, "n2": 200 * MS}).to_pylist()
    assert len(rows) == 0
    first = next(row for row in table if row["api"] == "Fetch" and row["kind"] == "request")
    assert (first["ts_ns"], first["delivered_ns"]) == (500 * MS, 301 * MS), "n2 is 200 ms ahead"
    assert [row["api"] for row in table if row["is_news"]].count("Fetch") == 2, "one a direction: the rest are offsets"
    assert [row["api"] for row in table if row["is_news"]].count("Vote") == 2, "votes are always told"
    assert all(row["run_id"] == "r" for row in table)
