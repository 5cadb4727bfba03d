"""The reference's client against a server that answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.fetch.v17.response import FetchableTopicResponse, FetchResponse
from kio.schema.fetch.v17.response import LeaderIdAndEpoch as FetchLeader
from kio.schema.fetch.v17.response import PartitionData as FetchedPartition
from kio.schema.produce.v10.request import ProduceRequest
from kio.schema.produce.v10.response import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i32, i32Timedelta, i64

from clusters.wire import batches, metadata_topic
from clusters.wire.messages import RequestTable
from clusters.wire.reference_messages import (
    LINEARIZABLE,
    STALE,
    CompareAndSetRequest,
    CompareAndSetResponse,
    ReadRequest,
    ReadResponse,
)
from clusters.wire.reference_records import Command, decode_command, encode_command
from tests.workloads.wire_server import HANG_UP, SILENCE, WireServer, serving
from workloads.clients.reference import VALUE_WAS_ANOTHER, ReferenceClients
from workloads.history.operation import Completion, Consistency, Invocation, Status

_T = TypeVar("_T")
NODES = ("n1", "n2", "n3")
TABLE = RequestTable([ReadRequest, CompareAndSetRequest, ProduceRequest, FetchRequest])
LONG_S, SHORT_S = 30.0, 0.05
READ = Invocation("read", 4)
WRITE = Invocation("write", 4, (9,))
APPEND = Invocation("append", None, (9,))
CAS = Invocation("cas", 4, (1, 2))


def produced(code: ErrorCode = ErrorCode.none, offset: int = 7, leader: int = 1, epoch: int = 3) -> ProduceResponse:
    partition = PartitionProduceResponse(
        index=i32(0),
        error_code=code,
        base_offset=i64(offset),
        record_errors=(),
        current_leader=LeaderIdAndEpoch(leader_id=BrokerId(leader), leader_epoch=i32(epoch)),
    )
    return ProduceResponse(
        responses=(TopicProduceResponse(name=TopicName(metadata_topic.TOPIC_NAME), partition_responses=(partition,)),),
    )


def fetched(appended: list[tuple[int, int]], high_watermark: int, code: ErrorCode = ErrorCode.none) -> FetchResponse:
    raw = b""
    if appended:
        written = [
            batches.Record(offset, 0, None, encode_command(Command("append", each))) for offset, each in appended
        ]
        raw = batches.encode_batch(written, epoch=-1)
    partition = FetchedPartition(
        partition_index=i32(0),
        error_code=code,
        high_watermark=i64(high_watermark),
        current_leader=FetchLeader(leader_id=BrokerId(2), leader_epoch=i32(3)),
        aborted_transactions=None,
        records=Records(raw),
    )
    topic = FetchableTopicResponse(topic_id=metadata_topic.TOPIC_ID, partitions=(partition,))
    return FetchResponse(throttle_time=i32Timedelta(timedelta(0)), error_code=ErrorCode.none, responses=(topic,))


def play(
    handler: Callable[[str, Any], Any],
    scene: Callable[[ReferenceClients, WireServer], Awaitable[_T]],
    alive: tuple[str, ...] = NODES,
    dead: tuple[str, ...] = (),
) -> _T:
    async def main() -> _T:
        async with serving(TABLE, handler, alive, dead) as server:
            return await scene(ReferenceClients(lambda: 1_700_000_000_000), server)

    return asyncio.run(asyncio.wait_for(main(), 60))


def ask(answer: Any, invocation: Invocation, timeout_s: float = LONG_S) -> tuple[Completion, Any]:
    """What a pinned client makes of one answer, and the request that it sent."""

    async def scene(clients: ReferenceClients, server: WireServer) -> tuple[Completion, Any]:
        client = clients(server.connect, NODES, "n2", 0)
        completion = await client.invoke(invocation, timeout_s)
        assert client.node == "n2"
        assert len(server.received) == 1, "one attempt an operation"
        await client.close()
        return completion, server.received[0][1]

    return play(lambda node, request: answer, scene)


def test_a_read_tells_value_offset_and_epoch() -> None:
    answer = ReadResponse(
        error_code=ErrorCode.none, leader_epoch=i32(3), written=True, value=i64(-5), applied_offset=i64(11)
    )
    completion, request = ask(answer, READ)
    assert completion == Completion(Status.OK, (-5,), offset=11, epoch=3)
    assert (request.key, request.consistency, request.timeout_ms) == (4, LINEARIZABLE, 30_000)


def test_a_read_of_an_unwritten_register_is_empty_and_a_stale_one_says_so() -> None:
    answer = ReadResponse(error_code=ErrorCode.none, written=False, value=i64(0), applied_offset=i64(2))
    completion, request = ask(answer, Invocation("read", 4, (), Consistency.STALE))
    assert (completion.status, completion.output) == (Status.OK, ())
    assert request.consistency == STALE


@pytest.mark.parametrize(
    ("invocation", "command"),
    [(WRITE, Command("write", 9, 4)), (APPEND, Command("append", 9))],
    ids=["write", "append"],
)
def test_a_write_and_an_append_are_one_record_and_answer_its_offset(invocation: Invocation, command: Command) -> None:
    completion, request = ask(produced(), invocation)
    assert completion == Completion(Status.OK, (), offset=7, epoch=3)
    raw = request.topic_data[0].partition_data[0].records
    (batch,) = batches.decode_batches(raw)
    assert [decode_command(record.value) for record in batches.records(batch)] == [command]
    assert (request.acks, request.topic_data[0].name) == (-1, metadata_topic.TOPIC_NAME)


def test_a_compare_and_set_that_found_another_value_failed_and_its_record_is_known() -> None:
    swapped = CompareAndSetResponse(error_code=ErrorCode.none, leader_epoch=i32(3), swapped=True, offset=i64(8))
    refused = CompareAndSetResponse(error_code=ErrorCode.none, leader_epoch=i32(3), swapped=False, offset=i64(8))
    completion, request = ask(swapped, CAS)
    assert completion == Completion(Status.OK, (), offset=8, epoch=3)
    assert (request.key, request.expected, request.new) == (4, 1, 2)
    assert ask(refused, CAS)[0] == Completion(Status.FAIL, (), VALUE_WAS_ANOTHER, 8, 3)


def test_a_poll_gives_pairs_and_the_high_watermark() -> None:
    completion, request = ask(fetched([(3, 30), (5, 50)], 6), Invocation("poll", None, (3,)))
    assert completion == Completion(Status.OK, (3, 30, 5, 50), offset=6, epoch=3)
    assert request.topics[0].partitions[0].fetch_offset == 3
    assert request.isolation_level == LINEARIZABLE
    assert ask(fetched([], 3), Invocation("poll", None, (3,), Consistency.STALE))[1].isolation_level == STALE


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.not_leader_or_follower, Status.FAIL),
        (ErrorCode.inconsistent_cluster_id, Status.FAIL),
        (ErrorCode.broker_not_available, Status.FAIL),
        (ErrorCode.request_timed_out, Status.INFO),
        (ErrorCode.not_enough_replicas_after_append, Status.INFO),
        (ErrorCode.unknown_server_error, Status.INFO),
    ],
)
def test_an_error_fails_a_write_only_where_it_is_definite(code: ErrorCode, status: Status) -> None:
    completion, _ = ask(produced(code, offset=-1), WRITE)
    assert completion == Completion(status, (), code.name.upper())
    refused = CompareAndSetResponse(error_code=code)
    assert ask(refused, CAS)[0] == Completion(status, (), code.name.upper())


def test_an_error_always_fails_a_read() -> None:
    answer = ReadResponse(error_code=ErrorCode.request_timed_out, written=True, value=i64(5))
    assert ask(answer, READ)[0] == Completion(Status.FAIL, (), "REQUEST_TIMED_OUT")
    polled = fetched([], -1, ErrorCode.leader_not_available)
    assert ask(polled, Invocation("poll", None, (0,)))[0] == Completion(Status.FAIL, (), "LEADER_NOT_AVAILABLE")


@pytest.mark.parametrize(
    ("answer", "timeout_s", "error"),
    [(HANG_UP, LONG_S, "connection-lost"), (SILENCE, SHORT_S, "timed-out"), (b"\xff\xff\xff\xff", LONG_S, "garbled")],
)
def test_without_an_answer_nobody_knows_what_became_of_a_write(answer: bytes, timeout_s: float, error: str) -> None:
    assert ask(answer, WRITE, timeout_s)[0] == Completion(Status.INFO, (), error)


def test_a_pinned_client_of_a_dead_node_fails_for_certain_and_stays() -> None:
    async def scene(clients: ReferenceClients, server: WireServer) -> None:
        client = clients(server.connect, NODES, "n2", 0)
        for _ in range(3):
            assert await client.invoke(WRITE, LONG_S) == Completion(Status.FAIL, (), "not-connected")
            assert client.node == "n2"
        assert server.received == []

    play(lambda node, request: produced(), scene, ("n1", "n3"), ("n2",))


def test_a_following_client_asks_the_named_leader_with_its_next_operation() -> None:
    def handler(node: str, request: Any) -> Any:
        return produced() if node == "n3" else produced(ErrorCode.not_leader_or_follower, -1, leader=3)

    async def scene(clients: ReferenceClients, server: WireServer) -> None:
        client = clients(server.connect, NODES, None, 0)
        assert client.node == "n1"
        assert (await client.invoke(WRITE, LONG_S)).status is Status.FAIL
        assert [node for node, _ in server.received] == ["n1"], "the operation itself is not sent again"
        assert client.node == "n3"
        assert (await client.invoke(WRITE, LONG_S)).status is Status.OK
        assert client.node == "n3"

    play(handler, scene)


def test_a_following_client_without_a_hint_goes_round() -> None:
    def handler(node: str, request: Any) -> Any:
        return HANG_UP if node == "n3" else produced(ErrorCode.not_leader_or_follower, -1, leader=-1)

    async def scene(clients: ReferenceClients, server: WireServer) -> None:
        client = clients(server.connect, NODES, None, 0)
        asked = []
        for _ in range(5):
            asked.append(client.node)
            await client.invoke(WRITE, LONG_S)
        assert asked == ["n1", "n2", "n3", "n1", "n2"]

    play(handler, scene, ("n1", "n3"), ("n2",))


def test_following_clients_begin_at_different_nodes() -> None:
    async def scene(clients: ReferenceClients, server: WireServer) -> list[str]:
        return [clients(server.connect, NODES, None, 12).node for _ in range(3)]

    assert sorted(play(lambda node, request: SILENCE, scene)) == list(NODES)
