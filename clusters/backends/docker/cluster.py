"""The backend ``docker``: each node a container of an image, on an internal network of the run."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clusters.backends import files
from clusters.backends import ledger as ledgers
from clusters.backends.companions.company import Company
from clusters.backends.docker import marks
from clusters.backends.docker.containers import Mount, NodeContainer
from clusters.backends.docker.engine import connect, engine_address
from clusters.backends.docker.image import ensure_base, image_id
from clusters.backends.docker.network import Network
from clusters.backends.image_disks import ImageDisks, Room
from clusters.backends.pressure import Pressure
from clusters.backends.proc import threads
from clusters.cluster import Clock, CpuUse, Launch, NodeSpec, Site
from clusters.disks import PowerCut, no_such_disks
from clusters.links import Links, Pair
from workloads.problem import Problem

SITE = Site(python="python3", java="java", own=False)
"""paths are the same as on the controller, programs are the image's own"""


class DockerCluster:
    """Implements :class:`clusters.cluster.Cluster`. Safe to call from any number of threads at a time.

    ``image`` is used as it is; None stands for the project's own, which is built when the engine has none.
    """

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        image: str | None = None,
        ledger_directory: Path | None = None,
        filesystem: str | None = None,
    ) -> None:
        """``filesystem``: each node's disk is one of its own, mounted where the engine sees it; see :mod:`..image_disks`."""
        self._filesystem = filesystem
        self._disks: ImageDisks | None = None
        self._nodes = tuple(sorted(nodes, key=lambda node: node.node_id))
        self._specs = {node.name: node for node in self._nodes}
        self._image = image
        self._ledger = ledger_directory or ledgers.default_directory()
        self._lab = f"lab-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._client: Any = None
        self._network: Network | None = None
        self._containers: dict[str, NodeContainer] = {}
        self._artifacts: tuple[Path, ...] = ()
        self._ending = threading.Lock()
        self._pressing = threading.Lock()
        self._accompanying = threading.Lock()
        self._pressure = Pressure(self)
        self._company = Company(lambda node: self._net.enter(node))  # noqa: PLW0108 - there is no network yet

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        """All nodes, in order of node id."""
        return self._nodes

    @property
    def site(self) -> Site:
        """The controller's paths and the image's programs."""
        return SITE

    @property
    def lab(self) -> str:
        """The lab's name: the ledger's key, the network's name, and a label of everything that belongs to it."""
        return self._lab

    def up(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Find the image, make network, holders and filters. Raises Problem ``engine-…``, ``image-…``, ``ledger-not-writable``, …"""
        if self._client is not None:
            raise Problem("lab-exists", f"{self._lab} is up already.", "Take it down first.")
        address = engine_address()
        self._client = connect(address)
        try:
            image = self._image or ensure_base(self._client, say)
            if image_id(self._client, image) is None:
                raise unknown_image(image)
            run = self._nodes[0].directory.parent.parent
            entry = ledgers.new_entry(self._lab, run, "docker", {"engine": address})
            ledgers.write(self._ledger, entry)
            if self._filesystem is not None:
                self._disks = ImageDisks(self._nodes, self._filesystem, Room())
            self._network = Network(self._client, entry, self._nodes)
            self._network.build()
            for node in self._nodes:
                labels = marks.labels(entry, node.name)
                holder = self._network.holder(node.name)
                self._containers[node.name] = NodeContainer(self._client, node.name, holder, image, labels)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Remove every container and the network. Raises Problem ``lab-survives``; the ledger then keeps the entry."""
        with self._ending:
            if self._client is None:
                return
            for node in self._containers:
                self._pressure.release_cpu(node)
            self._company.close()
            client, self._client = self._client, None
            problem = marks.remove(client, self._lab)
            for container in self._containers.values():
                container.close()
            if self._network is not None:
                self._network.close()
            client.close()
            if problem is not None:
                raise Problem(
                    "lab-survives",
                    f"The engine does not remove all of {self._lab}: {problem}.",
                    "`nemesis clean` tries it again.",
                )
            if self._disks is not None:
                self._disks.close()
            ledgers.erase(self._ledger, self._lab)

    def install(self, artifacts: Sequence[Path]) -> None:
        """Remember what is mounted, read-only, into every container."""
        self._artifacts = tuple(artifacts)

    def place(self, node: str) -> None:
        """The disk is mounted from where it was formatted; one with a file system of its own is made from that."""
        self._known(node)
        if self._disks is not None:
            self._disks.place(node)

    def wipe(self, node: str, aside: str) -> None:
        """Rename the disk. Raises Problem ``disk-not-moved``, and ``node-runs`` while something would go on writing to it."""
        if self.alive(node):
            raise Problem("node-runs", f"Node {node} has a running process.", "End it before its disk is wiped.")
        spec = self._specs[self._known(node)]
        if self._disks is not None:
            self._disks.wipe(node, aside)
            return
        files.move_aside(spec.directory, spec.data.name, aside)

    def put_back(self, node: str, aside: str) -> None:
        """Rename it back. Raises Problem ``disk-not-moved``."""
        spec = self._specs[self._known(node)]
        if self._disks is not None:
            self._disks.put_back(node, aside)
            return
        files.move_aside(spec.directory, aside, spec.data.name)

    def fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        """Copy evidence from the disk; see :func:`clusters.backends.files.copy_matching`."""
        spec = self._specs[self._known(node)]
        for written in (spec.directory / "trace").glob("*"):
            files.check_regular(written)
        if self._disks is not None:
            self._disks.fetch(node, patterns, target)
            return
        files.copy_matching(spec.data, patterns, target)

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

    @property
    def _own_disks(self) -> ImageDisks:
        if self._disks is None:
            raise no_such_disks()
        return self._disks

    def start(self, node: str, launch: Launch) -> None:
        """Start the node's next container. Raises Problem ``node-runs`` or ``node-not-started``."""
        spec = self._specs[self._known(node)]
        self._live(node).start(launch, self._mounts(spec, launch))

    def alive(self, node: str) -> bool:
        """Whether the node's container runs (paused ones do)."""
        return self._live(node).alive()

    def exit_status(self, node: str) -> int | None:
        """The exit status of the last process that ended (negative: minus the signal), None while it runs."""
        return self._live(node).status()

    def signal(self, node: str, number: int) -> None:
        """SIGKILL and SIGSTOP reach everything of the node, other signals its main process, with which the rest ends.

        Nothing happens to a node without processes.
        """
        self._live(node).signal(number)

    def wait_exit(self, node: str, timeout_s: float) -> bool:
        """Wait until the node has no process; False when the time is over."""
        return self._live(node).wait_exit(timeout_s)

    def cut(self, links: Links) -> None:
        """Make the link matrix exactly this one."""
        for pair in links.cut:
            self._known(*pair)
        self._net.cut(links)

    def probe(self, pairs: Sequence[Pair]) -> Mapping[Pair, bool]:
        """Whether a datagram arrives, for each pair; at most 0.15 s for all of them, and at once when all are open."""
        for pair in pairs:
            self._known(*pair)
        return self._net.probe(pairs)

    def client_socket(self) -> socket.socket:
        """A new, unconnected, non-blocking TCP socket of this machine, from which every node can be reached, whatever is cut."""
        if self._client is None:
            raise self._down()
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def cpu(self, node: str) -> CpuUse | None:
        """CPU use of the node's processes since its start, None when there are none."""
        return self._live(node).cpu()

    def press_cpu(self, node: str, burners: int, limit_s: float) -> int:
        """Let all threads of the node share one CPU with burners; returns how many threads there were."""
        with self._pressing:
            return self._pressure.press_cpu(self._known(node), burners, limit_s)

    def release_cpu(self, node: str) -> None:
        """End the burners and give the node its CPUs back."""
        with self._pressing:
            self._pressure.release_cpu(self._known(node))

    def limit_memory(self, node: str, headroom_bytes: int) -> int:
        """Bound the address space of the node's processes; returns the bound of the largest one in bytes, 0 when there are no processes."""
        with self._pressing:
            return self._pressure.limit_memory(self._known(node), headroom_bytes)

    def free_memory(self, node: str) -> None:
        """Lift that bound."""
        with self._pressing:
            self._pressure.free_memory(self._known(node))

    def members(self, name: str) -> Sequence[tuple[int, Path]]:
        """The node's processes by their numbers on this machine, for :class:`clusters.backends.pressure.Pressure`."""
        return self._live(name).members()

    def threads(self, entry: Path) -> Sequence[int]:
        """The threads of one of them."""
        return threads(entry)

    def accompany(self, node: str, program: str, settings: Mapping[str, Any]) -> Any:
        """Start a companion as a child of the controller, in the network namespace of the node's holder."""
        self._live(node)
        with self._accompanying:
            begun = self._company.accompany(node, program, settings)
        return begun.result()

    def companion(self, node: str, program: str, op: str, **fields: Any) -> Any:
        """Ask a companion. Raises its Problem, ``companion-missing``, ``companion-ended`` or ``companion-silent``."""
        self._live(node)
        return self._company.ask(node, program, op, fields).result()

    def dismiss(self, node: str, program: str) -> None:
        """Let a companion undo what it made and end; it is killed when it does not."""
        self._live(node)
        self._company.dismiss(node, program).result()

    def write_shared(self, node: str, path: Path, offset: int, data: bytes) -> None:
        """Write over a part of a file that the node maps: it is mounted from here."""
        self._known(node)
        files.write_shared(path, offset, data)

    def read_shared(self, node: str, path: Path) -> bytes:
        """A file that the node maps, as it is now."""
        self._known(node)
        return files.read_shared(path)

    def file_size(self, node: str, path: Path) -> int:
        """How long a file of the node is here; its output comes from the engine a moment after it was written."""
        self._known(node)
        return files.file_size(path)

    def clocks(self) -> Mapping[str, Clock]:
        """None is listed: containers read this machine's clocks."""
        return {}

    def _mounts(self, spec: NodeSpec, launch: Launch) -> list[Mount]:
        """The node's directory, of which only its disk and traces can be written: what the controller writes there, and
        where it goes, is out of the node's reach."""
        writable = {spec.data, *(path.parent for path in launch.writes)}
        for path in writable:
            path.mkdir(parents=True, exist_ok=True)
        inside = [path for path in writable if path.is_relative_to(spec.directory)]
        places = [Mount(spec.directory), *(Mount(path, writable=True) for path in sorted(inside))]
        return [*places, *(Mount(path) for path in self._artifacts)]

    @property
    def _net(self) -> Network:
        if self._network is None or self._client is None:
            raise self._down()
        return self._network

    def _live(self, node: str) -> NodeContainer:
        if self._client is None:
            raise self._down()
        return self._containers[self._known(node)]

    def _down(self) -> Problem:
        return Problem("lab-down", f"{self._lab} is not up.")

    def _known(self, *names: str) -> str:
        for name in names:
            if name not in self._specs:
                raise Problem("unknown-node", f"There is no node {name}.", f"Nodes: {', '.join(sorted(self._specs))}.")
        return names[0]


def unknown_image(name: str) -> Problem:
    """What a person is told whose image the engine does not have."""
    return Problem(
        "image-unknown",
        f"The docker engine has no image {name}.",
        f"Bring it there first (`docker pull {name}`, `docker load`), or leave --image out.",
        usage=True,
    )


def check_image(client: Any, name: str) -> str:
    """The content id of the user's image. Raises Problem (usage) ``image-unknown``."""
    found = image_id(client, name)
    if found is None:
        raise unknown_image(name)
    return found
