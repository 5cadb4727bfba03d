"""How the reference candidate's clients write and poll."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchableTopicResponse, FetchResponse, PartitionData
from kio.schema.produce.v10.response import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

from clusters.wire import metadata_topic, reference_messages
from clusters.wire.batches import Record, decode_batches, encode_batch, records
from clusters.wire.problems import WireError
from clusters.wire.reference_records import Command, decode_command, encode_command

int64 = st.integers(-(2**63), 2**63 - 1)
commands = st.one_of(
    st.builds(Command, st.just("write"), int64, int64),
    st.builds(Command, st.just("cas"), int64, int64, int64),
    st.builds(Command, st.just("append"), int64),
)


@given(commands)
def test_commands_come_back(command):
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize("value", [None, b"", b"\x01", b"\x03" + bytes(9), b"\x07" + bytes(8)])
def test_what_is_no_command_is_refused(value):
    with pytest.raises(WireError):
        decode_command(value)


@given(st.lists(commands, min_size=1, max_size=4))
def test_a_produce_request_holds_its_commands_in_one_batch(written):
    request = reference_messages.produce(written, timestamp_ms=5, timeout_ms=100)
    (batch,) = decode_batches(request.topic_data[0].partition_data[0].records)
    assert [decode_command(each.value) for each in records(batch)] == written
    assert request.timeout == timedelta(milliseconds=100)


def test_a_produce_answer_is_read():
    partition = PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.not_leader_or_follower,
        base_offset=-1,
        record_errors=(),
        current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=8),
    )
    topic = TopicProduceResponse(name=metadata_topic.TOPIC_NAME, partition_responses=(partition,))
    assert reference_messages.produced(ProduceResponse(responses=(topic,))) == reference_messages.Produced(
        ErrorCode.not_leader_or_follower, -1, 3, 8
    )
    with pytest.raises(WireError):
        reference_messages.produced(ProduceResponse(responses=()))


def fetched(written: list[Record], high_watermark: int) -> FetchResponse:
    partition = PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=high_watermark,
        aborted_transactions=None,
        records=encode_batch(written, epoch=-1) if written else b"",
    )
    return FetchResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        responses=(FetchableTopicResponse(topic_id=metadata_topic.TOPIC_ID, partitions=(partition,)),),
    )


def test_a_poll_gives_offsets_and_values():
    written = [Record(at, 0, None, encode_command(Command("append", at * 10))) for at in (4, 7)]
    answer = reference_messages.polled(fetched(written, 9), 4)
    assert (answer.high_watermark, answer.appended) == (9, ((4, 40), (7, 70)))
    assert reference_messages.polled(fetched([], 9), 4).appended == ()


@pytest.mark.parametrize("high_watermark", [4, 7])
def test_a_poll_never_takes_what_is_not_below_the_high_watermark(high_watermark):
    written = [Record(at, 0, None, encode_command(Command("append", at))) for at in (4, 7)]
    with pytest.raises(WireError):
        reference_messages.polled(fetched(written, high_watermark), 4)
