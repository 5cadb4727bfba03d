"""What a backend gives: nodes, files, processes and links. Policy (when to wait, what to collect) lives above it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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


@dataclass(frozen=True, slots=True)
class CpuUse:
    """How a node's processes fared for CPU since they started, in seconds (from the kernel's own accounting)."""

    running_s: float
    waiting_s: float
    """runnable and not given a CPU (run-queue delay)"""


class Cluster(Protocol):
    """A place where nodes run. All calls block for milliseconds, are safe to call from one thread at a time, and raise
    :class:`workloads.problem.Problem` when the place itself fails."""

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        """All nodes, in order of node id."""
        ...

    def up(self) -> None:
        """Make namespaces and links. Whatever is made is in the ledger before it exists."""
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
