"""How many operations a second the controller generates, sends and records.

Two candidates that cost nothing themselves: ``null`` answers inside the controller; ``loopback`` is a server in another process
that answers every request of the reference's clients at once, so that encoding, a socket each way and decoding are counted.
Operations become due faster than they can be sent; what is counted are rows of the journal that was written, read back: a second,
and a second of CPU time of the controller, which says the same on an idle machine and still means something on a busy one.

    python benchmarks/throughput.py [--rounds 5] [--seconds 3] [--concurrency 64]

The claim (at least 20,000 a second against ``null``) is judged by the exit status: 0 when the median keeps it, 1 when it does
not, 2 when the machine gave the controller less than 80 % of a CPU, so that the figure says more about the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import socket
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from kio.schema.errors import ErrorCode
from kio.schema.produce.v10.request import ProduceRequest
from kio.schema.produce.v10.response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kio.static.primitive import i32, i64

from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import encode_response
from clusters.wire.metadata_topic import TOPIC_NAME
from clusters.wire.reference_messages import (
    COMPARE_AND_SET,
    READ,
    CompareAndSetResponse,
    ReadResponse,
)
from workloads.clients.client import Connect
from workloads.clients.null import NullObjects
from workloads.clients.reference import ReferenceClients
from workloads.interpreter import Load, LoadOptions
from workloads.journal import Journal
from workloads.journal_tables import read_journal
from workloads.recorder import Recorder
from workloads.registry import workload
from workloads.session import Access

NODES = ("n1", "n2", "n3")
CLAIM_PER_S = 20_000
CPU_SHARE_MIN = 0.8
OFFERED_PER_S = {"null": 80_000.0, "loopback": 20_000.0}
"""more than can be sent, but not by much: counting what is skipped takes time, too"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round."""

    per_s: float
    per_cpu_s: float
    cpu_share: float
    unknown: int
    """operations that ended with info"""


def answers() -> dict[int, bytes]:
    """One answer for each request of the register workload: api key → frame without its correlation id's value."""
    partition = PartitionProduceResponse(
        index=i32(0), error_code=ErrorCode.none, base_offset=i64(1), record_errors=(), error_message=None
    )
    topic = TopicProduceResponse(name=TOPIC_NAME, partition_responses=(partition,))
    return {
        READ: encode_response(ReadResponse(error_code=ErrorCode.none, written=True, value=i64(1)), 0),
        COMPARE_AND_SET: encode_response(
            CompareAndSetResponse(error_code=ErrorCode.none, swapped=True, offset=i64(1)), 0
        ),
        int(ProduceRequest.__api_key__): encode_response(ProduceResponse(responses=(topic,)), 0),
    }


class Echo(asyncio.Protocol):
    """Answers each request at once, without looking further than at its api key."""

    def __init__(self, frames: dict[int, bytes]) -> None:
        self._frames = frames
        self._splitter = FrameSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        for payload in self._splitter.feed(data):
            frame = self._frames[int.from_bytes(payload[:2], "big")]
            self._transport.write(frame[:4] + payload[4:8] + frame[8:])


def serve(pipe: Pipe) -> None:
    """Be the other process: tell the port, serve until killed."""

    async def main() -> None:
        frames = answers()
        server = await asyncio.get_running_loop().create_server(lambda: Echo(frames), "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def connector(port: int) -> Connect:
    """Connects to the echo server, whatever node is asked for."""

    async def connect(node: str) -> socket.socket:  # noqa: ARG001 - one server plays all nodes
        opened = socket.socket()
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
        return opened

    return connect


def measure(access: Access, rate: float, seconds: float, concurrency: int, seed: int) -> Measured:
    """Load for so long, and count what was recorded."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), "benchmark/throughput")
        started_ns = time.monotonic_ns()
        plan = workload("register").make_plan(random.Random(seed), {"keys": 64})
        load = Load(
            access,
            plan.load,
            Recorder(journal, lambda: time.monotonic_ns() - started_ns),
            random.Random(seed + 1),
            LoadOptions(rate=rate, concurrency=concurrency, timeout_s=5.0),
        )

        wall_s, cpu_s = time.perf_counter(), time.process_time()
        result = asyncio.run(load.run(seconds))
        journal.close()
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        if result.crashes:
            sys.exit(f"a client crashed: {result.crashes[0]}")
        operations = read_journal(Path(folder)).tables["operations"]
        count = operations.num_rows
        return Measured(count / wall_s, count / cpu_s, cpu_s / wall_s, operations["status"].to_pylist().count("info"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--concurrency", type=int, default=64)
    chosen = parser.parse_args()

    async def nowhere(node: str) -> socket.socket:
        raise OSError(f"{node} is inside the controller")

    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port = ours.recv()
        judged = None
        for name in ("null", "loopback"):
            rounds = []
            for seed in range(chosen.rounds):
                access = (
                    Access(nowhere, NODES, NullObjects())
                    if name == "null"
                    else Access(connector(port), NODES, ReferenceClients())
                )
                rounds.append(measure(access, OFFERED_PER_S[name], chosen.seconds, chosen.concurrency, seed))
            per_s = statistics.median(each.per_s for each in rounds)
            per_cpu_s = statistics.median(each.per_cpu_s for each in rounds)
            share = statistics.median(each.cpu_share for each in rounds)
            if name == "null":
                judged = 0 if per_s >= CLAIM_PER_S else 1 if share >= CPU_SHARE_MIN else 2
            print(
                f"{name:<9} median of {len(rounds)}: {per_s:>7,.0f} operations/s, {per_cpu_s:>7,.0f} a CPU second, "
                f"{share:.0%} of a CPU, {sum(each.unknown for each in rounds)} without a known end; "
                f"rounds {' '.join(f'{each.per_s:,.0f}' for each in rounds)}"
            )
        return 1 if judged is None else judged
    finally:
        server.kill()
        server.join()


if __name__ == "__main__":
    sys.exit(main())
