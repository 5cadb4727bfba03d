"""The requests of Kafka's controllers that the workloads use, and what their answers say. Bytes and messages; no socket.

Versions are the highest that every release from 3.6 on answers, but for BrokerRegistration: from metadata version 3.7 on a
registration must name a log directory, which version 1, the last of 3.6, cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.broker_registration.v1 import request as registration_v1
from kio.schema.broker_registration.v1.response import BrokerRegistrationResponse as RegistrationResponseV1
from kio.schema.broker_registration.v3 import request as registration_v3
from kio.schema.broker_registration.v3.response import BrokerRegistrationResponse as RegistrationResponseV3
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_quorum.v0 import request as describe_quorum
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.fetch.v15.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v15.response import FetchResponse
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, u16

from clusters.wire.batches import records, scan_batches
from clusters.wire.metadata_records import BROKER_RESOURCE, effect, register_key, register_name
from clusters.wire.metadata_topic import PARTITION, TOPIC_ID, TOPIC_NAME
from clusters.wire.problems import WireError

REGISTRATION_API_KEY = 62
PRODUCER_ID_BLOCK = 1000
_FETCH_MAX_BYTES = 8 * 1024 * 1024
_SET = 0
_FEATURE_MAX = 32767
_FEATURES = (
    "metadata.version",
    "kraft.version",
    "group.version",
    "transaction.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker id that the quorum knows, and the epoch under which it was registered."""

    broker_id: int
    broker_epoch: int


def describe_leader() -> describe_quorum.DescribeQuorumRequest:
    """Ask a controller for the quorum; only one that believes to lead answers without error."""
    partition = describe_quorum.PartitionData(partition_index=i32(PARTITION))
    topic = describe_quorum.TopicData(topic_name=TopicName(TOPIC_NAME), partitions=(partition,))
    return describe_quorum.DescribeQuorumRequest(topics=(topic,))


def claimed_epoch(answer: DescribeQuorumResponse) -> int | None:
    """The epoch that the asked controller claims to lead, None when it claims nothing (error answers name leader 0, epoch 0)."""
    if answer.error_code:
        return None
    for topic in answer.topics:
        for partition in topic.partitions:
            return None if partition.error_code else int(partition.leader_epoch)
    return None


def registration_version(answer: ApiVersionsResponse) -> int:
    """The version of BrokerRegistration to use: 3, or 1 where a controller knows no 3. Raises WireError when it knows neither."""
    for each in answer.api_keys:
        if int(each.api_key) == REGISTRATION_API_KEY:
            return 3 if int(each.max_version) >= 3 else 1
    raise WireError("the node registers no brokers")


def api_versions() -> ApiVersionsRequest:
    """Ask which versions of which requests a node answers."""
    return ApiVersionsRequest()


def register_broker(version: int, cluster_id: str, broker_id: int, incarnation: UUID) -> tuple[Any, type[Any]]:
    """The registration of a broker that is none, and the class of its answer (``error_code``, ``broker_epoch``).

    Its features span whatever the quorum has finalised; its listener is an address of the discard port that nobody asks.
    """
    schema: Any = registration_v3 if version >= 3 else registration_v1
    listener = schema.Listener(name="PLAINTEXT", host="127.0.0.1", port=u16(9), security_protocol=i16(0))
    lowest = {"metadata.version": 1}
    features = tuple(
        schema.Feature(
            name=name, min_supported_version=i16(lowest.get(name, 0)), max_supported_version=i16(_FEATURE_MAX)
        )
        for name in (_FEATURES if version >= 3 else _FEATURES[:1])
    )
    more = {"log_dirs": (incarnation,)} if version >= 3 else {}
    request = schema.BrokerRegistrationRequest(
        broker_id=BrokerId(broker_id),
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        listeners=(listener,),
        features=features,
        rack=None,
        **more,
    )
    return request, RegistrationResponseV3 if version >= 3 else RegistrationResponseV1


def allocate(broker: Broker) -> AllocateProducerIdsRequest:
    """Ask for the next block of producer ids."""
    return AllocateProducerIdsRequest(broker_id=BrokerId(broker.broker_id), broker_epoch=i64(broker.broker_epoch))


def set_register(key: int, value: int) -> alter_configs.IncrementalAlterConfigsRequest:
    """Set a configuration that is every broker's default. Kafka appends a record even when nothing changes (KAFKA-14136)."""
    config = alter_configs.AlterableConfig(name=register_name(key), config_operation=i8(_SET), value=str(value))
    resource = alter_configs.AlterConfigsResource(
        resource_type=i8(BROKER_RESOURCE), resource_name="", configs=(config,)
    )
    return alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def set_error(answer: IncrementalAlterConfigsResponse) -> int:
    """The error code of the one resource. Raises WireError for another number of them."""
    if len(answer.responses) != 1:
        raise WireError(f"{len(answer.responses)} resources were answered, one was asked")
    return int(answer.responses[0].error_code)


def get_register(key: int) -> DescribeConfigsRequest:
    """Read a configuration that is every broker's default."""
    resource = DescribeConfigsResource(
        resource_type=i8(BROKER_RESOURCE), resource_name="", configuration_keys=(register_name(key),)
    )
    return DescribeConfigsRequest(resources=(resource,))


def register_value(answer: DescribeConfigsResponse, key: int) -> tuple[int, int | None]:
    """(error code, value or None while it is unwritten). Raises WireError for an answer about something else."""
    if len(answer.results) != 1:
        raise WireError(f"{len(answer.results)} resources were answered, one was asked")
    result = answer.results[0]
    if result.error_code:
        return int(result.error_code), None
    for config in result.configs:
        if register_key(config.name) == key:
            if config.value is None or not config.value.lstrip("-").isdigit():
                raise WireError(f"register {key} holds {config.value!r}, which is no number")
            return 0, int(config.value)
    return 0, None


def fetch(position: int, epoch: int, cluster_id: str) -> FetchRequest:
    """Read the metadata log from an offset on, as nobody's replica. ``epoch`` is the leader's; an older or newer one is refused.

    The same epoch serves as that of the last fetched record: the log of that epoch reaches to the log end, so the position is
    valid wherever it lies below that end.
    """
    partition = FetchPartition(
        partition=i32(PARTITION),
        current_leader_epoch=i32(epoch),
        fetch_offset=i64(position),
        last_fetched_epoch=i32(epoch),
        log_start_offset=i64(-1),
        partition_max_bytes=i32(_FETCH_MAX_BYTES),
    )
    return FetchRequest(
        cluster_id=cluster_id,
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=i32(0),
        topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch brought: appended values with their offsets below the high watermark."""

    error_code: int
    appended: tuple[tuple[int, int], ...] = ()
    next_offset: int = 0
    """behind the last whole batch, at most the high watermark"""
    high_watermark: int = -1
    behind: bool = False
    """the position lies outside of the leader's log: there is nothing to read"""


def fetched(answer: FetchResponse, position: int) -> Fetched:
    """Read a Fetch answer. Raises WireError for batches that are none."""
    if answer.error_code:
        return Fetched(int(answer.error_code))
    partitions = [partition for topic in answer.responses for partition in topic.partitions]
    if len(partitions) != 1:
        raise WireError(f"{len(partitions)} partitions were answered, one was asked")
    partition = partitions[0]
    if partition.error_code:
        return Fetched(int(partition.error_code))
    high_watermark = int(partition.high_watermark)
    if int(partition.diverging_epoch.epoch) >= 0 or int(partition.snapshot_id.epoch) >= 0:
        return Fetched(0, (), position, high_watermark, behind=True)
    data = bytes(partition.records or b"")
    found, end = [], position
    for offset, value, next_offset in _values(data):
        if offset >= high_watermark:
            break
        end = next_offset
        if value is not None and offset >= position:
            found.append((offset, value))
    return Fetched(0, tuple(found), end, high_watermark)


def _values(data: bytes) -> Iterator[tuple[int, int | None, int]]:
    """(offset, appended value or None, offset behind) of every record."""
    scan = scan_batches(data)
    if scan.problem is not None and not scan.torn:
        raise WireError(scan.problem)
    for batch in scan.batches:
        for record in records(batch):
            done = None if batch.control or record.value is None else effect(record.value)
            yield record.offset, done.value if done is not None and done.f == "append" else None, record.offset + 1


__all__ = [
    "PRODUCER_ID_BLOCK",
    "Broker",
    "DescribeConfigsResponse",
    "DescribeQuorumResponse",
    "FetchResponse",
    "Fetched",
    "IncrementalAlterConfigsResponse",
    "allocate",
    "api_versions",
    "claimed_epoch",
    "describe_leader",
    "fetch",
    "fetched",
    "get_register",
    "register_broker",
    "register_value",
    "registration_version",
    "set_error",
    "set_register",
]
