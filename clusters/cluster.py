"""What a backend gives: nodes, files, processes and links. Policy (when to wait, what to collect) lives above it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from clusters.links import Links, Pair


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node: where it listens and where its files are.

    ``directory`` is ``<run>/nodes/<name>``; a candidate keeps its live disk in ``directory/data``, the backend writes the
    output of incarnation *k* to ``directory/output/<k>.log``.
    """

    name: str
    node_id: int
    role: str
    address: str
    port: int
    directory: Path
    host: str = "local"
    """the machine that the node runs on, as the backend calls it"""

    @property
    def data(self) -> Path:
        """The node's disk: what a wipe moves aside."""
        return self.directory / "data"


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one process of a node."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    output: Path
    """standard output and error are appended here"""
    needs: tuple[Path, ...] = ()
    """files and directories below the node's directory that the controller wrote and the process reads (its configuration)"""
    writes: tuple[Path, ...] = ()
    """files below the node's directory, outside of its disk, that the process writes and the evidence needs (its trace)"""


@dataclass(frozen=True, slots=True)
class Site:
    """What the nodes of a cluster call the controller's files and programs.

    ``argv`` and ``env`` of a :class:`Launch`, and whatever a candidate writes into a node's configuration, are in the node's
    words: :meth:`inside`. All other paths (``cwd``, ``output``, ``needs``, ``writes``, ``NodeSpec.directory``) are the
    controller's, and the backend translates them.
    """

    moved: tuple[tuple[Path, PurePosixPath], ...] = ()
    """(directory on the controller, the same on every node), innermost first; what is below none has the same path on both"""
    python: str = sys.executable
    """a Python of this project's releases that has what the reference needs"""
    java: str | None = None
    """a Java of 17 or newer; None: the one that the controller finds for itself"""
    own: bool = True
    """nodes run this machine's programs, with the environment of the controller"""

    def inside(self, path: Path) -> str:
        """What a node calls a path of the controller."""
        for here, there in self.moved:
            if path.is_relative_to(here):
                return str(there / path.relative_to(here))
        return str(path)


HERE = Site()
"""nodes that are processes of this machine"""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """How a node's processes fared for CPU since they started, in seconds (from the kernel's own accounting)."""

    running_s: float
    waiting_s: float
    """runnable and not given a CPU (run-queue delay)"""


@dataclass(frozen=True, slots=True)
class Clock:
    """How far a node's clocks are ahead of the controller's, in ns; negative when they are behind."""

    ahead_ns: int
    """of CLOCK_MONOTONIC"""
    wall_ahead_ns: int
    error_ns: int
    """both are known to within this"""


class Cluster(Protocol):
    """A place where nodes run. All calls block, are safe to call from any thread, and raise
    :class:`workloads.problem.Problem` when the place itself fails.

    In order: :meth:`up`, :meth:`install`, then for each node :meth:`place` and :meth:`start`; at each end of a process
    :meth:`fetch`; at last :meth:`down`.
    """

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        """All nodes, in order of node id."""
        ...

    @property
    def site(self) -> Site:
        """What nodes call the controller's files and programs; known once the cluster is up."""
        ...

    def up(self, say: Callable[[str], None] = ...) -> None:
        """Reach the hosts, make what nodes run in and the links between. Whatever is made is in the ledger before it exists.

        ``say`` tells what takes time, with sizes and times.
        """
        ...

    def install(self, artifacts: Sequence[Path]) -> None:
        """Bring the candidate's files (:meth:`.Candidate.artifacts`) to every node, whole and with the same checksums; nodes
        may read them and not write them."""
        ...

    def place(self, node: str) -> None:
        """Make the disk that the controller has just formatted in ``NodeSpec.data`` the disk of the node, which has none.

        Where a node's files are not on the controller's disk, the controller's ``data`` is gone afterwards.
        """
        ...

    def wipe(self, node: str, aside: str) -> None:
        """Move the disk of a node without processes aside, to the name ``aside`` beside it; the node has no disk then.

        A directory ``aside`` is in ``NodeSpec.directory`` afterwards, an empty one where the files are elsewhere.
        """
        ...

    def put_back(self, node: str, aside: str) -> None:
        """Make the disk that :meth:`wipe` moved aside under this name the disk of the node, which has none, again."""
        ...

    def fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        """Copy those files of the node's disk that match into ``target``, with their paths relative to the disk.

        ``patterns`` are as for :meth:`pathlib.Path.glob`. The node's output and what its launches named in ``writes`` are whole
        in ``NodeSpec.directory`` afterwards. Raises Problem for evidence that cannot be copied faithfully: too large, or no
        regular file (a node's symbolic link is never followed).
        """
        ...

    def down(self) -> None:
        """End every process and remove all that was made; may be called twice and after a failure."""
        ...

    def start(self, node: str, launch: Launch) -> None:
        """Start the node's process; raises when one is running."""
        ...

    def alive(self, node: str) -> bool:
        """Whether the node's process exists (paused ones do)."""
        ...

    def exit_status(self, node: str) -> int | None:
        """The exit status of the last process that ended (negative: minus the signal), None while it runs."""
        ...

    def signal(self, node: str, number: int) -> None:
        """Send a signal to every process of the node."""
        ...

    def wait_exit(self, node: str, timeout_s: float) -> bool:
        """Wait until the node has no process; False when the time is over."""
        ...

    def cut(self, links: Links) -> None:
        """Make the link matrix exactly this one: cut what it cuts, open everything else."""
        ...

    def probe(self, pairs: Sequence[Pair]) -> Mapping[Pair, bool]:
        """Whether a datagram sent at each pair's source arrives at its destination now."""
        ...

    def client_socket(self) -> socket.socket:
        """A new, unconnected, non-blocking TCP socket from which every node can be reached, whatever is cut."""
        ...

    def cpu(self, node: str) -> CpuUse | None:
        """CPU use of the node's processes, None when there are none."""
        ...

    def accompany(self, node: str, program: str, settings: Mapping[str, Any]) -> Any:
        """Start a companion (:mod:`clusters.backends.companions`) beside a node; returns what it says when it has begun.

        It is in the node's network and no part of the node: signals, restarts and accounts of the node leave it alone. Raises its
        Problem, or ``companion-runs``, ``companion-not-started``, ``companion-ended``, ``companion-silent``.
        """
        ...

    def companion(self, node: str, program: str, op: str, **fields: Any) -> Any:
        """Ask a companion; returns its answer. Raises its Problem, or ``companion-missing``, ``companion-ended``, ``companion-silent``."""
        ...

    def dismiss(self, node: str, program: str) -> None:
        """Let a companion undo what it made and end; :meth:`down` dismisses all. Nothing happens when there is none."""
        ...

    def clocks(self) -> Mapping[str, Clock]:
        """How far the clocks of nodes on other machines are ahead; nodes that read the controller's own are not listed."""
        ...
