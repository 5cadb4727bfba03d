"""Load, sampler, journal and final reads against real processes of the reference, on loopback and without faults."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from clusters.candidates.candidate import Quorum
from clusters.candidates.reference.candidate import ReferenceCandidate
from clusters.cluster import NodeSpec
from clusters.evidence.identity import text_to_uuid, uuid_to_text
from workloads.clients.client import Connect
from workloads.clients.reference import ReferenceClients
from workloads.history.manifest import Timers
from workloads.history.operation import Phase
from workloads.interpreter import FINAL_PROCESSES, SETUP_PROCESSES, Load, LoadOptions, run_to_end
from workloads.journal import Journal
from workloads.journal_tables import read_journal
from workloads.quorum_sampler import QuorumSampler
from workloads.recorder import Recorder
from workloads.registry import workload
from workloads.session import Access

NODES = ("n1", "n2", "n3")
TIMERS = Timers(election_timeout_ms=500, fetch_timeout_ms=1000, check_quorum_ms=1500, request_timeout_ms=1000)
PATIENCE_S = 60.0


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def quorum(folder: Path) -> Iterator[Quorum]:
    """Three processes of the reference."""
    draw = random.Random(5)
    specs = tuple(
        NodeSpec(f"n{number}", number, "voter", "127.0.0.1", port, folder / f"n{number}")
        for number, port in enumerate(free_ports(3), 1)
    )
    made = Quorum(
        cluster_id=uuid_to_text(text_to_uuid("5L6g3nShT-eMCtK--X86sw")),
        nodes=specs,
        timers=TIMERS,
        kind="dynamic",
        directory_ids={spec.name: uuid_to_text(random_uuid(draw)) for spec in specs},
        seed=5,
    )
    candidate = ReferenceCandidate()
    processes = []
    try:
        for spec in specs:
            candidate.format(made, spec, first=True)
            launch = candidate.launch(made, spec, 1)
            launch.output.parent.mkdir(parents=True, exist_ok=True)
            with launch.output.open("wb") as output:
                processes.append(
                    subprocess.Popen(
                        launch.argv, env=dict(launch.env), cwd=launch.cwd, stdout=output, stderr=subprocess.STDOUT
                    )
                )
        yield made
    finally:
        for process in processes:
            process.kill()
            process.wait()


def random_uuid(draw: random.Random) -> UUID:
    return UUID(int=draw.getrandbits(128), version=4)


def connector(made: Quorum) -> Connect:
    addresses = {spec.name: (spec.address, spec.port) for spec in made.nodes}

    async def connect(node: str) -> socket.socket:
        opened = socket.socket()
        opened.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(opened, addresses[node])
        except BaseException:
            opened.close()
            raise
        return opened

    return connect


async def drive(made: Quorum, name: str, journal: Journal, operations: int) -> None:
    started_ns = time.monotonic_ns()

    def now_ns() -> int:
        return time.monotonic_ns() - started_ns

    recorder = Recorder(journal, now_ns)
    access = Access(connector(made), NODES, ReferenceClients())
    sampler = QuorumSampler(access.connect, NODES, now_ns, lambda row: journal.append("quorum_samples", row))
    sampling = asyncio.create_task(sampler.run())
    plan = workload(name).make_plan(random.Random(1), {})
    limits = {"timeout_s": 2.0, "limit_s": PATIENCE_S}
    setup = await run_to_end(
        access, {"n1": plan.setup}, recorder, pinned=False, phase=Phase.LOAD, first_process=SETUP_PROCESSES, **limits
    )
    assert setup == {"n1": True}
    load = Load(access, plan.load, recorder, random.Random(2), LoadOptions(rate=300, concurrency=12, timeout_s=2.0))
    loading = asyncio.create_task(load.run(PATIENCE_S))
    while (load.counters.ok < operations or sampler.current_leader() is None) and not loading.done():
        await asyncio.sleep(0.02)
    load.stop()
    result = await loading
    assert result.crashes == ()
    final = await run_to_end(
        access,
        {node: plan.final(node) for node in NODES},
        recorder,
        pinned=True,
        phase=Phase.FINAL,
        first_process=FINAL_PROCESSES,
        **limits,
    )
    assert final == dict.fromkeys(NODES, True)
    sampling.cancel()
    await asyncio.wait([sampling])
    assert sampling.cancelled()


@pytest.mark.parametrize("name", ["register", "log"])
def test_every_node_serves_reads_and_the_leader_writes(tmp_path: Path, name: str) -> None:
    journal = Journal(tmp_path / "journal", f"test/{os.getpid()}")
    with quorum(tmp_path) as made:
        asyncio.run(asyncio.wait_for(drive(made, name, journal, 200), 4 * PATIENCE_S))
    journal.close()
    tables = read_journal(tmp_path / "journal").tables

    rows = tables["operations"].to_pylist()
    read, change = ("read", ("write", "cas")) if name == "register" else ("poll", ("append",))
    readers = {row["client_node"] for row in rows if row["f"] == read and row["status"] == "ok" and row["pinned"]}
    assert readers == set(NODES), "linearizable reads are answered by every node"
    acknowledged = [row for row in rows if row["f"] in change and row["status"] == "ok"]
    assert acknowledged
    offsets = [row["offset"] for row in acknowledged]
    assert None not in offsets
    assert len(set(offsets)) == len(offsets)
    claims = [row for row in tables["quorum_samples"].to_pylist() if row["claims_leadership"]]
    assert {len(row["voters"]) for row in claims} == {3}
    assert {voter.split("/")[1] for row in claims for voter in row["voters"]} == set(made.directory_ids.values())

    if name == "log":
        appended = {row["input"][0] for row in acknowledged}
        for node in NODES:
            final = [row for row in rows if row["phase"] == "final" and row["client_node"] == node]
            seen = {value for row in final for value in row["output"][1::2]}
            assert appended <= seen
    else:
        final_values = [
            {row["key"]: row["output"] for row in rows if row["phase"] == "final" and row["client_node"] == node}
            for node in NODES
        ]
        assert final_values[0] == final_values[1] == final_values[2]
        assert len(final_values[0]) == 12
