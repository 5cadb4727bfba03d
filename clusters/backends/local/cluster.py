"""The backend ``local``: each node a process in a network namespace of its own on this machine, as root or as an ordinary user."""

from __future__ import annotations

import os
import signal
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clusters.backends import files, ledger
from clusters.backends.image_disks import ImageDisks, Room
from clusters.backends.local.channel import Channel
from clusters.backends.local.plan import check_addresses
from clusters.backends.shim_disks import KIND as SHIM
from clusters.backends.shim_disks import ShimDisks
from clusters.cluster import HERE, Clock, CpuUse, Launch, NodeSpec, Site
from clusters.disks import PowerCut, no_such_disks
from clusters.links import Links, Pair
from workloads.problem import Problem

LAB_MARK = "NEMESIS_LAB"
"""environment variable that every process of a lab carries"""


class LocalCluster:
    """Implements :class:`clusters.cluster.Cluster`. Safe to call from any number of threads at a time.

    A node is as alive as its main process: when that ends, by itself or by a signal, whatever else the node has started is killed.
    A node's environment is this process's own, changed by ``Launch.env``.
    """

    def __init__(
        self, nodes: Sequence[NodeSpec], ledger_directory: Path | None = None, filesystem: str | None = None
    ) -> None:
        """``filesystem``: each node's disk is one of its own, in the lab's mount namespace (:mod:`..image_disks`), or ``shim``, a
        directory that is durable at sync only (:mod:`..shim_disks`).
        """
        self._filesystem = filesystem
        self._disks: ImageDisks | ShimDisks | None = None
        self._nodes = tuple(sorted(nodes, key=lambda node: node.node_id))
        self._names = frozenset(node.name for node in self._nodes)
        self._ledger = ledger_directory or ledger.default_directory()
        self._lab = f"lab-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._channel: Channel | None = None
        self._agent_pid = 0

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        """All nodes, in order of node id."""
        return self._nodes

    @property
    def lab(self) -> str:
        """The lab's name: the ledger's key, and the value of ``NEMESIS_LAB`` in the environment of its processes."""
        return self._lab

    @property
    def site(self) -> Site:
        """Nodes are processes of this machine."""
        return HERE

    def up(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Make the lab, in a tenth of a second.

        Raises Problem ``namespaces-not-permitted``, ``links-not-available``, ``ledger-not-writable``, …
        """
        del say
        if self._channel is not None:
            raise Problem("lab-exists", f"{self._lab} is up already.", "Take it down first.")
        addresses = {node.name: node.address for node in self._nodes}
        check_addresses(addresses)
        run = self._nodes[0].directory.parent.parent
        entry = ledger.new_entry(self._lab, run)
        ledger.write(self._ledger, entry)
        self._channel = Channel({LAB_MARK: self._lab})
        try:
            agents = [ledger.started(self._channel.spawn())]
            entry = msgspec.structs.replace(entry, agents=tuple(filter(None, agents)))
            ledger.write(self._ledger, entry)
            hello = self._channel.call("plan", addresses=addresses)
            self._agent_pid = hello["host_pid"]
            agents.append(ledger.started(self._agent_pid))
            ledger.write(self._ledger, msgspec.structs.replace(entry, agents=tuple(filter(None, agents))))
            if self._filesystem == SHIM:
                self._disks = ShimDisks(self._nodes)
            elif self._filesystem is not None:
                self._disks = ImageDisks(self._nodes, self._filesystem, Room(self._agent_pid))
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End every process and remove all that was made. Raises Problem ``lab-survives``; the ledger then keeps the entry."""
        channel, self._channel = self._channel, None
        if channel is not None and not channel.close():
            raise Problem(
                "lab-survives",
                f"The lab agent (process {self._agent_pid}) does not end after kill -9.",
                "`nemesis clean` shows and ends what is left.",
            )
        if self._disks is not None:
            self._disks.close()
        ledger.erase(self._ledger, self._lab)

    def install(self, artifacts: Sequence[Path]) -> None:
        """Nothing to do: nodes see the controller's files."""

    def place(self, node: str) -> None:
        """The disk was formatted where the node has it; one with a file system of its own is made from that."""
        self._known(node)
        if self._disks is not None:
            self._disks.place(node)

    def wipe(self, node: str, aside: str) -> None:
        """Rename the disk. Raises Problem ``disk-not-moved``."""
        if self._disks is not None:
            self._disks.wipe(self._known(node), aside)
            return
        directory = self._spec(node).directory
        files.move_aside(directory, self._spec(node).data.name, aside)

    def put_back(self, node: str, aside: str) -> None:
        """Rename it back. Raises Problem ``disk-not-moved``."""
        if self._disks is not None:
            self._disks.put_back(self._known(node), aside)
            return
        directory = self._spec(node).directory
        files.move_aside(directory, aside, self._spec(node).data.name)

    def fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        """Copy evidence from the disk; see :func:`clusters.backends.files.copy_matching`."""
        if self._disks is not None:
            self._disks.fetch(self._known(node), patterns, target)
            return
        files.copy_matching(self._spec(node).data, patterns, target)

    @property
    def disk_kind(self) -> str | None:
        """The file system that each node's disk has of its own."""
        return self._filesystem

    def cut_power(self, node: str, torn: float | None) -> PowerCut:
        """Shut the disk's file system down without a flush of its journal, and mount it again."""
        return self._own_disks.cut_power(self._known(node), torn)

    def break_disk(self, node: str, how: str) -> str:
        """Fill the disk, make it read-only, or let every access fail."""
        return self._own_disks.break_disk(self._known(node), how)

    def mend_disk(self, node: str) -> None:
        """Make room again, or mount it again."""
        self._own_disks.mend_disk(self._known(node))

    def start(self, node: str, launch: Launch) -> None:
        """Start the node's process. Raises Problem ``node-runs`` or ``node-not-started``."""
        launch.output.parent.mkdir(parents=True, exist_ok=True)
        self._live.call(
            "start",
            node=self._known(node),
            argv=list(launch.argv),
            env={**os.environ, **launch.env, LAB_MARK: self._lab},
            cwd=str(launch.cwd),
            output=str(launch.output.absolute()),
        )

    def alive(self, node: str) -> bool:
        """Whether the node's main process exists (paused ones do)."""
        return bool(self._live.call("alive", node=self._known(node)))

    def exit_status(self, node: str) -> int | None:
        """The exit status of the last process that ended (negative: minus the signal), None while it runs."""
        status = self._live.call("status", node=self._known(node))
        return None if status is None else int(status)

    def signal(self, node: str, number: int) -> None:
        """Send a signal to every process of the node, also to those with other parents, sessions or groups.

        SIGKILL returns when all are gone, SIGSTOP when all stand still, both after 5 s at most. Nothing happens to a node without
        processes. Raises Problem ``node-not-stopped``.
        """
        settled = self._live.call("signal", node=self._known(node), number=int(number))
        if not settled and number == signal.SIGSTOP:
            raise Problem("node-not-stopped", f"Not every process of {node} stands still 5 s after SIGSTOP.")

    def wait_exit(self, node: str, timeout_s: float) -> bool:
        """Wait until the node has no process; False when the time is over."""
        return bool(self._live.call("wait", timeout_s + 30.0, node=self._known(node), timeout_s=timeout_s))

    def cut(self, links: Links) -> None:
        """Make the link matrix exactly this one. From one partition to another nothing slips through between."""
        for pair in links.cut:
            self._known(*pair)
        self._live.call("cut", pairs=sorted(links.cut))

    def probe(self, pairs: Sequence[Pair]) -> Mapping[Pair, bool]:
        """Whether a datagram arrives, for each pair; at most 0.15 s for all of them, and at once when all are open."""
        for pair in pairs:
            self._known(*pair)
        arrived = self._live.call("probe", pairs=list(pairs))
        return dict(zip(pairs, arrived, strict=True))

    def client_socket(self) -> socket.socket:
        """A new, unconnected, non-blocking TCP socket from which every node can be reached, whatever is cut."""
        return self._live.take_socket()

    def cpu(self, node: str) -> CpuUse | None:
        """CPU use of the node's processes since its start, None when there are none."""
        seconds = self._live.call("cpu", node=self._known(node))
        return None if seconds is None else CpuUse(*seconds)

    def press_cpu(self, node: str, burners: int, limit_s: float) -> int:
        """Let all threads of the node share one CPU with burners; returns how many threads there were. See :mod:`.pressure`."""
        return int(self._live.call("press_cpu", node=self._known(node), burners=burners, limit_s=limit_s))

    def release_cpu(self, node: str) -> None:
        """End the burners and give the node its CPUs back."""
        self._live.call("release_cpu", node=self._known(node))

    def limit_memory(self, node: str, headroom_bytes: int) -> int:
        """Bound the address space of the node's processes; returns the bound of the largest one in bytes, 0 when there are no processes."""
        return int(self._live.call("limit_memory", node=self._known(node), headroom_bytes=headroom_bytes))

    def free_memory(self, node: str) -> None:
        """Lift that bound."""
        self._live.call("free_memory", node=self._known(node))

    def accompany(self, node: str, program: str, settings: Mapping[str, Any]) -> Any:
        """Start a companion as a child of the agent, in the node's namespace."""
        return self._live.call("accompany", node=self._known(node), program=program, settings=dict(settings))

    def companion(self, node: str, program: str, op: str, **fields: Any) -> Any:
        """Ask a companion. Raises its Problem, ``companion-missing``, ``companion-ended`` or ``companion-silent``."""
        return self._live.call("companion", node=self._known(node), program=program, asked=op, fields=fields)

    def dismiss(self, node: str, program: str) -> None:
        """Let a companion undo what it made and end; it is killed when it does not."""
        self._live.call("dismiss", node=self._known(node), program=program)

    def write_shared(self, node: str, path: Path, offset: int, data: bytes) -> None:
        """Write over a part of a file that the node maps."""
        self._known(node)
        files.write_shared(path, offset, data)

    def read_shared(self, node: str, path: Path) -> bytes:
        """A file that the node maps, as it is now."""
        self._known(node)
        return files.read_shared(path)

    def file_size(self, node: str, path: Path) -> int:
        """How long a file of the node is; 0 when it is not there."""
        self._known(node)
        return files.file_size(path)

    def clocks(self) -> Mapping[str, Clock]:
        """Nodes read the controller's own clocks."""
        return {}

    @property
    def agent_pid(self) -> int:
        """The host's number of the lab's process 1."""
        return self._agent_pid

    @property
    def _live(self) -> Channel:
        if self._channel is None:
            raise Problem("lab-down", f"{self._lab} is not up.")
        return self._channel

    @property
    def _own_disks(self) -> ImageDisks | ShimDisks:
        if self._disks is None:
            raise no_such_disks()
        return self._disks

    def _spec(self, node: str) -> NodeSpec:
        self._known(node)
        return next(spec for spec in self._nodes if spec.name == node)

    def _known(self, *names: str) -> str:
        for name in names:
            if name not in self._names:
                raise Problem("unknown-node", f"There is no node {name}.", f"Nodes: {', '.join(sorted(self._names))}.")
        return names[0]
