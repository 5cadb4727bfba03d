"""The backend ``local`` for the registry: see :class:`clusters.backends.backend.Backend`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.backends import ledger as ledgers
from clusters.backends.backend import Finding, Place, Planned
from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.doctor import doctor
from clusters.backends.local.plan import plan_nodes
from clusters.cluster import NodeSpec


def plan(run: Path, voters: int, observers: int, place: Place) -> Planned:
    """Every lab has the same addresses: labs do not see each other."""
    del place
    return Planned(plan_nodes(run, voters, observers))


def make(nodes: Sequence[NodeSpec], place: Place, ledger: Path | None = None) -> LocalCluster:
    """A lab that is not up yet."""
    return LocalCluster(nodes, ledger, place.filesystem)


def examine(ledger: Path | None = None) -> list[Finding]:
    """Make, cut, use and remove a lab of two nodes."""
    return doctor(ledger)


def end(entry: ledgers.Entry) -> str | None:
    """Kill the agents, and with them everything in the lab."""
    return ledgers.end_all(ledgers.living(entry.agents))


def remains(entry: ledgers.Entry) -> Sequence[str]:
    """Agents that outlived their controller."""
    return tuple(f"process {agent.pid}" for agent in ledgers.living(entry.agents))


def strays() -> Mapping[str, str]:
    """None: labs end with their controllers, and what outlived one is known by the ledger only."""
    return {}
