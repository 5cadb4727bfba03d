"""What a fault may touch and ask: the cluster, the nodes, and who leads now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from clusters.backends.shim.preload import Shim
from clusters.cluster import Cluster
from nemesis.faults.in_force import InForce
from nemesis.life.nodes import Nodes
from workloads.clients.voter_changes import Voter, VoterChanges

_POLL_S = 0.05


class LeaderWatch(Protocol):
    """Who leads, as the nodes say themselves."""

    def current_leader(self) -> tuple[str, int] | None:
        """The freshest claim of leadership with the highest epoch: (node, epoch)."""
        ...

    def voters(self) -> frozenset[str]:
        """The voters, ``n1/<directory id>``, that the leader lists; empty while nobody leads."""
        ...

    def last_answer_ns(self, node: str) -> int | None:
        """When the node last answered a sample at all."""
        ...


@dataclass(frozen=True, slots=True)
class Field:
    """Handed to every fault."""

    cluster: Cluster
    nodes: Nodes
    watch: LeaderWatch
    now_ns: Callable[[], int]
    stop_patience_s: float
    in_force: InForce = field(default_factory=InForce)
    voter_changes: VoterChanges | None = None
    """None where the candidate's voters cannot be changed"""
    shims: Mapping[str, Shim] = field(default_factory=dict)
    """what is preloaded into every node, by name"""

    def voter(self, node: str) -> Voter:
        """The identity that a node has now, as a voter."""
        directory_id, _ = self.nodes.identities()[node]
        at = self.nodes.specification(node)
        return Voter(node, directory_id or "", at.address, at.port)

    async def leader(self, patience_s: float, *, other_than: str | None = None) -> tuple[str, int] | None:
        """Wait until somebody leads (somebody other than ``other_than``); None when nobody does within ``patience_s``."""
        deadline = self.now_ns() + int(patience_s * 1e9)
        while True:
            known = self.watch.current_leader()
            if known is not None and known[0] != other_than and known[0] not in self.nodes.down():
                return known
            if self.now_ns() >= deadline:
                return None
            await asyncio.sleep(_POLL_S)

    async def alive(self, node: str) -> bool:
        """Whether the node has a process; a backend may take its time to say, so the loop does not wait for it."""
        return await asyncio.to_thread(self.cluster.alive, node)

    async def answers(self, node: str, since_ns: int, patience_s: float) -> bool:
        """Wait until the node has answered a sample after ``since_ns``; a node without a process never will."""
        deadline = self.now_ns() + int(patience_s * 1e9)
        while (self.watch.last_answer_ns(node) or -1) <= since_ns:
            if self.now_ns() >= deadline or not await self.alive(node):
                return False
            await asyncio.sleep(_POLL_S)
        return True
