"""A connection between two nodes as both their captures see it, and the frames that it carries, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as fetch_request
from kio.schema.fetch.v17 import response as fetch_response
from kio.schema.vote.v2 import request as vote_request
from kio.schema.vote.v2 import response as vote_response

from clusters.collect.rpcs.packets import ACK, FIN, SYN, Segment
from clusters.wire import metadata_topic
from clusters.wire.messages import encode_request, encode_response

PORT = 9093
ADDRESSES = {"n1": b"\x0a\x4d\0\x01", "n2": b"\x0a\x4d\0\x02"}
NAMES = {address: node for node, address in ADDRESSES.items()}
DISK = UUID(int=7)
MS = 1_000_000


def vote(correlation: int, *, epoch: int = 5, pre_vote: bool = False) -> bytes:
    asked = vote_request.PartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=1,
        replica_directory_id=DISK,
        voter_directory_id=UUID(int=8),
        last_offset_epoch=4,
        last_offset=90,
        pre_vote=pre_vote,
    )
    topic = vote_request.TopicData(topic_name="__cluster_metadata", partitions=(asked,))
    return encode_request(vote_request.VoteRequest(cluster_id="c", voter_id=2, topics=(topic,)), correlation, "raft-1")


def voted(correlation: int, *, epoch: int = 5, granted: bool = True) -> bytes:
    answer = vote_response.PartitionData(
        partition_index=0, error_code=ErrorCode.none, leader_id=-1, leader_epoch=epoch, vote_granted=granted
    )
    topic = vote_response.TopicData(topic_name="__cluster_metadata", partitions=(answer,))
    return encode_response(vote_response.VoteResponse(error_code=ErrorCode.none, topics=(topic,)), correlation)


def fetch(correlation: int, offset: int) -> bytes:
    asked = fetch_request.FetchPartition(
        partition=0,
        current_leader_epoch=5,
        fetch_offset=offset,
        last_fetched_epoch=4,
        partition_max_bytes=1 << 20,
        replica_directory_id=DISK,
    )
    topic = fetch_request.FetchTopic(topic_id=metadata_topic.TOPIC_ID, partitions=(asked,))
    message = fetch_request.FetchRequest(
        cluster_id="c",
        replica_state=fetch_request.ReplicaState(replica_id=1),
        max_wait=_no_wait(),
        min_bytes=0,
        isolation_level=0,
        topics=(topic,),
        forgotten_topics_data=(),
    )
    return encode_request(message, correlation, "n1")


def _no_wait() -> Any:

    return timedelta(0)


def fetched(correlation: int, high_watermark: int, records: bytes = b"", diverging: int | None = None) -> bytes:
    partition = fetch_response.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=high_watermark,
        diverging_epoch=fetch_response.EpochEndOffset()
        if diverging is None
        else fetch_response.EpochEndOffset(epoch=3, end_offset=diverging),
        current_leader=fetch_response.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        aborted_transactions=None,
        records=records,
    )
    topic = fetch_response.FetchableTopicResponse(topic_id=metadata_topic.TOPIC_ID, partitions=(partition,))
    message = fetch_response.FetchResponse(throttle_time=_no_wait(), error_code=ErrorCode.none, responses=(topic,))
    return encode_response(message, correlation)


@dataclass
class Wire:
    """A TCP connection from n1 to n2's listener, as both captures would see it on a wire without a fault."""

    port: int = 40001
    isn: tuple[int, int] = (1000, 4_294_967_290)

    def __post_init__(self) -> None:
        self.seen: dict[str, list[Segment]] = {"n1": [], "n2": []}
        self.next = [self.isn[0], self.isn[1]]
        self.now_ns = 0

    def _segment(self, forth: bool, payload: bytes, flags: int) -> Segment:
        mine, other = (0, 1) if forth else (1, 0)
        ends = (ADDRESSES["n1"], ADDRESSES["n2"]) if forth else (ADDRESSES["n2"], ADDRESSES["n1"])
        ports = (self.port, PORT) if forth else (PORT, self.port)
        return Segment(self.now_ns, *ends, *ports, self.next[mine], self.next[other], flags, payload)

    def send(self, forth: bool, payload: bytes = b"", flags: int = ACK, seen: Sequence[str] = ("n1", "n2")) -> Segment:
        """One segment, seen by its sender now and by its receiver a millisecond later."""
        segment = self._segment(forth, payload, flags)
        sender, receiver = ("n1", "n2") if forth else ("n2", "n1")
        if sender in seen:
            self.seen[sender].append(segment)
        self.now_ns += MS
        if receiver in seen:
            self.seen[receiver].append(replace(segment, ts_ns=self.now_ns))
        self.next[0 if forth else 1] = (segment.seq + len(payload) + bool(flags & (SYN | FIN))) % (1 << 32)
        return segment

    def open(self) -> Wire:
        self.send(True, flags=SYN)
        self.send(False, flags=SYN | ACK)
        self.send(True)
        return self

    def say(self, forth: bool, frame: bytes) -> None:
        """A message in one segment, and the bare acknowledgement of it."""
        self.send(forth, frame)
        self.send(not forth)
