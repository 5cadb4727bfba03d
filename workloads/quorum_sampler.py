"""Asks every node, again and again, how it sees the quorum (DescribeQuorum): evidence, and the answer to "who leads now?".

Each node has a task, a connection and a timeout of its own, so that one that does not answer delays nobody. DescribeQuorum
is answered by a leader, from what it believes: an isolated one goes on claiming until it resigns, which is what the samples
are for. An answer with an error is no claim, whatever leader it names (Kafka's followers say leader 0, epoch 0).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.describe_quorum.v1 import request as request_v1
from kio.schema.describe_quorum.v1 import response as response_v1
from kio.schema.describe_quorum.v2 import request as request_v2
from kio.schema.describe_quorum.v2 import response as response_v2
from kio.schema.types import TopicName
from kio.static.primitive import i32

from clusters.evidence.identity import node_name, uuid_to_text
from clusters.wire.errors import error_name
from clusters.wire.metadata_topic import PARTITION, TOPIC_NAME
from workloads.clients.client import Connect
from workloads.clients.connection import Connection, Unanswered, Unsent
from workloads.clients.deadlines import Deadlines
from workloads.recorder import Clock

INTERVAL_S = 0.15
TIMEOUT_S = 0.5
FRESH_S = 1.0
"""for how long a claim of leadership counts after it was made"""

_DESCRIBE_QUORUM = 55
_CLIENT_ID = "sampler"
_REQUESTS: dict[int, Any] = {1: request_v1, 2: request_v2}
_RESPONSES: dict[int, Any] = {1: response_v1.DescribeQuorumResponse, 2: response_v2.DescribeQuorumResponse}

Row = dict[str, Any]
_Request = request_v1.DescribeQuorumRequest | request_v2.DescribeQuorumRequest
_Response = response_v1.DescribeQuorumResponse | response_v2.DescribeQuorumResponse


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last things that one node said."""

    answered_ns: int | None = None
    """when it last answered at all, with an error or without"""
    claim_epoch: int | None = None
    """of its last answer, None when that claimed nothing"""
    claim_ns: int = 0
    """when that answer was *asked* for: it led at some moment after"""
    voters: tuple[str, ...] = ()
    """as the claim listed them"""


class QuorumSampler:
    """Samples all nodes while :meth:`run` runs. ``record`` gets each row of ``quorum_samples``."""

    def __init__(
        self,
        connect: Connect,
        nodes: tuple[str, ...],
        now_ns: Clock,
        record: Callable[[Row], None],
        *,
        interval_s: float = INTERVAL_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._connect = connect
        self._nodes = nodes
        self._record = record
        self._now_ns = now_ns
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._deadlines = Deadlines()
        self._versions: dict[str, int] = {}
        self._seen = {node: _Seen() for node in nodes}

    async def run(self) -> None:
        """Ask until cancelled. Raises what a sampling task died of, which is a fault of the framework."""
        async with asyncio.TaskGroup() as group:
            for node in self._nodes:
                group.create_task(self._sample(node), name=f"sample {node}")

    def current_leader(self) -> tuple[str, int] | None:
        """Return the fresh claim of leadership with the highest epoch, (node, epoch); None when there is none."""
        oldest_ns = self._now_ns() - int(FRESH_S * 1e9)
        claims = [
            (seen.claim_epoch, node)
            for node, seen in self._seen.items()
            if seen.claim_epoch is not None and seen.claim_ns >= oldest_ns
        ]
        if not claims:
            return None
        epoch, node = max(claims)
        return node, epoch

    def voters(self) -> frozenset[str]:
        """Return the voters (``n1/<directory id>``, before DescribeQuorum v2 ``n1``) that the current leader lists; empty without one."""
        known = self.current_leader()
        return frozenset(self._seen[known[0]].voters) if known is not None else frozenset()

    def last_answer_ns(self, node: str) -> int | None:
        """Return when the node last answered at all; None when it never did."""
        return self._seen[node].answered_ns

    async def _sample(self, node: str) -> None:
        loop = asyncio.get_running_loop()
        connection = Connection(self._connect, node, self._deadlines, _CLIENT_ID)
        due_s = loop.time()
        try:
            while True:
                self._keep(node, await self._ask(connection))
                due_s = max(due_s + self._interval_s, loop.time())
                await asyncio.sleep(due_s - loop.time())
        finally:
            connection.drop()

    async def _ask(self, connection: Connection) -> Row:
        node = connection.node
        asked_ns = self._now_ns()
        try:
            version = self._versions.get(node)
            if version is None:
                answer = await connection.request(ApiVersionsRequest(), ApiVersionsResponse, self._timeout_s)
                version = self._versions[node] = _version(answer)
                asked_ns = self._now_ns()
            quorum: _Response = await connection.request(_request(version), _RESPONSES[version], self._timeout_s)
        except (Unsent, Unanswered) as error:
            return _row(node, asked_ns, self._now_ns(), error.trouble.value)
        return read_answer(node, asked_ns, self._now_ns(), quorum)

    def _keep(self, node: str, row: Row) -> None:
        self._record(row)
        seen = self._seen[node]
        answered = row["error"] is None or row["error"].isupper()
        self._seen[node] = _Seen(
            answered_ns=row["ts_ns"] if answered else seen.answered_ns,
            claim_epoch=row["epoch"] if row["claims_leadership"] else None,
            claim_ns=row["asked_ns"],
            voters=tuple(row["voters"]) if row["claims_leadership"] else (),
        )


def read_answer(node: str, asked_ns: int, ts_ns: int, answer: _Response) -> Row:
    """Make a row of ``quorum_samples`` of an answer, version 1 or 2."""
    if answer.error_code:
        return _row(node, asked_ns, ts_ns, error_name(answer.error_code))
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        return _row(node, asked_ns, ts_ns, "MALFORMED")
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        return _row(node, asked_ns, ts_ns, error_name(partition.error_code))
    leader = node_name(partition.leader_id) if partition.leader_id >= 0 else None
    replicas = (*partition.current_voters, *partition.observers)
    return {
        **_row(node, asked_ns, ts_ns, None),
        "claims_leadership": leader == node,
        "leader": leader,
        "epoch": int(partition.leader_epoch),
        "high_watermark": int(partition.high_watermark) if partition.high_watermark >= 0 else None,
        "voters": [_identity(replica) for replica in partition.current_voters],
        "observers": [_identity(replica) for replica in partition.observers],
        "log_end_offsets": [int(replica.log_end_offset) for replica in replicas],
    }


def _row(node: str, asked_ns: int, ts_ns: int, error: str | None) -> Row:
    return {"node": node, "asked_ns": asked_ns, "ts_ns": ts_ns, "error": error, "claims_leadership": False}


def _identity(replica: response_v1.ReplicaState | response_v2.ReplicaState) -> str:
    name = node_name(replica.replica_id)
    directory_id = getattr(replica, "replica_directory_id", None)
    return f"{name}/{uuid_to_text(directory_id)}" if directory_id is not None else name


def _version(answer: ApiVersionsResponse) -> int:
    """Return the highest version of DescribeQuorum that the node and this sampler know: 2 tells directory ids (Kafka 3.9)."""
    highest = max((int(api.max_version) for api in answer.api_keys if api.api_key == _DESCRIBE_QUORUM), default=1)
    return max(version for version in _REQUESTS if version <= max(highest, 1))


def _request(version: int) -> _Request:
    module = _REQUESTS[version]
    topic = module.TopicData(
        topic_name=TopicName(TOPIC_NAME), partitions=(module.PartitionData(partition_index=i32(PARTITION)),)
    )
    request: _Request = module.DescribeQuorumRequest(topics=(topic,))
    return request
