"""What replicas say to each other arrives as it was meant: core value → Kafka's bytes → core value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.vote.v2.request import VoteRequest as WireVoteRequest
from kio.schema.vote.v2.response import VoteResponse as WireVoteResponse

from clusters.candidates.reference.core import messages as core
from clusters.candidates.reference.core.records import DATA, LEADER_CHANGE, Batch, LeaderChange
from clusters.candidates.reference.server.peer_messages import Local, Refused, answer_class, read_answer, write_request
from clusters.candidates.reference.server.services import TABLE, Surroundings, service
from clusters.evidence.identity import uuid_to_text
from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import decode_response, encode_request, encode_response
from clusters.wire.problems import WireError
from clusters.wire.reference_records import Command

LOCAL = Local("cluster", 1, "h1", 9093, 700)
AROUND = Surroundings(LOCAL, (), lambda: 5)

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
replicas = st.builds(core.ReplicaKey, st.integers(1, 99), st.uuids(version=4).map(uuid_to_text))
leaders = st.none() | st.integers(0, 99)
errors = st.sampled_from(core.Error)

requests = st.one_of(
    st.builds(core.VoteRequest, int32, replicas, replicas, int32, int64, st.booleans()),
    st.builds(core.BeginQuorumEpochRequest, int32, st.integers(0, 99), replicas),
    st.builds(core.EndQuorumEpochRequest, int32, st.integers(0, 99), st.lists(replicas, max_size=3).map(tuple)),
    st.builds(
        core.FetchRequest,
        int32,
        replicas,
        int64,
        int32,
        st.integers(0, 10**6),
        st.none() | st.integers(0, 2**63 - 2),
    ),
    st.builds(core.ReadOffsetRequest, st.just(LOCAL.request_timeout_ms)),
)

commands = st.one_of(
    st.builds(Command, st.just("append"), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Command, st.just("write"), st.integers(0, 99), st.integers(0, 99)),
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, ...]:
    offset, found = draw(st.integers(0, 1000)), []
    for _ in range(draw(st.integers(0, 3))):
        epoch = draw(int32)
        if draw(st.booleans()):
            voters = tuple(map(str, draw(st.lists(replicas, min_size=1, max_size=3))))
            batch = Batch(offset, epoch, LEADER_CHANGE, (LeaderChange(draw(st.integers(0, 99)), voters),))
        else:
            batch = Batch(offset, epoch, DATA, tuple(draw(st.lists(commands, min_size=1, max_size=3))))
        found.append(batch)
        offset = batch.end_offset
    return tuple(found)


answers = st.one_of(
    st.tuples(
        st.just(core.VoteRequest(0, core.ReplicaKey(1, "A" * 22), core.ReplicaKey(2, "A" * 22), 0, 0, False)),
        st.builds(core.VoteResponse, errors, int32, leaders, st.booleans()),
    ),
    st.tuples(
        st.just(core.BeginQuorumEpochRequest(0, 1, core.ReplicaKey(2, "A" * 22))),
        st.builds(core.BeginQuorumEpochResponse, errors, int32, leaders),
    ),
    st.tuples(
        st.just(core.EndQuorumEpochRequest(0, 1, ())),
        st.builds(core.EndQuorumEpochResponse, errors, int32, leaders),
    ),
    st.tuples(
        st.just(core.FetchRequest(0, core.ReplicaKey(2, "A" * 22), 0, 0, 0)),
        st.builds(
            core.FetchResponse,
            errors,
            int32,
            leaders,
            st.integers(-1, 2**63 - 1),
            batches(),
            st.none() | st.builds(core.EpochEnd, int32, int64),
        ),
    ),
    st.tuples(
        st.just(core.ReadOffsetRequest(1)),
        st.builds(core.ReadOffsetResponse, errors, int32, leaders, st.integers(-1, 2**63 - 1)),
    ),
)


def received(frame: bytes) -> bytes:
    (payload,) = FrameSplitter().feed(frame)
    return payload


@settings(deadline=None)
@given(requests)
def test_a_request_arrives_as_it_was_sent(request):
    _, message = TABLE.decode(received(encode_request(write_request(request, LOCAL, 5), 1, "n1")))
    chosen = service(message)
    assert chosen is not None
    assert chosen.read(message, LOCAL) == request


@settings(deadline=None)
@given(answers)
def test_an_answer_arrives_as_it_was_given(pair):
    request, answer = pair
    chosen = service(write_request(request, LOCAL, 5))
    assert chosen is not None
    payload = received(encode_response(chosen.write(answer, AROUND), 9))
    correlation, message = decode_response(answer_class(request), payload)
    assert (correlation, read_answer(message)) == (9, answer)


def vote(**changes: Any) -> WireVoteRequest:
    request = core.VoteRequest(3, core.ReplicaKey(1, "A" * 22), core.ReplicaKey(2, "A" * 22), 0, 0, False)
    message = write_request(request, LOCAL, 0)
    partition = message.topics[0].partitions[0]
    fields = {name: getattr(partition, name) for name in partition.__slots__} | changes
    topic = type(message.topics[0])(topic_name=message.topics[0].topic_name, partitions=(type(partition)(**fields),))
    return WireVoteRequest(cluster_id=message.cluster_id, voter_id=message.voter_id, topics=(topic,))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (vote(partition_index=1), ErrorCode.unknown_topic_or_partition),
        (vote(last_offset=-1), ErrorCode.invalid_request),
        (vote(replica_epoch=-1), ErrorCode.invalid_request),
        (WireVoteRequest(cluster_id="cluster", topics=()), ErrorCode.invalid_request),
        (WireVoteRequest(cluster_id="other", topics=()), ErrorCode.inconsistent_cluster_id),
    ],
)
def test_a_misshapen_request_is_refused_with_kafkas_error(message, code):
    chosen = service(message)
    assert chosen is not None
    with pytest.raises(Refused) as caught:
        chosen.read(message, LOCAL)
    answer: WireVoteResponse = chosen.refusal(caught.value, AROUND)
    assert answer.topics[0].partitions[0].error_code == code
    assert not answer.topics[0].partitions[0].vote_granted


def test_an_answer_of_another_shape_is_no_answer():
    for message in (
        WireVoteResponse(error_code=ErrorCode.inconsistent_cluster_id, topics=()),
        WireVoteResponse(error_code=ErrorCode.none, topics=()),
    ):
        with pytest.raises(WireError):
            read_answer(message)
