"""The compiled codecs write and read the same bytes as kio, and survive every garbage."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.broker_registration.v3.request import BrokerRegistrationRequest
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.fetch.v4.response import FetchResponse as FetchResponseV4
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.fetch.v18.request import FetchRequest as FetchRequestV18
from kio.schema.fetch.v18.response import FetchResponse
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.produce.v10.request import ProduceRequest
from kio.schema.produce.v10.response import ProduceResponse
from kio.schema.vote.v2.request import VoteRequest
from kio.schema.vote.v2.response import VoteResponse
from kio.schema.voters_record.v0.data import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records

from clusters.wire.codec import decode, encode
from clusters.wire.problems import WireError
from clusters.wire.reference_messages import (
    CompareAndSetRequest,
    CompareAndSetResponse,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReadRequest,
    ReadResponse,
)

st.register_type_strategy(Records, st.binary(max_size=300))

ENTITIES = [
    AllocateProducerIdsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseV0,
    BeginQuorumEpochRequest,
    BrokerRegistrationRequest,
    CompareAndSetRequest,
    CompareAndSetResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchRequestV18,
    FetchResponse,
    FetchResponseV4,
    IncrementalAlterConfigsRequest,
    ProduceRequest,
    ProduceResponse,
    ReadOffsetRequest,
    ReadOffsetResponse,
    ReadRequest,
    ReadResponse,
    VoteRequest,
    VoteResponse,
    VotersRecord,
]


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda each: f"{each.__name__}-v{each.__version__}")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_agrees_with_kio_in_both_directions(entity, data):
    value = data.draw(st.from_type(entity))
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, value)
    ours = encode(value)
    assert ours == buffer.getvalue()
    theirs, size = entity_reader(entity)(ours, 0)
    assert decode(entity, ours) == (theirs, size)


@pytest.mark.parametrize("entity", [FetchRequest, FetchResponse, ProduceRequest, VotersRecord, ApiVersionsResponseV0])
@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=120))
def test_garbage_is_a_wire_error_or_a_value(entity, data):
    try:
        _, position = decode(entity, data)
    except WireError:
        return
    assert position <= len(data)


def test_a_claimed_array_of_two_billion_elements_allocates_nothing():
    with pytest.raises(WireError, match="elements are claimed"):
        decode(ProduceRequest, b"\x00\x00\x01\x00\x00\x00\x01" + b"\xff\xff\xff\xff\x07" + b"abc")


def test_every_cut_of_a_message_is_a_wire_error():
    whole = encode(
        VotersRecord(
            version=0,
            voters=(
                Voter(
                    voter_id=1,
                    voter_directory_id=UUID(int=5),
                    endpoints=(Endpoint(name="CONTROLLER", host="h", port=9),),
                    k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
                ),
            ),
        )
    )
    for size in range(len(whole)):
        with pytest.raises(WireError):
            decode(VotersRecord, whole[:size])
