"""Three real processes on loopback: a leader is elected, killed and restarted; what was acknowledged is in every log."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.produce.v10.response import ProduceResponse

from clusters.candidates.candidate import Quorum
from clusters.candidates.reference.candidate import ReferenceCandidate
from clusters.cluster import Launch, NodeSpec
from clusters.collect.log_segments import read_log
from clusters.collect.quorum_state import read_quorum_state
from clusters.collect.trace import read_trace
from clusters.evidence.identity import uuid_to_text
from clusters.wire import reference_messages
from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import correlation_id, decode_response, encode_request
from clusters.wire.reference_records import Command, decode_command
from workloads.history.manifest import Timers

TIMERS = Timers(election_timeout_ms=400, fetch_timeout_ms=800, check_quorum_ms=1200, request_timeout_ms=800)
PATIENCE_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    """The quorum's processes, ended with the test."""

    def __init__(self, root: Path) -> None:
        self.candidate = ReferenceCandidate()
        self.nodes = tuple(
            NodeSpec(f"n{each}", each, "voter", "127.0.0.1", free_port(), root / "nodes" / f"n{each}")
            for each in (1, 2, 3)
        )
        self.quorum = Quorum(
            cluster_id="cluster",
            nodes=self.nodes,
            timers=TIMERS,
            kind="dynamic",
            directory_ids={each.name: uuid_to_text(UUID(int=each.node_id, version=4)) for each in self.nodes},
            seed=1,
        )
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.incarnations = dict.fromkeys((each.name for each in self.nodes), 0)
        for node in self.nodes:
            self.candidate.format(self.quorum, node, first=True)
            self.start(node)

    def start(self, node: NodeSpec) -> None:
        launch: Launch = self.candidate.launch(self.quorum, node, self.incarnations[node.name])
        self.incarnations[node.name] += 1
        launch.output.parent.mkdir(parents=True, exist_ok=True)
        with launch.output.open("ab") as output:
            self.running[node.name] = subprocess.Popen(
                launch.argv, env=dict(launch.env), cwd=launch.cwd, stdout=output, stderr=subprocess.STDOUT
            )

    def kill(self, node: NodeSpec) -> None:
        process = self.running.pop(node.name)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(PATIENCE_S)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    try:
        yield made
    finally:
        made.end()


class Connection(asyncio.Protocol):
    """A client's connection."""

    def __init__(self) -> None:
        self.splitter = FrameSplitter()
        self.waiting: dict[int, asyncio.Future[bytes]] = {}
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for payload in self.splitter.feed(data):
            self.waiting.pop(correlation_id(payload)).set_result(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        for each in self.waiting.values():
            each.set_exception(ConnectionError("lost"))

    async def ask(self, message: Any, answer: type[Any]) -> Any:
        number = len(self.waiting) + 1
        while number in self.waiting:
            number += 1
        self.waiting[number] = asyncio.get_running_loop().create_future()
        self.transport.write(encode_request(message, number, "test"))
        payload = await asyncio.wait_for(self.waiting[number], PATIENCE_S)
        return decode_response(answer, payload)[1]


async def connected(node: NodeSpec) -> Connection:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return (await asyncio.get_running_loop().create_connection(Connection, node.address, node.port))[1]
        except OSError:
            assert time.monotonic() < end, f"{node.name} does not listen"
            await asyncio.sleep(0.05)


async def produce(connection: Connection, value: int) -> reference_messages.Produced:
    request = reference_messages.produce([Command("append", value)], timestamp_ms=0, timeout_ms=20_000)
    return reference_messages.produced(await connection.ask(request, ProduceResponse))


async def poll(connection: Connection) -> reference_messages.Polled:
    request = reference_messages.poll(0, timeout_ms=20_000)
    return reference_messages.polled(await connection.ask(request, FetchResponse), 0)


async def write_first(nodes: list[NodeSpec], value: int) -> tuple[NodeSpec, Connection, int]:
    """Append one value at whichever node leads: (the leader, a connection to it, the offset)."""
    connections = [await connected(node) for node in nodes]
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for node, connection in zip(nodes, connections, strict=True):
            answer = await produce(connection, value)
            if answer.error_code == ErrorCode.none:
                return node, connection, answer.base_offset
        await asyncio.sleep(0.05)
    raise AssertionError("nobody leads")


async def eventually(what: str, reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.1)


def appended(node: NodeSpec) -> list[tuple[int, int, int | None]]:
    """What is on a node's disk: (offset, epoch, value)."""
    log = read_log(
        node.data / "__cluster_metadata-0", lambda _key, value: ("append", None, decode_command(value).value)
    )
    return list(zip(log.columns.offset, log.columns.epoch, log.columns.value, strict=True))


async def write_many(nodes: list[NodeSpec], values: Iterator[int], wanted: int) -> tuple[NodeSpec, dict[int, int]]:
    """Append until so many values are acknowledged: (who led at first, value → offset).

    On a busy machine leaders change; a value that was not acknowledged is left alone, and another one takes its place.
    """
    acknowledged: dict[int, int] = {}
    first: NodeSpec | None = None
    connection: Connection | None = None
    for _ in range(wanted):
        if len(acknowledged) >= wanted:
            break
        if connection is None:
            value = next(values)
            leader, connection, acknowledged[value] = await write_first(nodes, value)
            first = first or leader
        batch = [next(values) for _ in range(min(25, wanted - len(acknowledged)))]
        answers = await asyncio.gather(*(produce(connection, value) for value in batch))
        for value, answer in zip(batch, answers, strict=True):
            if answer.error_code == ErrorCode.none:
                acknowledged[value] = answer.base_offset
            else:
                connection = None
    assert first is not None
    assert len(acknowledged) >= wanted
    return first, acknowledged


async def play(processes: Processes) -> tuple[dict[int, int], list[NodeSpec]]:
    """250 appends, kill -9 of the leader, 250 more at its successor, restart: (value → offset acknowledged, both leaders)."""
    values = count()
    first, acknowledged = await write_many(list(processes.nodes), values, 250)
    processes.kill(first)
    second, more = await write_many([node for node in processes.nodes if node is not first], values, 250)
    acknowledged |= more
    processes.start(first)
    end = max(acknowledged.values())
    await eventually("the restarted node has caught up", lambda: appended(first)[-1][0] >= end)
    polled = await poll_until_served(first)
    assert {value: offset for offset, value in polled.appended if value in acknowledged} == acknowledged
    return acknowledged, [first, second]


async def poll_until_served(node: NodeSpec) -> reference_messages.Polled:
    """A linearizable poll at a node, as often as it takes until it knows a leader that confirms it."""
    connection = await connected(node)
    end = time.monotonic() + PATIENCE_S
    while True:
        polled = await poll(connection)
        if polled.error_code == ErrorCode.none:
            return polled
        assert time.monotonic() < end, polled
        await asyncio.sleep(0.1)


def test_five_hundred_appends_over_a_killed_leader(processes):
    acknowledged, (first, second) = asyncio.run(play(processes))
    assert first is not second
    for process in processes.running.values():
        process.send_signal(signal.SIGTERM)
    assert [process.wait(PATIENCE_S) for process in processes.running.values()] == [0, 0, 0]
    logs = [appended(node) for node in processes.nodes]
    shortest = min(map(len, logs))
    assert logs[0][:shortest] == logs[1][:shortest] == logs[2][:shortest]
    held = {value: offset for offset, _, value in logs[0][:shortest]}
    assert {value: held.get(value) for value in acknowledged} == acknowledged
    states = [read_quorum_state(node.data / "__cluster_metadata-0" / "quorum-state") for node in processes.nodes]
    assert all(state.problem is None and state.epoch is not None for state in states)


def test_traces_of_real_processes_are_node_events(processes, tmp_path):
    class Run:
        run_id = "s/1"
        nodes = ()
        started_monotonic_ns = time.monotonic_ns() - 10**12

    leader, _, offset = asyncio.run(write_first(list(processes.nodes), 7))
    processes.kill(leader)
    table = read_trace(leader.directory / "trace" / "0.jsonl", Run())
    rows = table.to_pylist()
    assert rows[0]["kind"] == "start"
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert offset in [row["offset"] for row in rows if row["kind"] == "acknowledge"]
    assert {row["directory_id"] for row in rows} == {processes.quorum.directory_ids[leader.name]}
    assert all(0 < row["ts_ns"] < 10**12 + 10**11 for row in rows)


@pytest.mark.parametrize("content", ["{", '{"node_id": 1}'])
def test_a_bad_configuration_ends_with_a_sentence(tmp_path, content):
    config = tmp_path / "config.json"
    config.write_text(content)
    result = subprocess.run(
        [sys.executable, "-m", "clusters.candidates.reference.server", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert result.returncode == 1
    assert result.stderr.startswith("bad-configuration: ")
    assert "Traceback" not in result.stderr


def test_a_taken_port_ends_with_a_sentence(processes):
    node = processes.nodes[0]
    asyncio.run(connected(node))
    launch = processes.candidate.launch(processes.quorum, node, 99)
    result = subprocess.run(
        launch.argv, env=dict(launch.env), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (result.returncode, result.stderr.split(":")[0]) == (1, "cannot-start")
