"""What an operator who asks every node again and again would see of the quorum: rows of ``quorum_samples``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from clusters.evidence.identity import node_name, uuid_to_text
from clusters.wire import metadata_topic
from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import decode_response, encode_request

_PARTITION = PartitionData(partition_index=i32(metadata_topic.PARTITION))
REQUEST = encode_request(
    DescribeQuorumRequest(
        topics=(TopicData(topic_name=TopicName(metadata_topic.TOPIC_NAME), partitions=(_PARTITION,)),)
    ),
    1,
    "script",
)


@dataclass(slots=True, eq=False)
class Sample:
    """One node is asked once; ``add`` takes the row. Also the handler of its connection."""

    node: str
    asked_ns: int
    now_ns: Callable[[], int]
    add: Callable[[dict[str, Any]], None]
    _splitter: FrameSplitter = field(default_factory=FrameSplitter)

    def received(self, data: bytes) -> None:
        """The answer."""
        for payload in self._splitter.feed(data):
            self.add(self._row(decode_response(DescribeQuorumResponse, payload)[1]))

    def closed(self) -> None:
        """The node is gone: there is nothing to tell."""

    def _row(self, response: DescribeQuorumResponse) -> dict[str, Any]:
        answer = response.topics[0].partitions[0]
        claims = response.error_code is ErrorCode.none and answer.error_code is ErrorCode.none
        everyone = (*answer.current_voters, *answer.observers)
        return {
            "ts_ns": self.now_ns(),
            "node": self.node,
            "asked_ns": self.asked_ns,
            "error": None if claims else answer.error_code.name.upper(),
            "claims_leadership": claims,
            "leader": node_name(answer.leader_id) if answer.leader_id >= 0 else None,
            "epoch": int(answer.leader_epoch),
            "high_watermark": int(answer.high_watermark) if answer.high_watermark >= 0 else None,
            "voters": [_replica(each) for each in answer.current_voters],
            "observers": [_replica(each) for each in answer.observers],
            "log_end_offsets": [int(each.log_end_offset) for each in everyone],
        }


def _replica(state: Any) -> str:
    return f"{node_name(state.replica_id)}/{uuid_to_text(state.replica_directory_id)}"
