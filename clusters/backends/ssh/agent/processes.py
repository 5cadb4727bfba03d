"""The node's processes, seen from the worker: process 1 of a process namespace in which there is little but the node.

Whatever the node starts, whatever session or parent it gives itself, is in the namespace and is meant by every signal. The node is as
alive as its main process: when that ends, the rest is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clusters.backends.proc import CpuAccount, state_and_ticks, threads

# A process in an uninterruptible wait (D) stops before its next instruction; after vfork it waits so for a child that has stopped.
_STOPPED = frozenset("TtDZX")


class NodeRuns(Exception):
    """A second start while the first process runs."""


class Processes:
    """Starts, signals, reaps and measures; ``uid`` and ``gid`` are those that the node runs with."""

    def __init__(self, uid: int, gid: int) -> None:
        self._uid, self._gid = uid, gid
        self._session = os.getsid(0)
        self._main: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._doomed = False
        self._account = CpuAccount()
        self.aside: Callable[[], frozenset[int]] = frozenset
        """processes of the namespace that are ours in sessions of their own: burners"""

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, output: int) -> None:
        """Start the main process in a session of its own, its output to the descriptor ``output``. Raises NodeRuns or OSError."""
        if self._main is not None or self._members():
            raise NodeRuns
        switch = (
            {} if os.geteuid() == self._uid else {"user": self._uid, "group": self._gid, "extra_groups": [self._gid]}
        )
        self._main = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **switch,  # type: ignore[call-overload]
        )
        self._status, self._doomed = None, False
        self._account = CpuAccount()

    def alive(self) -> bool:
        """Whether the main process exists."""
        return self._main is not None

    def status(self) -> int | None:
        """How the last main process ended: exit code, or minus the signal."""
        return self._status

    def empty(self) -> bool:
        """Whether there is no process at all."""
        return self._main is None and not self._members()

    def reap(self) -> None:
        """Take the exit status of every process that ended, orphans included, and doom the rest when the main one ended."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if self._main is None or ended.si_pid != self._main.pid:
                os.waitpid(ended.si_pid, 0)
                continue
            self._status = self._main.wait()
            self._main = None
            self._doomed = True

    def doom(self) -> None:
        """Kill everything, again at every :meth:`tick`, until nothing is left."""
        self._doomed = True
        self.tick()

    def tick(self) -> bool:
        """Kill what a doomed node still has (a process may fork while it is being killed); True while it has some."""
        if self._doomed:
            members = self._members()
            for pid in members:
                _send(pid, signal.SIGKILL)
            self._doomed = bool(members) or self._main is not None
        return self._doomed

    def send(self, number: int) -> None:
        """Send a signal to every process that the node has now."""
        for pid in self._members():
            _send(pid, number)

    def stopped(self) -> bool:
        """Whether every process is stopped; those that are not (forked meanwhile) get the signal again."""
        running = [pid for pid in self._members() if state_and_ticks(_entry(pid))[0] not in _STOPPED]
        for pid in running:
            _send(pid, signal.SIGSTOP)
        return not running

    def cpu(self) -> tuple[float, float] | None:
        """Seconds that the processes ran, and seconds that their threads waited for a CPU, since the start."""
        members = self._members()
        if not members:
            return None
        return self._account.take([(pid, _entry(pid)) for pid in members])

    def members(self, name: str = "") -> list[tuple[int, Path]]:
        """The node's processes, for :class:`clusters.backends.pressure.Pressure`, which names nodes: there is one only."""
        del name
        return [(pid, _entry(pid)) for pid in self._members()]

    def threads(self, entry: Path) -> list[int]:
        """The threads of one of them."""
        return threads(entry)

    def _members(self) -> list[int]:
        """All processes of the namespace but what ended and was not reaped yet, what is set aside, and this session's: it is the
        worker's, its tools are in it, and no process of the node can come into it."""
        aside = self.aside()
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return [
            pid
            for pid in numbers
            if pid not in aside and not _in_session(pid, self._session) and state_and_ticks(_entry(pid))[0] not in "ZX"
        ]


def _in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False


def _entry(pid: int) -> Path:
    return Path("/proc", str(pid))


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
