"""Requests between replicas: the core's values ↔ Kafka's messages.

Vote v2, BeginQuorumEpoch v1, EndQuorumEpoch v1, Fetch v18 (v17 is understood, too) and the reference's own ReadOffset.
Directions: ``…_request`` and ``…_answer`` read what came, the others write what goes. A message of another shape raises Refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from kio.schema.begin_quorum_epoch.v1 import request as begin_request
from kio.schema.begin_quorum_epoch.v1 import response as begin_response
from kio.schema.end_quorum_epoch.v1 import request as end_request
from kio.schema.end_quorum_epoch.v1 import response as end_response
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as fetch_request_17
from kio.schema.fetch.v17 import response as fetch_response_17
from kio.schema.fetch.v18 import request as fetch_request_18
from kio.schema.fetch.v18 import response as fetch_response_18
from kio.schema.types import TopicName
from kio.schema.vote.v2 import request as vote_request
from kio.schema.vote.v2 import response as vote_response

from clusters.candidates.reference.core import messages as core
from clusters.candidates.reference.server.record_batches import core_batches, encoded
from clusters.evidence.identity import text_to_uuid, uuid_to_text
from clusters.wire import metadata_topic, reference_messages
from clusters.wire.primitives import BrokerId, Records, error, i8, i32, i64, in_milliseconds, milliseconds, u16
from clusters.wire.problems import WireError

TOPIC_NAME = TopicName(metadata_topic.TOPIC_NAME)
_PARTITION = i32(metadata_topic.PARTITION)
_UNTOLD = 2**63 - 1
"""Fetch v18: the high watermark of a replica that does not tell its own"""
_MAX_BYTES = i32(2**31 - 1)
_LISTENER = "CONTROLLER"


class Refused(Exception):
    """A request that is answered with an error without asking the core."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class Local:
    """What messages say of this node."""

    cluster_id: str
    node_id: int
    host: str
    port: int
    request_timeout_ms: int


@lru_cache(maxsize=1024)
def directory_uuid(text: str) -> UUID:
    """A directory id as it stands on the wire."""
    return text_to_uuid(text)


def key(node_id: int, directory_id: UUID | None) -> core.ReplicaKey:
    """A replica as it stands on the wire; one without a directory id has Kafka's zero."""
    return core.ReplicaKey(int(node_id), _directory_text(directory_id))


@lru_cache(maxsize=1024)
def _directory_text(directory_id: UUID | None) -> str:
    return uuid_to_text(directory_id or UUID(int=0))


def leader(node_id: int) -> int | None:
    """Kafka's −1 is nobody."""
    return None if node_id < 0 else int(node_id)


def wire_leader(leader_id: int | None) -> BrokerId:
    """Nobody is Kafka's −1."""
    return BrokerId(-1 if leader_id is None else leader_id)


def check_cluster(cluster_id: str | None, local: Local) -> None:
    """Refuse what is meant for another cluster; null means any."""
    if cluster_id is not None and cluster_id != local.cluster_id:
        raise Refused(ErrorCode.inconsistent_cluster_id)


def only_partition(topics: Sequence[Any], named: bool = True) -> Any:
    """The one partition of a request. Refuses another topic, another partition and more than one."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise Refused(ErrorCode.invalid_request)
    partition = topics[0].partitions[0]
    is_ours = topics[0].topic_name == TOPIC_NAME if named else topics[0].topic_id == metadata_topic.TOPIC_ID
    index = partition.partition if hasattr(partition, "partition") else partition.partition_index
    if not is_ours or index != _PARTITION:
        raise Refused(ErrorCode.unknown_topic_or_partition if named else ErrorCode.unknown_topic_id)
    return partition


# ------------------------------------------------------------------------------------------------- requests that come in


def read_vote(message: vote_request.VoteRequest, local: Local) -> core.VoteRequest:
    """Vote v2."""
    check_cluster(message.cluster_id, local)
    asked: vote_request.PartitionData = only_partition(message.topics)
    if asked.replica_epoch < 0 or asked.last_offset < 0 or asked.last_offset_epoch < 0:
        raise Refused(ErrorCode.invalid_request)
    return core.VoteRequest(
        epoch=asked.replica_epoch,
        replica=key(asked.replica_id, asked.replica_directory_id),
        voter=key(message.voter_id, asked.voter_directory_id),
        last_epoch=asked.last_offset_epoch,
        last_offset=asked.last_offset,
        pre_vote=asked.pre_vote,
    )


def read_begin(message: begin_request.BeginQuorumEpochRequest, local: Local) -> core.BeginQuorumEpochRequest:
    """BeginQuorumEpoch v1."""
    check_cluster(message.cluster_id, local)
    asked: begin_request.PartitionData = only_partition(message.topics)
    voter = key(message.voter_id, asked.voter_directory_id)
    return core.BeginQuorumEpochRequest(asked.leader_epoch, int(asked.leader_id), voter)


def read_end(message: end_request.EndQuorumEpochRequest, local: Local) -> core.EndQuorumEpochRequest:
    """EndQuorumEpoch v1."""
    check_cluster(message.cluster_id, local)
    asked: end_request.PartitionData = only_partition(message.topics)
    preferred = tuple(key(each.candidate_id, each.candidate_directory_id) for each in asked.preferred_candidates)
    return core.EndQuorumEpochRequest(asked.leader_epoch, int(asked.leader_id), preferred)


def read_fetch(
    message: fetch_request_17.FetchRequest | fetch_request_18.FetchRequest, local: Local
) -> core.FetchRequest:
    """Fetch v17 and v18 of a replica, or of a client that gives the leader's epoch."""
    check_cluster(message.cluster_id, local)
    asked: Any = only_partition(message.topics, named=False)
    replica_id = message.replica_state.replica_id
    told = getattr(asked, "high_watermark", _UNTOLD)
    return core.FetchRequest(
        epoch=asked.current_leader_epoch,
        replica=None if replica_id < 0 else key(replica_id, asked.replica_directory_id),
        fetch_offset=asked.fetch_offset,
        last_fetched_epoch=asked.last_fetched_epoch,
        max_wait_ms=in_milliseconds(message.max_wait),
        high_watermark=None if told == _UNTOLD else told,
    )


def read_read_offset(message: reference_messages.ReadOffsetRequest, local: Local) -> core.ReadOffsetRequest:
    """ReadOffset; the asking node waits as long as this one would."""
    check_cluster(message.cluster_id, local)
    only_partition(message.topics)
    return core.ReadOffsetRequest(local.request_timeout_ms)


# ------------------------------------------------------------------------------------------------------- answers that go


def write_vote_answer(answer: core.VoteResponse) -> vote_response.VoteResponse:
    """Vote v2."""
    partition = vote_response.PartitionData(
        partition_index=_PARTITION,
        error_code=error(answer.error),
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=i32(answer.epoch),
        vote_granted=answer.granted,
    )
    topic = vote_response.TopicData(topic_name=TOPIC_NAME, partitions=(partition,))
    return vote_response.VoteResponse(error_code=ErrorCode.none, topics=(topic,))


def write_begin_answer(answer: core.BeginQuorumEpochResponse) -> begin_response.BeginQuorumEpochResponse:
    """BeginQuorumEpoch v1."""
    partition = begin_response.PartitionData(
        partition_index=_PARTITION,
        error_code=error(answer.error),
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=i32(answer.epoch),
    )
    topic = begin_response.TopicData(topic_name=TOPIC_NAME, partitions=(partition,))
    return begin_response.BeginQuorumEpochResponse(error_code=ErrorCode.none, topics=(topic,))


def write_end_answer(answer: core.EndQuorumEpochResponse) -> end_response.EndQuorumEpochResponse:
    """EndQuorumEpoch v1."""
    partition = end_response.PartitionData(
        partition_index=_PARTITION,
        error_code=error(answer.error),
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=i32(answer.epoch),
    )
    topic = end_response.TopicData(topic_name=TOPIC_NAME, partitions=(partition,))
    return end_response.EndQuorumEpochResponse(error_code=ErrorCode.none, topics=(topic,))


def write_fetch_answer(answer: core.FetchResponse, timestamp_ms: int, *, version: int) -> Any:
    """Fetch v17 or v18."""
    wire: Any = fetch_response_17 if version == 17 else fetch_response_18
    records = b"".join(encoded(each, timestamp_ms) for each in answer.batches)
    partition = wire.PartitionData(
        partition_index=_PARTITION,
        error_code=error(answer.error),
        high_watermark=i64(answer.high_watermark),
        diverging_epoch=wire.EpochEndOffset()
        if answer.diverging is None
        else wire.EpochEndOffset(epoch=i32(answer.diverging.epoch), end_offset=i64(answer.diverging.end_offset)),
        current_leader=wire.LeaderIdAndEpoch(leader_id=wire_leader(answer.leader_id), leader_epoch=i32(answer.epoch)),
        aborted_transactions=None,
        records=Records(records),
    )
    topic = wire.FetchableTopicResponse(topic_id=metadata_topic.TOPIC_ID, partitions=(partition,))
    return wire.FetchResponse(throttle_time=milliseconds(0), error_code=ErrorCode.none, responses=(topic,))


def write_read_offset_answer(answer: core.ReadOffsetResponse, local: Local) -> reference_messages.ReadOffsetResponse:
    """ReadOffset."""
    return reference_messages.read_offset_response(
        local.cluster_id,
        error_code=error(answer.error),
        leader_id=wire_leader(answer.leader_id),
        leader_epoch=answer.epoch,
        applied_offset=answer.offset,
    )


# ------------------------------------------------------------------------------------------------------ requests that go


def write_request(request: core.PeerRequest, local: Local, wall_ms: int) -> Any:
    """The message of a request to a peer; :func:`answer_class` tells what it will answer with."""
    match request:
        case core.VoteRequest():
            return _write_vote(request, local)
        case core.BeginQuorumEpochRequest():
            begun = begin_request.PartitionData(
                partition_index=_PARTITION,
                voter_directory_id=directory_uuid(request.voter.directory_id),
                leader_id=BrokerId(request.leader_id),
                leader_epoch=i32(request.epoch),
            )
            endpoint = begin_request.LeaderEndpoint(name=_LISTENER, host=local.host, port=u16(local.port))
            return begin_request.BeginQuorumEpochRequest(
                cluster_id=local.cluster_id,
                voter_id=BrokerId(request.voter.node_id),
                topics=(begin_request.TopicData(topic_name=TOPIC_NAME, partitions=(begun,)),),
                leader_endpoints=(endpoint,),
            )
        case core.EndQuorumEpochRequest():
            return _write_end(request, local)
        case core.FetchRequest():
            return _write_fetch(request, local)
        case core.ReadOffsetRequest():
            return reference_messages.read_offset_request(local.cluster_id, wall_ms)


def _write_vote(request: core.VoteRequest, local: Local) -> vote_request.VoteRequest:
    asked = vote_request.PartitionData(
        partition_index=_PARTITION,
        replica_epoch=i32(request.epoch),
        replica_id=BrokerId(request.replica.node_id),
        replica_directory_id=directory_uuid(request.replica.directory_id),
        voter_directory_id=directory_uuid(request.voter.directory_id),
        last_offset_epoch=i32(request.last_epoch),
        last_offset=i64(request.last_offset),
        pre_vote=request.pre_vote,
    )
    return vote_request.VoteRequest(
        cluster_id=local.cluster_id,
        voter_id=BrokerId(request.voter.node_id),
        topics=(vote_request.TopicData(topic_name=TOPIC_NAME, partitions=(asked,)),),
    )


def _write_end(request: core.EndQuorumEpochRequest, local: Local) -> end_request.EndQuorumEpochRequest:
    ended = end_request.PartitionData(
        partition_index=_PARTITION,
        leader_id=BrokerId(request.leader_id),
        leader_epoch=i32(request.epoch),
        preferred_candidates=tuple(
            end_request.ReplicaInfo(
                candidate_id=BrokerId(each.node_id), candidate_directory_id=directory_uuid(each.directory_id)
            )
            for each in request.preferred
        ),
    )
    endpoint = end_request.LeaderEndpoint(name=_LISTENER, host=local.host, port=u16(local.port))
    return end_request.EndQuorumEpochRequest(
        cluster_id=local.cluster_id,
        topics=(end_request.TopicData(topic_name=TOPIC_NAME, partitions=(ended,)),),
        leader_endpoints=(endpoint,),
    )


def _write_fetch(request: core.FetchRequest, local: Local) -> fetch_request_18.FetchRequest:
    asked = fetch_request_18.FetchPartition(
        partition=_PARTITION,
        current_leader_epoch=i32(request.epoch),
        fetch_offset=i64(request.fetch_offset),
        last_fetched_epoch=i32(request.last_fetched_epoch),
        partition_max_bytes=_MAX_BYTES,
        replica_directory_id=None if request.replica is None else directory_uuid(request.replica.directory_id),
        high_watermark=i64(_UNTOLD if request.high_watermark is None else request.high_watermark),
    )
    return fetch_request_18.FetchRequest(
        cluster_id=local.cluster_id,
        replica_state=fetch_request_18.ReplicaState(
            replica_id=BrokerId(-1 if request.replica is None else request.replica.node_id)
        ),
        max_wait=milliseconds(request.max_wait_ms),
        min_bytes=i32(0),
        isolation_level=i8(0),
        topics=(fetch_request_18.FetchTopic(topic_id=metadata_topic.TOPIC_ID, partitions=(asked,)),),
        forgotten_topics_data=(),
    )


# ------------------------------------------------------------------------------------------------- answers that come in

_ANSWERS: dict[type[Any], type[Any]] = {
    core.VoteRequest: vote_response.VoteResponse,
    core.BeginQuorumEpochRequest: begin_response.BeginQuorumEpochResponse,
    core.EndQuorumEpochRequest: end_response.EndQuorumEpochResponse,
    core.FetchRequest: fetch_response_18.FetchResponse,
    core.ReadOffsetRequest: reference_messages.ReadOffsetResponse,
}


def answer_class(request: core.PeerRequest) -> type[Any]:
    """The class of the message that answers a request."""
    return _ANSWERS[type(request)]


def read_answer(message: Any) -> core.PeerResponse:
    """Read what a peer answered. Raises WireError for another shape, and for errors that say nothing about the protocol."""
    if message.error_code != ErrorCode.none:
        raise WireError(f"a peer answered {message.error_code.name}")
    topics = message.responses if isinstance(message, fetch_response_18.FetchResponse) else message.topics
    try:
        answer = only_partition(topics, named=not isinstance(message, fetch_response_18.FetchResponse))
        code = core.Error(int(answer.error_code))
    except (Refused, ValueError) as problem:
        raise WireError(f"a peer's {type(message).__name__} cannot be used: {problem}") from problem
    if isinstance(message, vote_response.VoteResponse):
        return core.VoteResponse(code, answer.leader_epoch, leader(answer.leader_id), answer.vote_granted)
    if isinstance(message, begin_response.BeginQuorumEpochResponse):
        return core.BeginQuorumEpochResponse(code, answer.leader_epoch, leader(answer.leader_id))
    if isinstance(message, end_response.EndQuorumEpochResponse):
        return core.EndQuorumEpochResponse(code, answer.leader_epoch, leader(answer.leader_id))
    if isinstance(message, fetch_response_18.FetchResponse):
        return _read_fetch_answer(answer, code)
    return core.ReadOffsetResponse(code, answer.leader_epoch, leader(answer.leader_id), answer.applied_offset)


def _read_fetch_answer(answer: fetch_response_18.PartitionData, code: core.Error) -> core.FetchResponse:
    diverging = answer.diverging_epoch
    return core.FetchResponse(
        error=code,
        epoch=answer.current_leader.leader_epoch,
        leader_id=leader(answer.current_leader.leader_id),
        high_watermark=answer.high_watermark,
        batches=core_batches(answer.records),
        diverging=None if diverging.end_offset < 0 else core.EpochEnd(diverging.epoch, diverging.end_offset),
    )
