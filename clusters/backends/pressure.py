"""Takes CPU and memory away from one node of this machine: by CPU affinity and burners, and by a limit of the address space.

Neither needs a cgroup. A burner is a child of whoever presses and in no node's namespace: it is not counted, signalled or killed as
part of the node, and it ends with its parent.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

_BURN = """
import os, sys, time
end, parent = time.monotonic() + float(sys.argv[1]), os.getppid()
while time.monotonic() < end and os.getppid() == parent:
    pass
"""


class Processes(Protocol):
    """Who belongs to a node."""

    def members(self, name: str) -> Sequence[tuple[int, Path]]:
        """The processes that the node has now: number as this process sees it, entry in /proc."""
        ...

    def threads(self, entry: Path) -> Sequence[int]:
        """The threads of a process, by their numbers as this process sees them."""
        ...


@dataclass(slots=True)
class _Pressed:
    cpus: set[int]
    """that the node had before"""
    burners: dict[int, int] = field(default_factory=dict)
    """process descriptor → number, which alone could be another process's by now"""


class Pressure:
    """CPU and memory pressure on the nodes of a lab."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._pressed: dict[str, _Pressed] = {}

    def press_cpu(self, name: str, burners: int, limit_s: float) -> int:
        """Pin the node's threads to one CPU and start burners on the same one; returns the number of threads."""
        self.release_cpu(name)
        cpus = os.sched_getaffinity(0)
        one = {max(cpus)}
        pressed = self._pressed[name] = _Pressed(set(cpus))
        for _ in range(burners):
            started = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _BURN, str(limit_s)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a kernel that shares CPU by session (autogroup) gives all of one session one share
            )
            pressed.burners[os.pidfd_open(started.pid)] = started.pid
            os.sched_setaffinity(started.pid, one)
        return self._pin(name, one)

    def burners(self) -> frozenset[int]:
        """The numbers of the burners that burn now: no node's processes, wherever they are seen."""
        numbers = {descriptor: pid for each in self._pressed.values() for descriptor, pid in each.burners.items()}
        ended, _, _ = select.select(list(numbers), [], [], 0)
        return frozenset(pid for descriptor, pid in numbers.items() if descriptor not in ended)

    def release_cpu(self, name: str) -> None:
        """End the burners, and let the node's threads run where this process may."""
        pressed = self._pressed.pop(name, None)
        if pressed is None:
            return
        for burner in pressed.burners:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(burner, signal.SIGKILL)
            os.close(burner)
        self._pin(name, pressed.cpus)

    def limit_memory(self, name: str, headroom_bytes: int) -> int:
        """Set the soft limit of the address space of each process; returns that of the largest (a container has an init, too)."""
        limits = []
        for pid, entry in self._processes.members(name):
            size = _size_bytes(entry)
            if size is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
                resource.prlimit(pid, resource.RLIMIT_AS, (size + headroom_bytes, hard))
                limits.append(resource.prlimit(pid, resource.RLIMIT_AS)[0])
        return max(limits, default=0)

    def free_memory(self, name: str) -> None:
        """Raise the soft limit to the hard one, which nobody lowered."""
        for pid, _ in self._processes.members(name):
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
                resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))

    def _pin(self, name: str, cpus: set[int]) -> int:
        """Threads that are born meanwhile inherit from one that is moved, so a second look finds the last ones."""
        moved: set[int] = set()
        for _ in range(2):
            for _, entry in self._processes.members(name):
                for thread in self._processes.threads(entry):
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(thread, cpus)
                        moved.add(thread)
        return len(moved)


def _size_bytes(entry: Path) -> int | None:
    try:
        pages = int((entry / "statm").read_text().split()[0])
    except (OSError, IndexError):  # it has ended
        return None
    return pages * resource.getpagesize()
