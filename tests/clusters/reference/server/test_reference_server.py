"""Servers in virtual time: elections, acknowledgements and power cuts, and the order in which effects are carried out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponse0
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.produce.v10.response import ProduceResponse
from virtual_world import Hub, MemoryDisk, Time, VirtualClock, VirtualNetwork

from clusters.candidates.reference.core.effects import Effects, Outgoing, Persist, QuorumState
from clusters.candidates.reference.core.messages import FetchRequest, ReplicaKey
from clusters.candidates.reference.core.records import DATA, Batch
from clusters.candidates.reference.server.configuration import NodeAddress, ServerConfig
from clusters.candidates.reference.server.server import Server, World
from clusters.collect.meta_properties import MetaProperties, write_meta_properties
from clusters.evidence.identity import uuid_to_text
from clusters.wire import reference_messages
from clusters.wire.framing import FrameSplitter, frame
from clusters.wire.messages import correlation_id, decode_response, encode_request
from clusters.wire.reference_messages import CompareAndSetRequest, CompareAndSetResponse, ReadRequest, ReadResponse
from clusters.wire.reference_records import Command
from workloads.problem import Problem

PORT = 9093


def directory_id(node_id: int) -> str:
    return uuid_to_text(UUID(int=100 + node_id, version=4))


@dataclass
class Client:
    """A client's connection; answers by correlation id."""

    splitter: FrameSplitter = field(default_factory=FrameSplitter)
    payloads: dict[int, bytes] = field(default_factory=dict)
    is_closed: bool = False

    def received(self, data: bytes) -> None:
        for payload in self.splitter.feed(data):
            self.payloads[correlation_id(payload)] = payload

    def closed(self) -> None:
        self.is_closed = True


class Quorum:
    """Some servers in one virtual world."""

    def __init__(self, voters: int = 3, observers: int = 0, defects: tuple[str, ...] = (), seed: int = 1) -> None:
        self.time = Time()
        self.hub = Hub(self.time)
        self.clock = VirtualClock(self.time)
        self.nodes = tuple(
            NodeAddress(node_id=each, host=f"h{each}", port=PORT, directory_id=directory_id(each), voter=each <= voters)
            for each in range(1, voters + observers + 1)
        )
        self.defects = defects
        self.seed = seed
        self.disks = {each.node_id: MemoryDisk() for each in self.nodes}
        self.incarnations = {each.node_id: 0 for each in self.nodes}
        self.trace_lines: dict[tuple[int, int], list[bytes]] = {}
        self.clocks: dict[int, VirtualClock] = {}
        self.servers: dict[int, Server] = {}
        self._correlation = 0
        for node in self.nodes:
            text = write_meta_properties(MetaProperties("cluster", node.node_id, node.directory_id)).encode()
            disk = self.disks[node.node_id]
            disk.current["meta.properties"] = disk.durable["meta.properties"] = text
            self.start(node.node_id)

    def config(self, node_id: int) -> ServerConfig:
        return ServerConfig(
            node_id=node_id,
            incarnation=self.incarnations[node_id],
            cluster_id="cluster",
            data_directory=f"data of {node_id}",
            trace_path="",
            nodes=self.nodes,
            election_timeout_ms=200,
            election_jitter_ms=200,
            fetch_timeout_ms=400,
            check_quorum_ms=600,
            request_timeout_ms=300,
            fetch_max_wait_ms=100,
            seed=self.seed,
            defects=self.defects,
        )

    def start(self, node_id: int) -> None:
        config = self.config(node_id)
        clock = self.clocks[node_id] = VirtualClock(self.time)
        chance = random.Random(f"{self.seed}/{node_id}/{config.incarnation}")
        lines: list[bytes] = []
        world = World(
            clock=clock,
            network=VirtualNetwork(self.hub, f"h{node_id}", clock),
            disk=self.disks[node_id],
            draw=lambda most: chance.randint(0, most),
            write_trace=lines.append,
        )
        self.servers[node_id] = Server(config, world)
        self.incarnations[node_id] += 1
        self.trace_lines[node_id, config.incarnation] = lines

    def kill(self, node_id: int) -> None:
        self.hub.kill(self.clocks[node_id])

    def cut_power(self, node_id: int) -> None:
        self.kill(node_id)
        self.disks[node_id].power_cut()

    def isolate(self, node_id: int) -> None:
        for other in self.nodes:
            self.hub.cut |= {(f"h{node_id}", other.host), (other.host, f"h{node_id}")}

    def ask(self, node_id: int, message: Any, answer: type[Any], within_ms: int = 3000) -> Any:
        self._correlation += 1
        client = Client()
        connection = VirtualNetwork(self.hub, "client", self.clock).connect(f"h{node_id}", PORT, client)
        connection.send(encode_request(message, self._correlation, "test"))
        self.time.run_until(lambda: self._correlation in client.payloads, within_ms)
        connection.close()
        return decode_response(answer, client.payloads[self._correlation])[1]

    def leader(self, among: tuple[int, ...] | None = None, within_ms: int = 5000) -> int:
        """The node that answers DescribeQuorum as the leader."""
        asked = [each for each in (among or tuple(self.clocks)) if self.clocks[each].alive]
        end = self.time.now + within_ms * 1_000_000
        while self.time.now < end:
            for node_id in asked:
                partition = self.describe(node_id)
                if partition.error_code == ErrorCode.none and partition.high_watermark > 0:
                    return node_id
            self.time.run_for(50)
        raise AssertionError("no leader")

    def describe(self, node_id: int) -> Any:
        request = DescribeQuorumRequest(
            topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),)),)
        )
        return self.ask(node_id, request, DescribeQuorumResponse).topics[0].partitions[0]

    def produce(self, node_id: int, *commands: Command) -> reference_messages.Produced:
        request = reference_messages.produce(commands, timestamp_ms=0, timeout_ms=1000)
        return reference_messages.produced(self.ask(node_id, request, ProduceResponse))

    def poll(self, node_id: int, *, stale: bool = False) -> reference_messages.Polled:
        request = reference_messages.poll(0, timeout_ms=1000, stale=stale)
        return reference_messages.polled(self.ask(node_id, request, FetchResponse), 0)

    def read(self, node_id: int, key: int) -> ReadResponse:
        return self.ask(node_id, ReadRequest(key=key, timeout_ms=1000), ReadResponse)

    def rows(self, node_id: int) -> list[dict[str, Any]]:
        found = []
        for (each, _), lines in self.trace_lines.items():
            if each == node_id:
                found += [json.loads(line) for line in b"".join(lines).splitlines()[1:]]
        return found


def append(value: int) -> Command:
    return Command("append", value)


def test_appends_are_acknowledged_with_their_offsets_and_polled_everywhere():
    quorum = Quorum(observers=1)
    leader = quorum.leader()
    answers = [quorum.produce(leader, append(value)) for value in (70, 80)]
    assert [each.error_code for each in answers] == [ErrorCode.none] * 2
    expected = tuple((each.base_offset, value) for each, value in zip(answers, (70, 80), strict=True))
    for node in quorum.nodes:
        polled = quorum.poll(node.node_id)
        assert (polled.error_code, polled.appended) == (ErrorCode.none, expected)
        assert polled.high_watermark == answers[-1].base_offset + 1


def test_a_register_is_written_swapped_and_read_at_every_node():
    quorum = Quorum()
    leader = quorum.leader()
    assert not quorum.read(leader, 5).written
    assert quorum.produce(leader, Command("write", 1, key=5)).error_code == ErrorCode.none
    swapped = quorum.ask(leader, CompareAndSetRequest(key=5, expected=1, new=2, timeout_ms=500), CompareAndSetResponse)
    missed = quorum.ask(leader, CompareAndSetRequest(key=5, expected=1, new=3, timeout_ms=500), CompareAndSetResponse)
    assert (swapped.error_code, swapped.swapped) == (ErrorCode.none, True)
    assert (missed.error_code, missed.swapped) == (ErrorCode.none, False)
    for node in quorum.nodes:
        answer = quorum.read(node.node_id, 5)
        assert (answer.error_code, answer.written, answer.value) == (ErrorCode.none, True, 2)
        assert answer.leader_id == leader


def test_a_follower_refuses_writes_and_names_the_leader():
    quorum = Quorum()
    leader = quorum.leader()
    follower = next(each.node_id for each in quorum.nodes if each.node_id != leader)
    quorum.produce(leader, append(1))
    answer = quorum.produce(follower, append(2))
    assert (answer.error_code, answer.leader_id, answer.base_offset) == (ErrorCode.not_leader_or_follower, leader, -1)


def test_the_leader_describes_the_quorum_with_directory_ids():
    quorum = Quorum(observers=1)
    leader = quorum.leader()
    quorum.time.run_for(1000)
    partition = quorum.describe(leader)
    assert {(each.replica_id, uuid_to_text(each.replica_directory_id)) for each in partition.current_voters} == {
        (each.node_id, each.directory_id) for each in quorum.nodes if each.voter
    }
    assert [each.replica_id for each in partition.observers] == [4]


def test_the_logs_agree_after_the_leader_was_killed_and_came_back():
    quorum = Quorum()
    first = quorum.leader()
    quorum.produce(first, append(1))
    quorum.kill(first)
    second = quorum.leader()
    assert second != first
    quorum.produce(second, append(2))
    quorum.start(first)
    quorum.time.run_for(2000)
    contents = {disk.current[f"__cluster_metadata-0/{0:020d}.log"] for disk in quorum.disks.values()}
    assert len(contents) == 1
    assert [value for _, value in quorum.poll(first).appended] == [1, 2]


def test_an_isolated_leader_acknowledges_nothing_and_resigns():
    quorum = Quorum()
    leader = quorum.leader()
    quorum.isolate(leader)
    answer = quorum.produce(leader, append(1))
    assert answer.error_code in (ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append)
    assert quorum.read(leader, 1).error_code != ErrorCode.none
    successor = quorum.leader(tuple(each.node_id for each in quorum.nodes if each.node_id != leader))
    assert [row for row in quorum.rows(leader) if row["kind"] == "resign"]
    quorum.hub.cut.clear()
    quorum.time.run_for(3000)
    assert quorum.leader() == successor


def acknowledged_then_power_cut_everywhere(defects: tuple[str, ...]) -> list[int]:
    quorum = Quorum(defects=defects)
    leader = quorum.leader()
    assert quorum.produce(leader, append(42)).error_code == ErrorCode.none
    for node in quorum.nodes:
        quorum.cut_power(node.node_id)
    for node in quorum.nodes:
        quorum.start(node.node_id)
    return [value for _, value in quorum.poll(quorum.leader()).appended]


def test_what_was_acknowledged_survives_a_power_cut_of_all_nodes():
    assert acknowledged_then_power_cut_everywhere(()) == [42]


def test_acknowledged_before_fsync_loses_it():
    assert acknowledged_then_power_cut_everywhere(("M-14",)) == []


def test_the_same_seed_gives_the_same_traces():
    def traces() -> list[bytes]:
        quorum = Quorum(seed=5)
        leader = quorum.leader()
        quorum.produce(leader, append(1))
        quorum.kill(leader)
        quorum.leader()
        return [b"".join(lines) for lines in quorum.trace_lines.values()]

    assert traces() == traces()


def test_a_request_without_an_answer_costs_its_connection():
    quorum = Quorum()
    leader = quorum.leader()
    follower = next(each.node_id for each in quorum.nodes if each.node_id != leader)
    quorum.isolate(follower)
    quorum.hub.connects.clear()
    quorum.time.run_for(1000)
    tries = quorum.hub.connects.count((f"h{leader}", f"h{follower}")) + quorum.hub.connects.count(
        (f"h{follower}", f"h{leader}")
    )
    assert 2 <= tries <= 40


def test_effects_are_carried_out_disk_first_then_trace_then_messages():
    quorum = Quorum(voters=1)
    quorum.leader()
    server, disk = quorum.servers[1], quorum.disks[1]
    events: list[str] = []
    disk.log = _Log(events, "disk")
    server._trace.add = _recorded(events, "trace", server._trace.add)
    server._peers.send = lambda _outgoing: events.append("send")
    end = server._storage.end_offset
    server.execute(
        Effects(
            persist=Persist(quorum_state=QuorumState(9), append=[Batch(end, 9, DATA, (append(1),))]),
            trace=[{"kind": "append"}],
            send=[Outgoing(1, 2, FetchRequest(9, ReplicaKey(1, directory_id(1)), 0, 0, 0), 100)],
        )
    )
    segment = f"__cluster_metadata-0/{0:020d}.log"
    assert events == [
        "disk replace and sync __cluster_metadata-0/quorum-state",
        f"disk append {segment}",
        f"disk sync {segment}",
        "disk replace __cluster_metadata-0/leader-epoch-checkpoint",
        "trace",
        "send",
    ]


class _Log(list[tuple[str, str]]):
    def __init__(self, events: list[str], name: str) -> None:
        super().__init__()
        self._events, self._name = events, name

    def append(self, entry: tuple[str, str]) -> None:
        self._events.append(f"{self._name} {entry[0]} {entry[1]}")


def _recorded(events: list[str], name: str, call: Callable[..., None]) -> Callable[..., None]:
    def record(*arguments: Any) -> None:
        events.append(name)
        call(*arguments)

    return record


def test_one_fsync_serves_all_appends_that_are_ready_together():
    quorum = Quorum(voters=1)
    quorum.leader()
    disk = quorum.disks[1]
    disk.log.clear()
    client = Client()
    connection = VirtualNetwork(quorum.hub, "client", quorum.clock).connect("h1", PORT, client)
    request = reference_messages.produce([append(7)], timestamp_ms=0, timeout_ms=1000)
    connection.send(b"".join(encode_request(request, number) for number in range(50)))
    quorum.time.run_until(lambda: len(client.payloads) == 50)
    assert [entry for entry in disk.log if entry[0] == "sync"] == [("sync", f"__cluster_metadata-0/{0:020d}.log")]


def test_api_versions_are_listed_and_unknown_versions_told():
    quorum = Quorum(voters=1)
    answer = quorum.ask(
        1, ApiVersionsRequest(client_software_name="t", client_software_version="1"), ApiVersionsResponse
    )
    keys = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert keys[1] == (17, 18)
    assert keys[10650] == (0, 0)
    client = Client()
    connection = VirtualNetwork(quorum.hub, "client", quorum.clock).connect("h1", PORT, client)
    connection.send(frame(bytes.fromhex("0012 0063 00000009 ffff")))
    quorum.time.run_until(lambda: 9 in client.payloads)
    assert decode_response(ApiVersionsResponse0, client.payloads[9])[1].error_code == ErrorCode.unsupported_version


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", frame(b"\0\1"), frame(bytes.fromhex("0003 0000 00000001 ffff"))],
)
def test_garbage_costs_the_connection_and_nothing_else(garbage):
    quorum = Quorum(voters=1)
    leader = quorum.leader()
    client = Client()
    VirtualNetwork(quorum.hub, "client", quorum.clock).connect("h1", PORT, client).send(garbage)
    quorum.time.run_until(lambda: client.is_closed)
    assert quorum.produce(leader, append(1)).error_code == ErrorCode.none


def test_requests_for_another_cluster_are_refused():
    quorum = Quorum(voters=1)
    quorum.leader()
    answer = quorum.ask(1, ReadRequest(cluster_id="other", key=1, timeout_ms=100), ReadResponse)
    assert answer.error_code == ErrorCode.inconsistent_cluster_id


def test_a_server_does_not_start_on_another_nodes_disk():
    quorum = Quorum(voters=2)
    quorum.kill(2)
    quorum.disks[2].current["meta.properties"] = quorum.disks[1].current["meta.properties"]
    with pytest.raises(Problem) as caught:
        quorum.start(2)
    assert caught.value.slug == "foreign-disk"


def test_a_server_does_not_start_on_an_unformatted_disk():
    quorum = Quorum(voters=1)
    quorum.kill(1)
    del quorum.disks[1].current["meta.properties"]
    with pytest.raises(Problem) as caught:
        quorum.start(1)
    assert caught.value.slug == "not-formatted"


def test_a_stopped_leader_resigns_and_the_others_go_on():
    quorum = Quorum()
    leader = quorum.leader()
    stopped: list[bool] = []
    quorum.servers[leader].shut_down(lambda: stopped.append(True))
    quorum.time.run_until(lambda: bool(stopped))
    quorum.time.run_for(20)
    quorum.kill(leader)
    assert quorum.leader() != leader
