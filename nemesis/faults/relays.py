"""The relays of a run: one beside every node, there before the first process, in runs whose faults act on single messages.

The kernel decides at a connection's first packet whether it is turned to the relay, so a relay that came later would reset what is
connected already.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes
from clusters.cluster import Cluster
from workloads.problem import Problem

RELAY = "relay"


def begin_relays(cluster: Cluster) -> None:
    """Put a relay beside every node. Raises Problem ``relay-refused``, with what mends it."""
    for node in cluster.nodes:
        peers = {peer.name: (peer.address, peer.port) for peer in cluster.nodes if peer.name != node.name}
        cluster.accompany(node.name, RELAY, {"node": node.name, "peers": peers})


def obstacle_to_relays() -> str:
    """Why this machine's kernel lets no relay be, found by making two; empty when it does."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(plan_nodes(Path(folder, "probe"), 2), Path(folder, "ledger"))
        try:
            cluster.up()
            begin_relays(cluster)
        except Problem as problem:
            return f"{problem.what} {problem.remedy}".strip()
        finally:
            cluster.down()
    return ""
