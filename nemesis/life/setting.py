"""What a run's nodes are told of each other, how clients reach them, and what they said last."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from uuid import UUID

from clusters.candidates.candidate import Quorum
from clusters.cluster import Cluster
from clusters.evidence.identity import uuid_to_text
from nemesis.seeds import stream
from workloads.clients.client import Connect
from workloads.history.manifest import Timers

_LAST_LINES = 12
_LINE_CHARACTERS = 300
_TAIL_BYTES = 65_536


def draw_quorum(cluster: Cluster, kind: str, timers: Timers, seed: int) -> Quorum:
    """The quorum of a cluster's nodes; its ids are drawn from the seed."""
    draw = stream(seed, "identities")
    identities = {node.name: uuid_to_text(UUID(int=draw.getrandbits(128), version=4)) for node in cluster.nodes}
    return Quorum(
        cluster_id=uuid_to_text(UUID(int=draw.getrandbits(128), version=4)),
        nodes=tuple(cluster.nodes),
        timers=timers,
        kind=kind,
        directory_ids=identities,
        seed=seed,
        site=cluster.site,
    )


def connector(cluster: Cluster) -> Connect:
    """How clients connect to the nodes of a cluster."""
    addresses = {node.name: (node.address, node.port) for node in cluster.nodes}

    async def connect(node: str) -> socket.socket:
        loop = asyncio.get_running_loop()
        opened = cluster.client_socket()
        try:
            await loop.sock_connect(opened, addresses[node])
        except BaseException:
            opened.close()
            raise
        return opened

    return connect


def last_words(directory: Path) -> str:
    """The end of what a node's last process printed, each line on a line of its own; says so where there is nothing."""
    outputs = sorted((int(path.stem), path) for path in (directory / "output").glob("*.log") if path.stem.isdigit())
    if not outputs:
        return "\n           (there is no output)"
    with outputs[-1][1].open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
        said = file.read().decode("utf-8", errors="replace")
    lines = [line.rstrip()[:_LINE_CHARACTERS] for line in said.splitlines() if line.strip()][-_LAST_LINES:]
    return "".join(f"\n           | {line}" for line in lines) or "\n           (it printed nothing)"
