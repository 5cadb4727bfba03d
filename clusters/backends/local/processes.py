"""The nodes' processes, seen from the agent: process 1 of the lab, parent of every node and of every orphan.

Which processes belong to a node is asked of the kernel: all that are in the node's network namespace, whoever their parent is
and whatever session they made. A node is as alive as its main process: when that ends, the rest of the node is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clusters.backends.local.network import Network
from clusters.backends.proc import CpuAccount, namespace, state_and_ticks
from workloads.problem import Problem

# A process in an uninterruptible wait (D) stops before its next instruction; after vfork it waits so for a child that has stopped.
_STOPPED = frozenset("TtDZX")


@dataclass(slots=True)
class _Node:
    main: subprocess.Popen[bytes] | None = None
    status: int | None = None
    doomed: bool = False
    cpu: CpuAccount = field(default_factory=CpuAccount)


class Processes:
    """Starts, signals, reaps and measures the processes of all nodes.

    ``own_proc`` says that /proc shows this process namespace; else it shows one further out, where the lab's processes are
    found by their namespace and have a second number.
    """

    def __init__(self, network: Network, *, own_proc: bool) -> None:
        self._network = network
        self._own_proc = own_proc
        self._nodes = {name: _Node() for name in network.addresses}
        self.aside: Callable[[], frozenset[int]] = frozenset
        """processes in the nodes' namespaces that are no part of a node: companions"""
        self._pid_namespace = os.stat("/proc/self/ns/pid").st_ino

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, output: str) -> int:
        """Start the node's main process in its namespace and in a session of its own; returns its process id in the lab.

        Raises Problem ``node-runs`` or ``node-not-started``.
        """
        node = self._nodes[name]
        if node.main is not None or self.members(name):
            raise Problem("node-runs", f"Node {name} has a running process already.", "End it before a new start.")
        try:
            with self._network.inside(name), open(output, "ab") as file:
                main = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
        except OSError as error:
            raise Problem(
                "node-not-started",
                f"Node {name} cannot be started with {argv[0]}: {error}.",
                "See its output: " + output,
            ) from error
        self._nodes[name] = _Node(main=main)
        return main.pid

    def alive(self, name: str) -> bool:
        """Whether the main process exists."""
        return self._nodes[name].main is not None

    def status(self, name: str) -> int | None:
        """How the last main process ended: exit code, or minus the signal."""
        return self._nodes[name].status

    def empty(self, name: str) -> bool:
        """Whether the node has no process at all."""
        return self._nodes[name].main is None and not self.members(name)

    def reap(self) -> None:
        """Take the exit status of every process that ended, orphans included, and doom the rest of a node whose main ended."""
        mains = {node.main.pid: node for node in self._nodes.values() if node.main is not None}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            node = mains.get(ended.si_pid)
            if node is None or node.main is None:
                os.waitpid(ended.si_pid, 0)
                continue
            node.status = node.main.wait()
            node.main = None
            node.doomed = True

    def doom(self, name: str) -> None:
        """Kill everything of the node, again at every :meth:`tick`, until nothing is left."""
        self._nodes[name].doomed = True
        self.tick()

    def tick(self) -> bool:
        """Kill what doomed nodes still have (a process may fork while it is being killed); True while some have."""
        for name, node in self._nodes.items():
            if not node.doomed:
                continue
            members = self.members(name)
            for pid, _ in members:
                _send(pid, signal.SIGKILL)
            node.doomed = bool(members) or node.main is not None
        return any(node.doomed for node in self._nodes.values())

    def send(self, name: str, number: int) -> None:
        """Send a signal to every process that the node has now."""
        for pid, _ in self.members(name):
            _send(pid, number)

    def stopped(self, name: str) -> bool:
        """Whether every process of the node is stopped; those that are not (forked meanwhile) get the signal again."""
        running = [pid for pid, entry in self.members(name) if state_and_ticks(entry)[0] not in _STOPPED]
        for pid in running:
            _send(pid, signal.SIGSTOP)
        return not running

    def cpu(self, name: str) -> tuple[float, float] | None:
        """Seconds that the node's processes ran, and seconds that their threads waited for a CPU, since the start."""
        node, members = self._nodes[name], self.members(name)
        if not members:
            return None
        return node.cpu.take(members)

    def members(self, name: str) -> list[tuple[int, Path]]:
        """The processes that the node has now: number in the lab, entry in /proc."""
        wanted, aside = self._network.identity(name), self.aside()
        return [(pid, entry) for pid, entry in self._all() if pid not in aside and namespace(entry, "net") == wanted]

    def threads(self, entry: Path) -> list[int]:
        """The threads of a process, by their numbers in the lab."""
        try:
            tasks = [task for task in (entry / "task").iterdir() if task.name.isdecimal()]
        except OSError:  # it has ended
            return []
        if self._own_proc:
            return [int(task.name) for task in tasks]
        return [thread for task in tasks if (thread := _innermost_pid(task)) is not None]

    def _all(self) -> Iterator[tuple[int, Path]]:
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            if self._own_proc:
                yield int(entry.name), entry
            elif namespace(entry, "pid") == self._pid_namespace and (pid := _innermost_pid(entry)) is not None:
                yield pid, entry


def _innermost_pid(entry: Path) -> int | None:
    """The process's number in its own namespace; None when it has ended."""
    try:
        lines = (entry / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), None)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
