"""A quorum of Kafka's controllers on loopback, without namespaces: enough to see that a release runs and what it leaves.

Keeps the store's layout (``nodes/<node>/data``, ``output``, ``collections``), so that what is left is read as in a real run. Everything
that is started is ended by its process, and every wait is bounded.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from clusters.backends.files import copy_matching
from clusters.candidates.candidate import Quorum
from clusters.candidates.kafka.candidate import KafkaCandidate
from clusters.candidates.kafka.formatting import directory_id_for
from clusters.cluster import NodeSpec
from clusters.collect.collection import Collection
from clusters.evidence.identity import node_name
from tests.clusters.kafka.manifests import TIMERS, manifest
from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry
from workloads.history.operation import Completion, Status

SEED = 7
CLUSTER_ID = "LyeNLUNTTKcxeN_DqNNTAA"
_EXIT_TIMEOUT_S = 10


def free_ports(count: int) -> list[int]:
    """Ports that nobody has on loopback now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def quorum(run: Path, kind: str, size: int = 3) -> Quorum:
    """A quorum of ``size`` voters whose files lie below ``run``."""
    nodes = tuple(
        NodeSpec(node_name(number), number, "voter", "127.0.0.1", port, run / "nodes" / node_name(number))
        for number, port in enumerate(free_ports(size), start=1)
    )
    identities = {node.name: directory_id_for(SEED, node.name, 0) for node in nodes}
    return Quorum(CLUSTER_ID, nodes, TIMERS, kind, identities, SEED)


@dataclass
class Loopback:
    """The running quorum."""

    run: Path
    candidate: KafkaCandidate
    entry: CandidateEntry
    quorum: Quorum
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    directory_ids: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, bool] = field(default_factory=dict)
    collected: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.quorum.nodes)

    def spec(self, name: str) -> NodeSpec:
        return next(node for node in self.quorum.nodes if node.name == name)

    def format(self, name: str, *, first: bool = True) -> None:
        disk = self.candidate.format(self.quorum, self.spec(name), first=first)
        self.directory_ids[name], self.assigned[name] = disk.directory_id, disk.assigned

    def start(self, name: str) -> None:
        number = self.incarnations[name] = self.incarnations.get(name, 0) + 1
        launch = self.candidate.launch(self.quorum, self.spec(name), number)
        launch.output.parent.mkdir(parents=True, exist_ok=True)
        with launch.output.open("ab") as out:
            self.processes[name] = subprocess.Popen(
                launch.argv, env={**os.environ, **launch.env}, cwd=launch.cwd, stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self, name: str, *, final: bool = False) -> None:
        """kill -9, and a copy of the evidence."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(_EXIT_TIMEOUT_S)
        spec, number = self.spec(name), self.collected.get(name, 0)
        self.collected[name] = number + 1
        target = spec.directory / "collections" / str(number)
        target.mkdir(parents=True)
        copy_matching(spec.data, self.candidate.keep(), target)
        collection = Collection(
            node=name,
            directory_id=self.directory_ids[name],
            assigned=self.assigned[name],
            incarnation=self.incarnations[name],
            number=number,
            ts_ns=0,
            final=final,
            reason="end" if final else "kill",
        )
        (target / "collection.json").write_bytes(msgspec.json.encode(collection))

    def wipe(self, name: str) -> None:
        """Format an empty disk in the place of an ended node's."""
        spec = self.spec(name)
        spec.data.rename(spec.directory / f"data.wiped-{len(list(spec.directory.glob('data.wiped-*')))}")
        self.format(name, first=False)

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(_EXIT_TIMEOUT_S)
        self.processes.clear()

    async def connect(self, name: str) -> socket.socket:
        spec = self.spec(name)
        made = socket.socket()
        made.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(made, (spec.address, spec.port))
        except BaseException:
            made.close()
            raise
        return made

    def manifest(self) -> Manifest:
        nodes = tuple(
            NodeEntry(
                name=node.name,
                node_id=node.node_id,
                role=node.role,
                address=node.address,
                port=node.port,
                host="loopback",
                directory_id=self.quorum.directory_ids[node.name],
            )
            for node in self.quorum.nodes
        )
        return manifest(started_at=self.started_at, candidate=self.entry, nodes=nodes)


async def until_ok(ask: Callable[[], Awaitable[Completion]], timeout_s: float = 60.0) -> Completion:
    """Ask until the answer is ok; fails the test when it is not in time."""
    last: Completion | None = None
    try:
        async with asyncio.timeout(timeout_s):
            while last is None or last.status is not Status.OK:
                if last is not None:
                    await asyncio.sleep(0.05)
                last = await ask()
    except TimeoutError:
        raise AssertionError(f"no success within {timeout_s} s; the last answer was {last}") from None
    return last
