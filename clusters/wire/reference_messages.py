"""The reference candidate's wire protocol for clients: its own three messages, and how it uses Produce and Fetch.

Framing and headers are Kafka's (request header v2, response header v1); api keys lie outside of Kafka's range. All three are
version 0 and flexible. Errors are Kafka's codes; ``leader_id`` and ``leader_epoch`` are the answering node's knowledge (−1 where
it knows no leader), so that the next operation can be sent there.

**What an error means for a write** (Produce, CompareAndSet). Nothing was appended and nothing will be: ``CORRUPT_MESSAGE`` (2),
``UNKNOWN_TOPIC_OR_PARTITION`` (3), ``NOT_LEADER_OR_FOLLOWER`` (6), ``BROKER_NOT_AVAILABLE`` (8: closing, or too many requests pending),
``INVALID_REQUEST`` (42), ``INCONSISTENT_CLUSTER_ID`` (104). Unknown, it may take effect at any time: ``REQUEST_TIMED_OUT`` (7),
``NOT_ENOUGH_REPLICAS_AFTER_APPEND`` (20: appended, then the leadership was lost) and every other code. Reads have no effect
whatever they answer; theirs may also be ``LEADER_NOT_AVAILABLE`` (5: no leader is known to ask).

Read (10650), answered by any node: leader, follower or observer (KIP-650's non-leader linearizable read).

=========================== ======= ===========================================================================
request                     type    about
=========================== ======= ===========================================================================
ClusterId                   string? null: any cluster
Key                         int64   the register
Consistency                 int8    1 linearizable; 0 stale: the node's applied state, answered at once
Timeout                     int32   milliseconds after which the node gives up with REQUEST_TIMED_OUT
=========================== ======= ===========================================================================

=========================== ======= ===========================================================================
response                    type    about
=========================== ======= ===========================================================================
ErrorCode                   int16   see above
LeaderId, LeaderEpoch       int32
Written                     bool    false: the register was never written, Value means nothing
Value                       int64
AppliedOffset               int64   applied end offset (exclusive) of the state that answered
=========================== ======= ===========================================================================

CompareAndSet (10651), answered by the leader after its record is committed and applied.

=========================== ======= ===========================================================================
request                     type    about
=========================== ======= ===========================================================================
ClusterId                   string?
Key, Expected, New          int64   set ``New`` if the register holds ``Expected``; an unwritten one never does
Timeout                     int32   milliseconds
=========================== ======= ===========================================================================

=========================== ======= ===========================================================================
response                    type    about
=========================== ======= ===========================================================================
ErrorCode                   int16
LeaderId, LeaderEpoch       int32
Swapped                     bool    false without error: the register held something else (the operation failed)
Offset                      int64   of the record; −1 with an error
=========================== ======= ===========================================================================

ReadOffset (10652), sent by followers and observers to the leader. The fields are those of KIP-650 (seed 001, R650-23 … 25) with
the error and the leader added to each partition (X650-4). The leader answers its applied offset, exclusive, after it has committed
an entry of its own epoch (X650-2) and after a majority has confirmed it since the request came (X650-1).

=========================== ======= ===========================================================================
request                     type    about
=========================== ======= ===========================================================================
ClusterId                   string?
ReadTimestamp               int64   milliseconds of the asking node's clock, for display only
Topics, TopicName           string  ``__cluster_metadata``
Partitions, PartitionIndex  int32   0
=========================== ======= ===========================================================================

=========================== ======= ===========================================================================
response                    type    about
=========================== ======= ===========================================================================
ErrorCode                   int16
ClusterId                   string?
Topics, TopicName           string
Partitions, PartitionIndex  int32
… ErrorCode                 int16   0, or why there is no offset
… LeaderId, LeaderEpoch     int32
… AppliedOffset             int64   −1 with an error
=========================== ======= ===========================================================================

**Produce v10** appends: one topic ``__cluster_metadata``, partition 0, acks −1, one batch whose records are commands of
:mod:`clusters.wire.reference_records` (write, append). The answer comes when the last record is committed and applied, with the
offset of the first. ``current_leader`` names the leader beside an error. See :func:`produce` and :func:`produced`.

**Fetch v17** with replica id −1 and ``current_leader_epoch`` −1 polls, at any node: the committed append records from ``fetch_offset`` up
to the high watermark of the answer, which is where the next poll goes on (it is lower than the log's when the answer was cut off by
its size). ``isolation_level`` 1 is linearizable, as Read is; 0 is stale: what this node has applied. ``max_wait`` is the timeout.
The records come as one batch of epoch −1 whose offsets have gaps where the log holds something else. See :func:`poll`, :func:`polled`.
With a ``current_leader_epoch`` it is KRaft's own Fetch, answered by the leader alone, from its log, at once, for clients cut at the
high watermark, for replicas not.
"""

# The annotations are read as types by the codec: they must not become strings.
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.produce.v10.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v10.response import ProduceResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64

from clusters.wire import batches, metadata_topic, primitives
from clusters.wire.problems import WireError
from clusters.wire.reference_records import Command, decode_command, encode_command

READ = 10650
COMPARE_AND_SET = 10651
READ_OFFSET = 10652

STALE = 0
LINEARIZABLE = 1
"""values of ``consistency`` in Read and of ``isolation_level`` in Fetch"""

_MAX_FETCH_BYTES = 8 * 1024 * 1024
_VERSION = i16(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Read one register."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(READ)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    key: i64 = field(metadata={"kafka_type": "int64"})
    consistency: i8 = field(metadata={"kafka_type": "int8"}, default=i8(LINEARIZABLE))
    timeout_ms: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResponse:
    """The value of one register."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(READ)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    leader_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    written: bool = field(metadata={"kafka_type": "bool"}, default=False)
    value: i64 = field(metadata={"kafka_type": "int64"}, default=i64(0))
    applied_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAndSetRequest:
    """Set one register if it holds what is expected."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(COMPARE_AND_SET)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    key: i64 = field(metadata={"kafka_type": "int64"})
    expected: i64 = field(metadata={"kafka_type": "int64"})
    new: i64 = field(metadata={"kafka_type": "int64"})
    timeout_ms: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAndSetResponse:
    """Whether it was set."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(COMPARE_AND_SET)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    leader_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    swapped: bool = field(metadata={"kafka_type": "bool"}, default=False)
    offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsetRequestPartition:
    """A partition of a ReadOffset request."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    partition_index: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsetRequestTopic:
    """A topic of a ReadOffset request."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[ReadOffsetRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsetRequest:
    """Ask the leader which applied offset a linearizable read must wait for."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(READ_OFFSET)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    read_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    topics: tuple[ReadOffsetRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsetResponsePartition:
    """A partition of a ReadOffset response."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    leader_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    applied_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsetResponseTopic:
    """A topic of a ReadOffset response."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[ReadOffsetResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsetResponse:
    """The leader's applied offset, or why there is none."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(READ_OFFSET)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"}, default=ErrorCode.none)
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    topics: tuple[ReadOffsetResponseTopic, ...]


@dataclass(frozen=True, slots=True)
class Produced:
    """What a Produce answer says."""

    error_code: ErrorCode
    base_offset: int
    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Polled:
    """What a Fetch answer says: (offset, value) of each committed append, in order."""

    error_code: ErrorCode
    high_watermark: int
    """exclusive; where the next poll goes on"""
    leader_id: int
    leader_epoch: int
    appended: tuple[tuple[int, int], ...] = ()


def produce(commands: Iterable[Command], *, timestamp_ms: int, timeout_ms: int) -> ProduceRequest:
    """The request that appends commands as one batch."""
    written = [
        batches.Record(offset, timestamp_ms, None, encode_command(command)) for offset, command in enumerate(commands)
    ]
    partition = PartitionProduceData(
        index=primitives.i32(metadata_topic.PARTITION),
        records=primitives.Records(batches.encode_batch(written, epoch=-1)),
    )
    topic = TopicProduceData(name=_TOPIC_NAME, partition_data=(partition,))
    return ProduceRequest(acks=primitives.i16(-1), timeout=primitives.milliseconds(timeout_ms), topic_data=(topic,))


def produced(response: ProduceResponse) -> Produced:
    """Read the answer of :func:`produce`. Raises WireError when it has another shape."""
    if len(response.responses) != 1 or len(response.responses[0].partition_responses) != 1:
        raise WireError("a Produce answer has not exactly one partition")
    answer = response.responses[0].partition_responses[0]
    leader = answer.current_leader
    return Produced(answer.error_code, answer.base_offset, leader.leader_id, leader.leader_epoch)


def poll(from_offset: int, *, timeout_ms: int, stale: bool = False) -> FetchRequest:
    """The request that reads committed records from an offset on."""
    partition = FetchPartition(
        partition=primitives.i32(metadata_topic.PARTITION),
        fetch_offset=primitives.i64(from_offset),
        partition_max_bytes=primitives.i32(_MAX_FETCH_BYTES),
    )
    return FetchRequest(
        max_wait=primitives.milliseconds(timeout_ms),
        min_bytes=primitives.i32(0),
        max_bytes=primitives.i32(_MAX_FETCH_BYTES),
        isolation_level=primitives.i8(STALE if stale else LINEARIZABLE),
        topics=(FetchTopic(topic_id=metadata_topic.TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def polled(response: FetchResponse, from_offset: int) -> Polled:
    """Read the answer of :func:`poll`. Raises WireError when it has another shape or holds what is no command."""
    if response.error_code != ErrorCode.none and not response.responses:
        return Polled(response.error_code, -1, -1, -1)
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        raise WireError("a Fetch answer has not exactly one partition")
    answer = response.responses[0].partitions[0]
    leader = answer.current_leader
    appended = []
    for batch in batches.decode_batches(answer.records or b""):
        for record in batches.records(batch):
            command = decode_command(record.value)
            if not from_offset <= record.offset < answer.high_watermark or command.f != "append":
                raise WireError(
                    f"a Fetch answer holds {command.f} at offset {record.offset}, outside of what was asked"
                )
            appended.append((record.offset, command.value))
    return Polled(answer.error_code, answer.high_watermark, leader.leader_id, leader.leader_epoch, tuple(appended))


def read_offset_request(cluster_id: str, read_timestamp_ms: int) -> ReadOffsetRequest:
    """The request for the metadata partition."""
    partition = ReadOffsetRequestPartition(partition_index=primitives.i32(metadata_topic.PARTITION))
    topic = ReadOffsetRequestTopic(topic_name=_TOPIC_NAME, partitions=(partition,))
    return ReadOffsetRequest(cluster_id=cluster_id, read_timestamp=primitives.i64(read_timestamp_ms), topics=(topic,))


def read_offset_response(
    cluster_id: str, *, error_code: ErrorCode, leader_id: int, leader_epoch: int, applied_offset: int
) -> ReadOffsetResponse:
    """The answer for the metadata partition."""
    partition = ReadOffsetResponsePartition(
        partition_index=primitives.i32(metadata_topic.PARTITION),
        error_code=error_code,
        leader_id=primitives.BrokerId(leader_id),
        leader_epoch=primitives.i32(leader_epoch),
        applied_offset=primitives.i64(applied_offset),
    )
    topic = ReadOffsetResponseTopic(topic_name=_TOPIC_NAME, partitions=(partition,))
    return ReadOffsetResponse(cluster_id=cluster_id, topics=(topic,))


_TOPIC_NAME = TopicName(metadata_topic.TOPIC_NAME)
