"""Samples of the quorum: what counts as a claim, who leads, and that a silent node delays nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.describe_quorum.v1 import response as v1
from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest as RequestV1
from kio.schema.describe_quorum.v2 import response as v2
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest as RequestV2
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i64

from clusters.evidence.identity import uuid_to_text
from clusters.wire.messages import RequestTable
from clusters.wire.metadata_topic import TOPIC_NAME
from tests.workloads.wire_server import SILENCE, WireServer, serving
from workloads.journal import check_row
from workloads.quorum_sampler import QuorumSampler, Row, read_answer

NODES = ("n1", "n2", "n3")
TABLE = RequestTable([ApiVersionsRequest, RequestV1, RequestV2])
DISK = UUID(int=99)


def versions(highest: int) -> ApiVersionsResponse:
    supported = ApiVersion(api_key=i16(55), min_version=i16(0), max_version=i16(highest))
    return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(supported,))


def quorum(
    leader: int, epoch: int, *, code: ErrorCode = ErrorCode.none, high_watermark: int = 40
) -> v2.DescribeQuorumResponse:
    voters = tuple(
        v2.ReplicaState(replica_id=BrokerId(each), replica_directory_id=DISK, log_end_offset=i64(40 + each))
        for each in (1, 2, 3)
    )
    observer = v2.ReplicaState(replica_id=BrokerId(4), replica_directory_id=None, log_end_offset=i64(-1))
    partition = v2.PartitionData(
        partition_index=i32(0),
        error_code=code,
        error_message=None,
        leader_id=BrokerId(leader),
        leader_epoch=i32(epoch),
        high_watermark=i64(high_watermark),
        current_voters=voters,
        observers=(observer,),
    )
    topic = v2.TopicData(topic_name=TopicName(TOPIC_NAME), partitions=(partition,))
    return v2.DescribeQuorumResponse(error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=())


NOT_LEADER = quorum(0, 0, code=ErrorCode.not_leader_or_follower)


def test_a_leaders_answer_is_a_row_with_identities_and_ends() -> None:
    row = read_answer("n2", 5, 9, quorum(2, 7))
    assert row == {
        "node": "n2",
        "asked_ns": 5,
        "ts_ns": 9,
        "error": None,
        "claims_leadership": True,
        "leader": "n2",
        "epoch": 7,
        "high_watermark": 40,
        "voters": [f"n{each}/{uuid_to_text(DISK)}" for each in (1, 2, 3)],
        "observers": ["n4"],
        "log_end_offsets": [41, 42, 43, -1],
    }
    check_row("quorum_samples", row)


def test_an_error_answer_is_no_claim_whatever_leader_it_names() -> None:
    row = read_answer("n1", 5, 9, quorum(1, 3, code=ErrorCode.not_leader_or_follower))
    assert row == {
        "node": "n1",
        "asked_ns": 5,
        "ts_ns": 9,
        "error": "NOT_LEADER_OR_FOLLOWER",
        "claims_leadership": False,
    }
    check_row("quorum_samples", row)


def test_an_answer_that_names_another_leader_is_no_claim_and_an_unknown_high_watermark_is_null() -> None:
    row = read_answer("n1", 5, 9, quorum(2, 3, high_watermark=-1))
    assert (row["claims_leadership"], row["leader"], row["high_watermark"]) == (False, "n2", None)


def test_an_answer_of_version_1_has_voters_without_directory_ids() -> None:
    state = v1.ReplicaState(replica_id=BrokerId(1), log_end_offset=i64(4))
    partition = v1.PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        leader_id=BrokerId(1),
        leader_epoch=i32(2),
        high_watermark=i64(4),
        current_voters=(state,),
        observers=(),
    )
    topic = v1.TopicData(topic_name=TopicName(TOPIC_NAME), partitions=(partition,))
    row = read_answer("n1", 5, 9, v1.DescribeQuorumResponse(error_code=ErrorCode.none, topics=(topic,)))
    assert (row["voters"], row["log_end_offsets"]) == (["n1"], [4])


def sample(
    handler: Callable[[str, Any], Any],
    scene: Callable[[QuorumSampler, list[Row], WireServer], Awaitable[None]],
    alive: tuple[str, ...] = NODES,
    dead: tuple[str, ...] = (),
) -> None:
    async def main() -> None:
        rows: list[Row] = []
        async with serving(TABLE, handler, alive, dead) as server:
            sampler = QuorumSampler(
                server.connect, NODES, time.monotonic_ns, rows.append, interval_s=0.005, timeout_s=0.2
            )
            running = asyncio.create_task(sampler.run())
            try:
                await scene(sampler, rows, server)
            finally:
                running.cancel()
                await asyncio.wait([running])
            assert running.cancelled(), running.exception()

    asyncio.run(asyncio.wait_for(main(), 60))


async def until(condition: Callable[[], Any]) -> None:
    """Wait, within the minute that a test has."""
    while not condition():
        await asyncio.sleep(0.002)


def test_the_highest_fresh_claim_leads_and_a_node_that_answers_nothing_delays_nobody() -> None:
    def handler(node: str, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return versions(2)
        return {"n1": quorum(1, 6), "n2": SILENCE, "n3": quorum(3, 7)}[node]

    async def scene(sampler: QuorumSampler, rows: list[Row], server: WireServer) -> None:
        await until(lambda: sampler.current_leader() == ("n3", 7))

        def samples(node: str) -> int:
            return sum(row["node"] == node for row in rows)

        await until(lambda: samples("n2") and samples("n1") >= 20 and samples("n3") >= 20)
        assert samples("n2") < 10
        assert {row["error"] for row in rows if row["node"] == "n2"} == {"timed-out"}
        assert sampler.last_answer_ns("n2") is None
        assert sampler.last_answer_ns("n1") is not None

    sample(handler, scene)


def test_followers_and_dead_nodes_claim_nothing_but_followers_answer() -> None:
    def handler(node: str, request: Any) -> Any:
        return versions(2) if isinstance(request, ApiVersionsRequest) else NOT_LEADER

    async def scene(sampler: QuorumSampler, rows: list[Row], server: WireServer) -> None:
        await until(lambda: {row["node"] for row in rows} == set(NODES))
        await until(lambda: sampler.last_answer_ns("n1") is not None and sampler.last_answer_ns("n2") is not None)
        assert sampler.current_leader() is None
        assert sampler.last_answer_ns("n3") is None
        assert {row["error"] for row in rows if row["node"] == "n3"} == {"not-connected"}

    sample(handler, scene, ("n1", "n2"), ("n3",))


def test_a_leader_that_falls_silent_is_no_leader_any_more() -> None:
    silent = False

    def handler(node: str, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return versions(2)
        return SILENCE if silent else quorum(1, 6) if node == "n1" else NOT_LEADER

    async def scene(sampler: QuorumSampler, rows: list[Row], server: WireServer) -> None:
        nonlocal silent
        await until(lambda: sampler.current_leader() == ("n1", 6))
        silent = True
        await until(lambda: sampler.current_leader() is None)

    sample(handler, scene)


def test_an_older_release_is_asked_with_version_1() -> None:
    def handler(node: str, request: Any) -> Any:
        return versions(1) if isinstance(request, ApiVersionsRequest) else SILENCE

    async def scene(sampler: QuorumSampler, rows: list[Row], server: WireServer) -> None:
        await until(lambda: any(isinstance(request, RequestV1) for _, request in server.received))
        assert not any(isinstance(request, RequestV2) for _, request in server.received)

    sample(handler, scene)
