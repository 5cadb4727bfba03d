"""What a candidate says of itself: how to install, format and start one node, what it promises, what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from clusters.cluster import HERE, Launch, NodeSpec, Site
from workloads.history.manifest import CandidateEntry, Manifest, Timers


@dataclass(frozen=True, slots=True)
class Quorum:
    """What every node of one run is configured with."""

    cluster_id: str
    nodes: tuple[NodeSpec, ...]
    timers: Timers
    kind: str
    """``static`` or ``dynamic``"""
    directory_ids: dict[str, str]
    """node → directory id that its first disk is formatted with, chosen before anything starts"""
    seed: int
    site: Site = HERE
    """what nodes call the controller's files and programs"""

    @property
    def voters(self) -> tuple[NodeSpec, ...]:
        """The initial voters."""
        return tuple(node for node in self.nodes if node.role == "voter")


@dataclass(frozen=True, slots=True)
class Disk:
    """A formatted disk: its directory id, and whether the framework assigned it because the release writes none."""

    directory_id: str
    assigned: bool = False


class Candidate(Protocol):
    """One implementation, in one release and configuration. ``entry`` is filled after :meth:`install`."""

    @property
    def workloads(self) -> Sequence[str]:
        """Names of the workloads it can serve, the default first."""
        ...

    @property
    def voter_listener(self) -> str | None:
        """The listener by which a voter that is added tells its endpoint; None without AddRaftVoter and RemoveRaftVoter (KIP-853)."""
        ...

    def install(self, say: Callable[[str], None]) -> CandidateEntry:
        """Fetch and verify what is run (idempotent, cached); ``say`` tells progress with sizes and times."""
        ...

    def artifacts(self) -> Sequence[Path]:
        """Files and directories of the controller that nodes read when they run: code, jars. Known after :meth:`install`."""
        ...

    def format(self, quorum: Quorum, node: NodeSpec, *, first: bool) -> Disk:
        """Format the empty ``node.data`` as an operator would; after a wipe ``first`` is False: a new directory id.

        It happens on the controller; :meth:`clusters.cluster.Cluster.place` brings the disk to the node.
        """
        ...

    def launch(self, quorum: Quorum, node: NodeSpec, incarnation: int) -> Launch:
        """How to start the node on its formatted disk."""
        ...

    def keep(self) -> Sequence[str]:
        """Patterns (:meth:`pathlib.Path.glob`) of the files on a node's disk that are evidence, to copy at each end of a process."""
        ...

    def evidence(self, manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
        """Read what nodes left behind in a stored run: (table name, rows), see ``clusters.evidence.schema``.

        Each copy lies in ``nodes/<node>/collections/<k>/`` with paths relative to the data directory, beside a
        ``collection.json`` (:class:`clusters.collect.collection.Collection`). Torn or foreign files become rows with a
        ``problem`` or raise :class:`workloads.problem.Problem`, and are never misread.
        """
        ...
