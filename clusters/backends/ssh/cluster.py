"""The backend ``ssh``: each node a process of another machine, started and watched by an agent there."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from clusters.backends import ledger
from clusters.backends.ssh import transfer
from clusters.backends.ssh.artifacts import Artifact, bring, pack
from clusters.backends.ssh.channel import LOST
from clusters.backends.ssh.host import Heart, Host, end_host, open_host
from clusters.backends.ssh.inventory import Machine
from clusters.backends.ssh.leftovers import ledger_place, look
from clusters.backends.ssh.programs import Programs
from clusters.cluster import Clock, CpuUse, Launch, NodeSpec, Site
from clusters.links import Links, Pair
from workloads.problem import Problem

LAB_MARK = "NEMESIS_LAB"
_TRIES, _TRY_S = 3, 0.05
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHARED = "files"
"""in the run's directory on a machine: the controller's files under their own names"""

T = TypeVar("T")


class SshCluster:
    """Implements :class:`clusters.cluster.Cluster`: node number *i* on machine number *i*. Any thread may call.

    A node is as alive as its main process; whatever else it has started is killed with it. Its environment is a bare one, changed by
    ``Launch.env``. A machine that is lost fails the run: nobody knows what a node there does from then on.
    """

    def __init__(
        self, nodes: Sequence[NodeSpec], machines: Sequence[Machine], ledger_directory: Path | None = None
    ) -> None:
        self._nodes = tuple(sorted(nodes, key=lambda node: node.node_id))
        self._machines = dict(zip((node.name for node in self._nodes), machines, strict=False))
        self._addresses = {node.name: node.address for node in self._nodes}
        self._ledger = ledger_directory or ledger.default_directory()
        self._lab = f"lab-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._root = machines[0].data / "runs" / self._lab
        self._programs = Programs(self._root)
        self._hosts: dict[str, Host] = {}
        self._hearts: list[Heart] = []
        self._say: Callable[[str], None] = lambda _: None
        self._doubtful: set[str] = set()
        """nodes of whose machines nobody knows whether all has gone"""
        self._outputs: dict[str, dict[Path, bool]] = {node.name: {} for node in self._nodes}

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        """All nodes, in order of node id."""
        return self._nodes

    @property
    def lab(self) -> str:
        """The lab's name: the ledger's key, the directory's name on each machine, and the mark in its processes' environment."""
        return self._lab

    @property
    def site(self) -> Site:
        """Nodes have directories of their own; the controller's other files are at the same paths below ``files``."""
        own = tuple((node.directory, self._root / node.name) for node in self._nodes)
        return Site(
            moved=(*own, (Path("/"), self._root / _SHARED)),
            python=self._programs.python,
            java=self._programs.java,
            own=False,
        )

    def up(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Log in everywhere and start the agents.

        Raises Problem ``machine-unreachable``, ``host-key-unknown``, ``host-key-changed``, ``login-refused``, ``sudo-refused``,
        ``machine-busy``, ``links-not-available``, ``control-over-data``, ``ledger-not-writable``, …
        """
        if self._hosts:
            raise Problem("lab-exists", f"{self._lab} is up already.", "Take it down first.")
        self._say = say
        run = self._nodes[0].directory.parent.parent
        machines = tuple(self._machines[node.name] for node in self._nodes)
        ledger.write(self._ledger, ledger.new_entry(self._lab, run, "ssh", ledger_place(machines)))
        try:
            self._on_all(self._open, {node.name: node for node in self._nodes})
            self._hosts = {node.name: self._hosts[node.name] for node in self._nodes}
            self._check_control()
            for host in self._hosts.values():
                facts = host.facts
                say(f"{host.node.name} on {host.machine}: {facts['system']}, links by {facts['links']}")
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End every process and remove all that was made, also where a connection was lost.

        Raises Problem ``lab-survives`` for a machine that nobody can tell of; the ledger then keeps the entry.
        """
        for heart in self._hearts:
            heart.stop()
        self._hearts = []
        hosts, self._hosts = self._hosts, {}
        ends = self._on_all(lambda host: end_host(host, remove=True), hosts)
        self._doubtful |= {name for name, ended in ends.items() if ended.status != 0}
        trouble = self._on_all(self._sweep, {name: name for name in sorted(self._doubtful)})
        self._doubtful = {name for name, why in trouble.items() if why}
        if self._doubtful:
            raise Problem(
                "lab-survives",
                f"It is not certain that nothing of {self._lab} is left: {'; '.join(filter(None, trouble.values()))}",
                "`nemesis clean` looks after it; agents without a controller end by themselves when their lease is over.",
            )
        ledger.erase(self._ledger, self._lab)

    def install(self, artifacts: Sequence[Path]) -> None:
        """Bring files by content: what a machine has already is checked there and not sent. Raises Problem ``copy-damaged``."""
        packed = {path: pack(path) for path in artifacts}
        began = time.monotonic()
        sent = self._on_all(lambda host: self._install(host, packed), self._hosts)
        if total := sum(sent.values()):
            whither = f"{sum(1 for each in sent.values() if each)} of {len(sent)} machines"
            self._say(f"copied {total / 1e6:.0f} MB to {whither} in {time.monotonic() - began:.1f} s; they keep it")

    def place(self, node: str) -> None:
        """Copy the formatted disk to the machine; the controller's is gone afterwards."""
        host = self.host(node)
        fresh = f"{node}/data.new"
        host.channel.call("remove", path=fresh)
        transfer.push_directory(host.channel, host.node.data, fresh)
        host.channel.call("rename", old=fresh, new=f"{node}/data")
        shutil.rmtree(host.node.data)

    def wipe(self, node: str, aside: str) -> None:
        """Rename the disk on the machine."""
        host = self.host(node)
        host.channel.call("rename", old=f"{node}/data", new=f"{node}/{aside}")
        (host.node.directory / aside).mkdir(parents=True, exist_ok=True)

    def put_back(self, node: str, aside: str) -> None:
        """Rename it back, on the machine."""
        host = self.host(node)
        host.channel.call("rename", old=f"{node}/{aside}", new=f"{node}/data")
        (host.node.directory / aside).rmdir()

    def fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        """Copy evidence from the machine, and what output and traces have become since the last time."""
        host = self.host(node)
        transfer.pull_matching(host.channel, f"{node}/data", patterns, target)
        present = {entry.path: entry for entry in transfer.list_files(host.channel, node) if entry.kind == "file"}
        for path, appended in self._outputs[node].items():
            entry = present.get(PurePosixPath(path.relative_to(host.node.directory)))
            if entry is None:
                continue
            begin = path.stat().st_size if appended and path.exists() else 0
            transfer.pull_file(host.channel, host.there(path), path, begin)

    def start(self, node: str, launch: Launch) -> None:
        """Start the node's process. Raises Problem ``node-runs``, ``node-not-started``, ``python-differs`` or ``java-missing``."""
        host = self.host(node)
        self._programs.make_ready(host, launch.argv[0])
        for path in launch.needs:
            if path.is_dir():
                transfer.push_directory(host.channel, path, host.there(path))
            else:
                transfer.push_file(host.channel, path, host.there(path))
        for path in launch.writes:
            self._outputs[node][path] = False
        self._outputs[node][launch.output] = True
        home = str(self._root / node)
        host.channel.call(
            "start",
            argv=list(launch.argv),
            env={"PATH": _PATH, "HOME": home, "LC_ALL": "C.UTF-8", **launch.env, LAB_MARK: self._lab},
            cwd=host.there(launch.cwd) if launch.cwd != host.node.directory else node,
            output=host.there(launch.output),
        )

    def alive(self, node: str) -> bool:
        """Whether the node's main process exists (paused ones do)."""
        return bool(self.host(node).channel.call("alive"))

    def exit_status(self, node: str) -> int | None:
        """The exit status of the last process that ended (negative: minus the signal), None while it runs."""
        status = self.host(node).channel.call("status")
        return None if status is None else int(status)

    def signal(self, node: str, number: int) -> None:
        """Send a signal to every process of the node, whatever session or parent it gave itself.

        SIGKILL returns when all are gone, SIGSTOP when all stand still, both after 5 s at most. Nothing happens to a node without
        processes. Raises Problem ``node-not-stopped``.
        """
        settled = self.host(node).channel.call("signal", number=int(number))
        if not settled and number == signal.SIGSTOP:
            raise Problem("node-not-stopped", f"Not every process of {node} stands still 5 s after SIGSTOP.")

    def wait_exit(self, node: str, timeout_s: float) -> bool:
        """Wait until the node has no process; False when the time is over."""
        return bool(self.host(node).channel.call("wait", timeout_s + 30.0, timeout_s=timeout_s))

    def cut(self, links: Links) -> None:
        """Make the link matrix exactly this one: at each receiver, what it does not hear.

        All machines first cut what is new and then open what is not cut any more, so that nothing slips through from one partition
        to another. Raises Problem ``cut-refused``.
        """
        for pair in links.cut:
            for name in pair:
                self.host(name)
        wanted = {name: frozenset(self._addresses[a] for a, b in links.cut if b == name) for name in self._addresses}
        self._cut_all({name: wanted[name] | host.cut for name, host in self._hosts.items()})
        self._cut_all(wanted)

    def probe(self, pairs: Sequence[Pair]) -> Mapping[Pair, bool]:
        """Whether a datagram arrives, for each pair, told by the agents at both ends; in at most three tries of 50 ms."""
        for pair in pairs:
            for name in pair:
                self.host(name)
        nonce = os.urandom(16).hex()
        missing = set(pairs)
        for _ in range(_TRIES):
            if not missing:
                break
            missing -= self._ask(nonce, missing)
        return {pair: pair not in missing for pair in pairs}

    def client_socket(self) -> socket.socket:
        """A new, unconnected, non-blocking TCP socket: the controller's own address is never cut."""
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)

    def cpu(self, node: str) -> CpuUse | None:
        """CPU use of the node's processes since its start, None when there are none."""
        seconds = self.host(node).channel.call("cpu")
        return None if seconds is None else CpuUse(*seconds)

    def press_cpu(self, node: str, burners: int, limit_s: float) -> int:
        """Let all threads of the node share one CPU with burners; returns how many threads there were."""
        return int(self.host(node).channel.call("press_cpu", burners=burners, limit_s=limit_s))

    def release_cpu(self, node: str) -> None:
        """End the burners and give the node its CPUs back."""
        self.host(node).channel.call("release_cpu")

    def limit_memory(self, node: str, headroom_bytes: int) -> int:
        """Bound the address space of the node's processes; returns the bound of the largest one in bytes, 0 when there are no processes."""
        return int(self.host(node).channel.call("limit_memory", headroom_bytes=headroom_bytes))

    def free_memory(self, node: str) -> None:
        """Lift that bound."""
        self.host(node).channel.call("free_memory")

    def accompany(self, node: str, program: str, settings: Mapping[str, Any]) -> Any:
        """Start a companion as a child of the machine's worker."""
        return self.host(node).channel.call("accompany", node=node, program=program, settings=dict(settings))

    def companion(self, node: str, program: str, op: str, **fields: Any) -> Any:
        """Ask a companion. Raises its Problem, ``companion-missing``, ``companion-ended`` or ``companion-silent``."""
        return self.host(node).channel.call("companion", node=node, program=program, asked=op, fields=fields)

    def dismiss(self, node: str, program: str) -> None:
        """Let a companion undo what it made and end; it is killed when it does not."""
        self.host(node).channel.call("dismiss", node=node, program=program)

    def write_shared(self, node: str, path: Path, offset: int, data: bytes) -> None:
        """Write over a part of a file that the node maps, on its machine."""
        host = self.host(node)
        host.channel.exchange("write", data, path=host.there(path), offset=offset, size=0, mode=0o644)

    def read_shared(self, node: str, path: Path) -> bytes:
        """A file that the node maps, as it is now on its machine."""
        host = self.host(node)
        return transfer.read_small(host.channel, host.there(path))

    def file_size(self, node: str, path: Path) -> int:
        """How long a file of the node is on its machine; 0 when it is not there."""
        host = self.host(node)
        there = PurePosixPath(host.there(path))
        entries = transfer.list_files(host.channel, str(there.parent))
        return next((entry.size for entry in entries if entry.path.name == there.name), 0)

    def clocks(self) -> Mapping[str, Clock]:
        """How far each machine's clocks are ahead of the controller's."""
        return {name: host.offset.clock() for name, host in self._hosts.items()}

    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """What each machine is, by its name for people."""
        return {str(host.machine): host.facts for host in self._hosts.values()}

    def told(self, node: str) -> str:
        """A node's machine for people."""
        return f"{self._machines[node]} ({self._addresses[node]})"

    def _open(self, node: NodeSpec) -> None:
        try:
            host = open_host(self._machines[node.name], node, self._lab)
        except Problem as problem:
            if problem.slug in LOST:
                self._doubtful.add(node.name)
            raise
        self._hosts[node.name] = host
        self._hearts.append(Heart(host))

    def _sweep(self, name: str) -> str:
        """Look after a machine whose agent did not say that all is well; returns what went wrong."""
        try:
            found = look([self._machines[name]], self._lab, dry_run=False)
        except Problem as problem:
            return problem.what
        return "; ".join(str(each) for each in found if each.state == "failed")

    def _check_control(self) -> None:
        """A controller at a node's data address would be cut off with it."""
        by_address = {address: name for name, address in self._addresses.items()}
        for host in self._hosts.values():
            other = by_address.get(host.channel.own_address)
            if other is not None and other != host.node.name:
                raise Problem(
                    "control-over-data",
                    f"The connection to {host.machine} comes from {host.channel.own_address}, the data address of {other}: "
                    "a partition would cut the controller off.",
                    "Run the controller on another machine, or give the machines data addresses of their own.",
                )

    def _install(self, host: Host, packed: Mapping[Path, Artifact]) -> int:
        sent = bring(host.channel, list(packed.values()))
        host.channel.call("link", links={f"{_SHARED}{path}": artifact.sha256 for path, artifact in packed.items()})
        return sent

    def _cut(self, host: Host, sources: frozenset[str]) -> None:
        host.channel.call("cut", sources=sorted(sources))
        host.cut = sources

    def _cut_all(self, wanted: Mapping[str, frozenset[str]]) -> None:
        changed = {name: host for name, host in self._hosts.items() if wanted[name] != host.cut}
        self._on_all(lambda host: self._cut(host, wanted[host.node.name]), changed)

    def _ask(self, nonce: str, pairs: set[Pair]) -> set[Pair]:
        """Send one datagram for each pair; those that arrived within one try."""

        def send(host: Host) -> None:
            targets = [self._addresses[b] for a, b in pairs if a == host.node.name]
            host.channel.call("send", nonce=nonce, addresses=targets)

        def heard(host: Host) -> set[str]:
            wanted = [self._addresses[a] for a, b in pairs if b == host.node.name]
            return set(host.channel.call("arrived", nonce=nonce, wanted=wanted, patience_s=_TRY_S))

        self._on_all(send, {a: self._hosts[a] for a, _ in pairs})
        came = self._on_all(heard, {b: self._hosts[b] for _, b in pairs})
        return {(a, b) for a, b in pairs if self._addresses[a] in came[b]}

    def _on_all(self, work: Callable[[Any], T], on: Mapping[str, Any]) -> dict[str, T]:
        """Do the same for several at a time; waits for all, then raises the first Problem of any."""
        if not on:
            return {}
        with ThreadPoolExecutor(len(on)) as threads:
            results = {name: threads.submit(work, each) for name, each in on.items()}
        return {name: result.result() for name, result in results.items()}

    def host(self, node: str) -> Host:
        """The machine of a node. Raises Problem ``unknown-node`` or ``lab-down``."""
        if node not in self._addresses:
            raise Problem("unknown-node", f"There is no node {node}.", f"Nodes: {', '.join(sorted(self._addresses))}.")
        if node not in self._hosts:
            raise Problem("lab-down", f"{self._lab} is not up.")
        return self._hosts[node]
