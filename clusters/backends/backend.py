"""What a backend is to the command line: a name, a plan of nodes, a cluster, and the ways to examine and to clean up its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from clusters.backends.ledger import Entry
from clusters.cluster import Cluster, NodeSpec


@dataclass(frozen=True, slots=True)
class Place:
    """What a person said about where nodes shall run, beside the backend's name. Each backend reads what is its own."""

    image: str | None = None
    """docker: an image to use as it is; None: the project's own, see ``nemesis image build``"""
    inventory: Path | None = None
    """ssh: the TOML file that lists the machines"""
    filesystem: str | None = None
    """each node's disk is a file system of its own, of this kind, so that it can fail; None: a directory"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried. ``remedy`` is empty where it worked, or where an earlier failure kept it from being tried."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """The nodes of a run that is about to begin, and what the manifest keeps of where they run."""

    nodes: tuple[NodeSpec, ...]
    place: Mapping[str, str] = field(default_factory=dict)


class Backend(Protocol):
    """One kind of place. Nothing here is imported before it is asked for: see :mod:`clusters.backends.registry`."""

    def plan(self, run: Path, voters: int, observers: int, place: Place) -> Planned:
        """Name, place and address the nodes of a run in the folder ``run``; changes nothing anywhere.

        Raises Problem for a place that cannot be used, with what mends it.
        """
        ...

    def make(self, nodes: Sequence[NodeSpec], place: Place, ledger: Path | None = None) -> Cluster:
        """The cluster of these nodes; nothing exists before :meth:`clusters.cluster.Cluster.up`."""
        ...

    def examine(self, ledger: Path | None = None) -> list[Finding]:
        """What this machine permits, found by doing it; leaves nothing behind."""
        ...

    def end(self, entry: Entry) -> str | None:
        """End and remove what a dead controller's ledger entry stands for; returns what went wrong. May be called twice."""
        ...

    def remains(self, entry: Entry) -> Sequence[str]:
        """What still exists of it, for people; empty when nothing does."""
        ...

    def strays(self) -> Mapping[str, str]:
        """Lab → run of what dead controllers of this machine left and the place itself tells of, whether or not the ledger does.

        Empty where the place cannot be asked.
        """
        ...
