"""What a run's nodes are told of each other, and how clients reach them."""

from __future__ import annotations

import asyncio
import socket
from uuid import UUID

from clusters.candidates.candidate import Quorum
from clusters.cluster import Cluster
from clusters.evidence.identity import uuid_to_text
from nemesis.seeds import stream
from workloads.clients.client import Connect
from workloads.history.manifest import Timers


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
