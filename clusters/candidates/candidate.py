"""What a candidate says of itself: how to install, format and start one node, what it promises, what it leaves behind."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from clusters.cluster import HERE, Launch, NodeSpec, Site
from clusters.wire.metadata_topic import PARTITION_NAME
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
    formatted: Mapping[str, str] = field(default_factory=dict)
    """node → directory id of the disk that it has now, for nodes that are launched"""

    @property
    def voters(self) -> tuple[NodeSpec, ...]:
        """The initial voters."""
        return tuple(node for node in self.nodes if node.role == "voter")


@dataclass(frozen=True, slots=True)
class Disk:
    """A formatted disk: its directory id, and whether the framework assigned it because the release writes none."""

    directory_id: str
    assigned: bool = False


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Where things lie on a disk, as patterns (:meth:`pathlib.Path.glob`) relative to it. The defaults are Kafka's."""

    everything: tuple[str, ...] = ("*.*", f"{PARTITION_NAME}/*")
    """all files that a node keeps on its disk: what a copy of the disk holds"""
    kinds: Mapping[str, str] = field(
        default_factory=lambda: {
            "segment": f"{PARTITION_NAME}/*.log",
            "quorum-state": f"{PARTITION_NAME}/quorum-state",
            "snapshot": f"{PARTITION_NAME}/*-*.checkpoint",
        }
    )
    """kind of file that a fault damages → the files of that kind; a kind that the candidate has not is absent"""


@dataclass(frozen=True, slots=True)
class Traits:
    """What the framework must know of a candidate before anything of it is installed."""

    protocol: str
    """whose client-facing protocol it speaks, which decides clients, pace and options: ``kafka``, ``reference``"""
    stop_signal: int = signal.SIGTERM
    """what asks a node to end in good order"""
    stop_patience_s: float | None = None
    """how long that may take; None: the framework's own"""
    timers: Mapping[str, int] = field(default_factory=dict)
    """timers of :class:`workloads.history.manifest.Timers`, in ms, that the candidate has whatever it is asked for"""
    disk: DiskFiles = field(default_factory=DiskFiles)
    observers: bool = True
    """whether a node can replicate without being a voter"""
    description: str = ""
    """the text of the file that describes it, kept with each run; empty for a candidate that is part of the project"""


class Candidate(Protocol):
    """One implementation, in one release and configuration. ``entry`` is filled after :meth:`install`."""

    @property
    def traits(self) -> Traits:
        """What it is like."""
        ...

    @property
    def version(self) -> str:
        """Its release, for people; empty where there is only one."""
        ...

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
