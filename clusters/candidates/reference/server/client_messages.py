"""Requests of clients: the core's values ↔ messages. What they mean is told in ``clusters.wire.reference_messages``."""

from __future__ import annotations

from typing import Any

from kio.schema.api_versions.v0 import response as api_versions_0
from kio.schema.api_versions.v3 import response as api_versions_3
from kio.schema.api_versions.v4 import response as api_versions_4
from kio.schema.describe_quorum.v2 import request as describe_request
from kio.schema.describe_quorum.v2 import response as describe_response
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as fetch_request_17
from kio.schema.fetch.v17 import response as fetch_response_17
from kio.schema.fetch.v18 import request as fetch_request_18
from kio.schema.fetch.v18 import response as fetch_response_18
from kio.schema.produce.v10 import request as produce_request
from kio.schema.produce.v10 import response as produce_response

from clusters.candidates.reference.core import messages as core
from clusters.candidates.reference.server.configuration import NodeAddress
from clusters.candidates.reference.server.peer_messages import (
    TOPIC_NAME,
    Local,
    Refused,
    check_cluster,
    directory_uuid,
    only_partition,
    wire_leader,
)
from clusters.candidates.reference.server.record_batches import sparse_batch
from clusters.wire import batches, metadata_topic, reference_messages
from clusters.wire.primitives import BrokerId, Records, error, i16, i32, i64, in_milliseconds, milliseconds, u16
from clusters.wire.problems import WireError
from clusters.wire.reference_messages import LINEARIZABLE
from clusters.wire.reference_records import Command, decode_command

FetchRequest = fetch_request_17.FetchRequest | fetch_request_18.FetchRequest
_PARTITION = i32(metadata_topic.PARTITION)


def read_produce(message: produce_request.ProduceRequest, local: Local) -> core.AppendRequest:
    """Produce v10: the commands of its one batch."""
    del local
    if message.acks != -1:
        raise Refused(ErrorCode.invalid_required_acks)
    if message.transactional_id is not None or len(message.topic_data) != 1:
        raise Refused(ErrorCode.invalid_request)
    topic = message.topic_data[0]
    if len(topic.partition_data) != 1:
        raise Refused(ErrorCode.invalid_request)
    partition = topic.partition_data[0]
    if topic.name != TOPIC_NAME or partition.index != _PARTITION:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    try:
        found = batches.decode_batches(partition.records or b"")
        if len(found) != 1 or found[0].control:
            raise Refused(ErrorCode.invalid_request)
        commands = tuple(decode_command(each.value) for each in batches.records(found[0]))
    except WireError:
        raise Refused(ErrorCode.corrupt_message) from None
    return core.AppendRequest(commands, in_milliseconds(message.timeout))


def write_produce_answer(answer: core.AppendResponse) -> produce_response.ProduceResponse:
    """Produce v10."""
    partition = produce_response.PartitionProduceResponse(
        index=_PARTITION,
        error_code=error(answer.error),
        base_offset=i64(answer.base_offset),
        record_errors=(),
        current_leader=produce_response.LeaderIdAndEpoch(
            leader_id=wire_leader(answer.leader_id), leader_epoch=i32(answer.epoch)
        ),
    )
    topic = produce_response.TopicProduceResponse(name=TOPIC_NAME, partition_responses=(partition,))
    return produce_response.ProduceResponse(responses=(topic,))


def read_compare_and_set(message: reference_messages.CompareAndSetRequest, local: Local) -> core.AppendRequest:
    """CompareAndSet."""
    check_cluster(message.cluster_id, local)
    return core.AppendRequest((Command("cas", message.new, message.key, message.expected),), message.timeout_ms)


def write_compare_and_set_answer(answer: core.AppendResponse) -> reference_messages.CompareAndSetResponse:
    """CompareAndSet."""
    return reference_messages.CompareAndSetResponse(
        error_code=error(answer.error),
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=i32(answer.epoch),
        swapped=bool(answer.applied and answer.applied[0]),
        offset=i64(answer.base_offset),
    )


def read_read(message: reference_messages.ReadRequest, local: Local) -> core.ReadRequest:
    """Read."""
    check_cluster(message.cluster_id, local)
    return core.ReadRequest(message.timeout_ms, key=message.key, linearizable=message.consistency == LINEARIZABLE)


def write_read_answer(answer: core.ReadResponse) -> reference_messages.ReadResponse:
    """Read."""
    return reference_messages.ReadResponse(
        error_code=error(answer.error),
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=i32(answer.epoch),
        written=answer.value is not None,
        value=i64(answer.value or 0),
        applied_offset=i64(answer.applied_offset),
    )


def is_poll(message: FetchRequest) -> bool:
    """Whether a Fetch is a client's poll and not KRaft's own."""
    return (
        message.replica_state.replica_id < 0
        and len(message.topics) == 1
        and len(message.topics[0].partitions) == 1
        and message.topics[0].partitions[0].current_leader_epoch < 0
    )


def read_poll(message: FetchRequest, local: Local) -> core.ReadRequest:
    """Fetch as a poll."""
    check_cluster(message.cluster_id, local)
    asked = only_partition(message.topics, named=False)
    if asked.fetch_offset < 0:
        raise Refused(ErrorCode.offset_out_of_range)
    return core.ReadRequest(
        in_milliseconds(message.max_wait),
        from_offset=asked.fetch_offset,
        linearizable=message.isolation_level == LINEARIZABLE,
    )


def write_poll_answer(answer: core.ReadResponse, timestamp_ms: int, *, version: int) -> Any:
    """Fetch v17 or v18 as a poll."""
    wire: Any = fetch_response_17 if version == 17 else fetch_response_18
    partition = wire.PartitionData(
        partition_index=_PARTITION,
        error_code=error(answer.error),
        high_watermark=i64(answer.applied_offset),
        current_leader=wire.LeaderIdAndEpoch(leader_id=wire_leader(answer.leader_id), leader_epoch=i32(answer.epoch)),
        aborted_transactions=None,
        records=Records(sparse_batch(answer.entries, timestamp_ms)),
    )
    topic = wire.FetchableTopicResponse(topic_id=metadata_topic.TOPIC_ID, partitions=(partition,))
    return wire.FetchResponse(throttle_time=milliseconds(0), error_code=ErrorCode.none, responses=(topic,))


def read_describe_quorum(message: describe_request.DescribeQuorumRequest, local: Local) -> core.DescribeQuorumRequest:
    """DescribeQuorum v2."""
    del local
    only_partition(message.topics)
    return core.DescribeQuorumRequest()


def write_describe_quorum_answer(
    answer: core.DescribeQuorumResponse, nodes: tuple[NodeAddress, ...]
) -> describe_response.DescribeQuorumResponse:
    """DescribeQuorum v2; without error only from the leader."""
    partition = describe_response.PartitionData(
        partition_index=_PARTITION,
        error_code=error(answer.error),
        error_message=None,
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=i32(answer.epoch),
        high_watermark=i64(answer.high_watermark),
        current_voters=tuple(map(_replica_state, answer.voters)),
        observers=tuple(map(_replica_state, answer.observers)),
    )
    return describe_response.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message=None,
        topics=(describe_response.TopicData(topic_name=TOPIC_NAME, partitions=(partition,)),),
        nodes=tuple(
            describe_response.Node(
                node_id=BrokerId(each.node_id),
                listeners=(describe_response.Listener(name="CONTROLLER", host=each.host, port=u16(each.port)),),
            )
            for each in nodes
            if each.voter
        ),
    )


def _replica_state(progress: core.ReplicaProgress) -> describe_response.ReplicaState:
    return describe_response.ReplicaState(
        replica_id=BrokerId(progress.replica.node_id),
        replica_directory_id=directory_uuid(progress.replica.directory_id),
        log_end_offset=i64(progress.log_end_offset),
        last_fetch_timestamp=i64(progress.last_fetch_ms),
    )


def write_api_versions(version: int, supported: list[tuple[int, int, int]]) -> Any:
    """ApiVersions in version 3 or 4, or in version 0 with UNSUPPORTED_VERSION for every other."""
    wire: Any = {3: api_versions_3, 4: api_versions_4}.get(version, api_versions_0)
    keys = tuple(
        wire.ApiVersion(api_key=i16(api_key), min_version=i16(lowest), max_version=i16(highest))
        for api_key, lowest, highest in supported
    )
    if wire is api_versions_0:
        return wire.ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=keys)
    return wire.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=milliseconds(0))
