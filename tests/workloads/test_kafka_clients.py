"""Kafka's clients against controllers that answer as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.api_versions.v0 import response as api_versions
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.broker_registration.v1.request import BrokerRegistrationRequest as RegistrationV1
from kio.schema.broker_registration.v1.response import BrokerRegistrationResponse as RegisteredV1
from kio.schema.broker_registration.v3.request import BrokerRegistrationRequest as RegistrationV3
from kio.schema.broker_registration.v3.response import BrokerRegistrationResponse as RegisteredV3
from kio.schema.describe_configs.v4 import response as configs
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_quorum.v0 import response as quorum
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v15 import response as fetched
from kio.schema.fetch.v15.request import FetchRequest
from kio.schema.incremental_alter_configs.v1 import response as altered
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64

from clusters.wire.batches import Record, encode_batch
from clusters.wire.messages import RequestTable
from clusters.wire.metadata_records import incarnation_of, register_name, value_of
from clusters.wire.metadata_topic import TOPIC_ID, TOPIC_NAME
from tests.workloads.wire_server import HANG_UP, SILENCE, WireServer, serving
from workloads.clients.kafka import KAFKA_CLIENTS
from workloads.history.operation import Completion, Consistency, Invocation, Status

NODES = ("n1", "n2", "n3")
TABLE = RequestTable(
    [
        AllocateProducerIdsRequest,
        ApiVersionsRequest,
        DescribeConfigsRequest,
        DescribeQuorumRequest,
        FetchRequest,
        IncrementalAlterConfigsRequest,
        RegistrationV1,
        RegistrationV3,
    ]
)
LONG_S = 30.0
ADD = Invocation("add", None, (1000,))
APPEND = Invocation("append", None, (7,))
WRITE = Invocation("write", 2, (9,))
READ = Invocation("read", 2, (), Consistency.STALE)
POLL = Invocation("poll", None, (0,), Consistency.STALE)
NOW = i32Timedelta.parse(timedelta(0))


def registered_broker(value: int) -> bytes:
    """A RegisterBrokerRecord, version 3, as far as it is read."""
    return bytes([1, 0, 3]) + (1_000_000 + value).to_bytes(4, "big") + b"\0" + incarnation_of(value).bytes + bytes(8)


@dataclass
class Controllers:
    """Three controllers: who claims to lead in which epoch, and what the leader answers."""

    claims: dict[str, int] = field(default_factory=lambda: {"n1": 3})
    errors: dict[type, Any] = field(default_factory=dict)
    """request class → error code, HANG_UP or SILENCE"""
    registration_max: int = 4
    next_id: int = 0
    registers: dict[str, str | None] = field(default_factory=dict)
    log: bytes = b""
    high_watermark: int = 0
    diverging: bool = False

    def __call__(self, node: str, request: Any) -> Any:
        told = self.errors.get(type(request), ErrorCode.none)
        if isinstance(told, bytes):
            return told
        match request:
            case DescribeQuorumRequest():
                return self._quorum(node)
            case DescribeConfigsRequest():
                return self._configs(request)
            case FetchRequest():
                return self._fetch(told)
        return self._mutate(request, told if node in self.claims else ErrorCode.not_controller)

    def _mutate(self, request: Any, code: ErrorCode) -> Any:
        match request:
            case ApiVersionsRequest():
                version = api_versions.ApiVersion(
                    api_key=i16(62), min_version=i16(0), max_version=i16(self.registration_max)
                )
                return api_versions.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(version,))
            case RegistrationV1() | RegistrationV3():
                response = RegisteredV1 if isinstance(request, RegistrationV1) else RegisteredV3
                return response(throttle_time=NOW, error_code=code, broker_epoch=i64(41 if code == 0 else -1))
            case AllocateProducerIdsRequest():
                return self._allocate(code)
            case IncrementalAlterConfigsRequest():
                return self._alter(request, code)
        raise AssertionError(request)

    def _quorum(self, node: str) -> Any:
        leads = node in self.claims
        partition = quorum.PartitionData(
            partition_index=i32(0),
            error_code=ErrorCode.none if leads else ErrorCode.not_leader_or_follower,
            leader_id=BrokerId(int(node[1:]) if leads else 0),
            leader_epoch=i32(self.claims.get(node, 0)),
            high_watermark=i64(0),
            current_voters=(),
            observers=(),
        )
        topic = quorum.TopicData(topic_name=TopicName(TOPIC_NAME), partitions=(partition,))
        return quorum.DescribeQuorumResponse(error_code=ErrorCode.none, topics=(topic,))

    def _allocate(self, code: ErrorCode) -> Any:
        start = self.next_id
        if code == 0:
            self.next_id += 1000
        return AllocateProducerIdsResponse(
            throttle_time=NOW, error_code=code, producer_id_start=ProducerId(start), producer_id_len=i32(1000)
        )

    def _alter(self, request: Any, code: ErrorCode) -> Any:
        if code == 0:
            for config in request.resources[0].configs:
                self.registers[config.name] = config.value
        response = altered.AlterConfigsResourceResponse(
            error_code=code, error_message=None, resource_type=i8(4), resource_name=""
        )
        return altered.IncrementalAlterConfigsResponse(throttle_time=NOW, responses=(response,))

    def _configs(self, request: Any) -> Any:
        found = tuple(
            configs.DescribeConfigsResourceResult(
                name=name,
                value=self.registers[name],
                read_only=False,
                is_sensitive=False,
                synonyms=(),
                documentation=None,
            )
            for name in request.resources[0].configuration_keys
            if name in self.registers
        )
        result = configs.DescribeConfigsResult(
            error_code=ErrorCode.none, error_message=None, resource_type=i8(4), resource_name="", configs=found
        )
        return configs.DescribeConfigsResponse(throttle_time=NOW, results=(result,))

    def _fetch(self, code: ErrorCode) -> Any:
        diverging = fetched.EpochEndOffset(epoch=i32(1), end_offset=i64(5)) if self.diverging else None
        more = {"diverging_epoch": diverging} if diverging else {}
        partition = fetched.PartitionData(
            partition_index=i32(0),
            error_code=code,
            high_watermark=i64(self.high_watermark),
            aborted_transactions=None,
            records=Records(self.log),
            **more,
        )
        topic = fetched.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
        return fetched.FetchResponse(throttle_time=NOW, error_code=ErrorCode.none, responses=(topic,))


def play(controllers: Controllers, script: Callable[[Any, WireServer], Any], dead: tuple[str, ...] = ()) -> Any:
    """Run a script against the controllers; it gets a factory (pinned node, process) → client, and the server."""

    async def run() -> Any:
        alive = tuple(node for node in NODES if node not in dead)
        async with asyncio.timeout(60), serving(TABLE, controllers, alive, dead) as server:
            factory = KAFKA_CLIENTS["counter"]("the-cluster")
            return await script(lambda pinned=None, process=0: factory(server.connect, NODES, pinned, process), server)

    return asyncio.run(run())


def once(controllers: Controllers, invocation: Invocation, pinned: str | None = None, timeout_s: float = LONG_S) -> Any:
    """One operation: (completion, requests received)."""

    async def script(client: Any, server: WireServer) -> Any:
        made = client(pinned)
        done: Completion = await made.invoke(invocation, timeout_s)
        await made.close()
        return done, server.received

    return play(controllers, script)


def sent_to(received: list[tuple[str, Any]], kind: type) -> list[str]:
    return [node for node, request in received if isinstance(request, kind)]


def test_a_following_client_asks_the_leader_of_the_highest_epoch():
    done, received = once(Controllers(claims={"n1": 3, "n2": 5, "n3": 4}), ADD)
    assert (done.status, done.output, done.node) == (Status.OK, (0,), "n2")
    assert sent_to(received, AllocateProducerIdsRequest) == ["n2"]
    assert sorted(sent_to(received, DescribeQuorumRequest)) == list(NODES)


def test_without_a_leader_nothing_is_sent_and_the_operation_failed():
    done, received = once(Controllers(claims={}), ADD)
    assert (done.status, done.error) == (Status.FAIL, "no-leader")
    assert sent_to(received, AllocateProducerIdsRequest) == []


def test_a_pinned_client_never_leaves_its_node_and_its_refusal_is_info():
    async def script(client: Any, server: WireServer) -> Any:
        await client().invoke(ADD, LONG_S)
        pinned = client("n3", 1)
        done = [await pinned.invoke(ADD, LONG_S) for _ in range(2)]
        return done, pinned.node, sent_to(server.received, AllocateProducerIdsRequest)

    done, node, asked = play(Controllers(), script)
    assert node == "n3"
    assert asked == ["n1", "n3", "n3"]
    assert [each.status for each in done] == [Status.INFO, Status.INFO]
    assert {each.error for each in done} == {"NOT_CONTROLLER"}


def test_one_broker_is_registered_for_all_clients_of_a_run():
    async def script(client: Any, server: WireServer) -> Any:
        await asyncio.gather(*(client(None, process).invoke(ADD, LONG_S) for process in range(4)))
        return server.received

    received = play(Controllers(), script)
    assert len(sent_to(received, RegistrationV3)) == 1
    adds = [request for _, request in received if isinstance(request, AllocateProducerIdsRequest)]
    assert {(int(each.broker_id), int(each.broker_epoch)) for each in adds} == {(1000, 41)}
    registration = next(request for _, request in received if isinstance(request, RegistrationV3))
    assert registration.cluster_id == "the-cluster"
    assert registration.log_dirs


def test_a_release_without_directories_is_registered_at_in_the_older_version():
    done, received = once(Controllers(registration_max=1), ADD)
    assert done.status is Status.OK
    assert len(sent_to(received, RegistrationV1)) == 1


def test_an_addition_whose_registration_failed_was_never_sent():
    done, received = once(Controllers(errors={RegistrationV3: ErrorCode.inconsistent_cluster_id}), ADD)
    assert (done.status, done.error) == (Status.FAIL, "registration-inconsistent_cluster_id")
    assert sent_to(received, AllocateProducerIdsRequest) == []


def test_a_lost_or_late_answer_to_an_addition_is_info():
    done, _ = once(Controllers(errors={AllocateProducerIdsRequest: HANG_UP}), ADD)
    assert (done.status, done.error) == (Status.INFO, "connection-lost")
    done, _ = once(Controllers(errors={AllocateProducerIdsRequest: SILENCE}), ADD, timeout_s=1.0)
    assert (done.status, done.error) == (Status.INFO, "timed-out")


def test_a_node_that_nobody_listens_at_got_nothing():
    async def script(client: Any, server: WireServer) -> Any:
        return await client("n3").invoke(ADD, LONG_S)

    done = play(Controllers(), script, dead=("n3",))
    assert (done.status, done.error) == (Status.FAIL, "not-connected")


def test_after_an_error_the_leader_is_looked_for_anew():
    controllers = Controllers()

    async def script(client: Any, server: WireServer) -> Any:
        made = client()
        first = await made.invoke(ADD, LONG_S)
        controllers.claims = {"n2": 4}
        second = await made.invoke(ADD, LONG_S)
        third = await made.invoke(ADD, LONG_S)
        return first, second, third

    first, second, third = play(controllers, script)
    assert (first.node, second.node, third.node) == ("n1", "n1", "n2")
    assert (first.status, second.status, third.status) == (Status.OK, Status.INFO, Status.OK)
    assert (first.output, third.output) == ((0,), (1000,))


def test_a_write_is_a_configuration_and_a_read_asks_the_clients_own_node():
    controllers = Controllers()

    async def script(client: Any, server: WireServer) -> Any:
        unwritten = await client("n3").invoke(READ, LONG_S)
        written = await client().invoke(WRITE, LONG_S)
        read = await client("n3").invoke(READ, LONG_S)
        return unwritten, written, read, sent_to(server.received, DescribeConfigsRequest)

    unwritten, written, read, asked = play(controllers, script)
    assert (unwritten.status, unwritten.output) == (Status.OK, ())
    assert (written.status, written.node) == (Status.OK, "n1")
    assert controllers.registers == {register_name(2): "9"}
    assert (read.status, read.output) == (Status.OK, (9,))
    assert asked == ["n3", "n3"]


def test_a_register_that_holds_no_number_is_never_read_as_one():
    done, _ = once(Controllers(registers={register_name(2): "many"}), READ, pinned="n1")
    assert (done.status, done.error) == (Status.FAIL, "garbled")
    done, _ = once(Controllers(registers={register_name(2): None}), READ, pinned="n1")
    assert (done.status, done.error) == (Status.FAIL, "garbled")


def test_an_append_is_a_broker_and_its_epoch_the_offset():
    done, received = once(Controllers(), APPEND)
    assert (done.status, done.offset) == (Status.OK, 41)
    request = next(request for _, request in received if isinstance(request, RegistrationV3))
    assert value_of(request.incarnation_id) == 7


def a_log(values: dict[int, int]) -> bytes:
    lines = [Record(offset, 0, None, registered_broker(value)) for offset, value in values.items()]
    return b"".join(encode_batch([line], epoch=3) for line in lines)


def test_a_poll_is_cut_at_the_high_watermark():
    done, received = once(Controllers(log=a_log({4: 7, 5: 8, 6: 9}), high_watermark=6), POLL)
    assert (done.status, done.output, done.offset, done.epoch) == (Status.OK, (4, 7, 5, 8), 6, 3)
    asked = next(request for _, request in received if isinstance(request, FetchRequest))
    assert int(asked.topics[0].partitions[0].current_leader_epoch) == 3


def test_a_poll_ignores_what_lies_before_its_position():
    again = Invocation("poll", None, (5,), Consistency.STALE)
    done, _ = once(Controllers(log=a_log({4: 7, 5: 8}), high_watermark=6), again)
    assert done.output == (5, 8)


def test_a_poll_of_a_follower_is_refused_and_of_a_diverging_log_out_of_range():
    done, received = once(Controllers(), POLL, pinned="n2")
    assert (done.status, done.error) == (Status.FAIL, "NOT_LEADER_OR_FOLLOWER")
    assert sent_to(received, FetchRequest) == []
    done, _ = once(Controllers(diverging=True), POLL)
    assert (done.status, done.error) == (Status.FAIL, "offset-out-of-range")


def test_a_poll_learns_the_epoch_anew_after_it_was_fenced():
    controllers = Controllers(errors={FetchRequest: ErrorCode.fenced_leader_epoch})

    async def script(client: Any, server: WireServer) -> Any:
        made = client("n1")
        first = await made.invoke(POLL, LONG_S)
        controllers.errors = {}
        controllers.claims = {"n1": 5}
        return first, await made.invoke(POLL, LONG_S)

    first, second = play(controllers, script)
    assert (first.status, first.error) == (Status.FAIL, "FENCED_LEADER_EPOCH")
    assert (second.status, second.epoch) == (Status.OK, 5)
