"""Processes of a namespace as /proc shows them, and how they fared for CPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Counter:
    """A sum over threads or processes that come and go: what the gone ones had used stays in it."""

    last: dict[int, int] = field(default_factory=dict)
    gone: int = 0

    def take(self, seen: Mapping[int, int]) -> int:
        """The sum with what is seen now."""
        for key, value in self.last.items():
            if seen.get(key, -1) < value:
                self.gone += value
        self.last = dict(seen)
        return self.gone + sum(seen.values())


@dataclass(slots=True)
class CpuAccount:
    """How the processes of one node fared for CPU since they started."""

    running_ticks: Counter = field(default_factory=Counter)
    waiting_ns: Counter = field(default_factory=Counter)

    def take(self, members: Sequence[tuple[int, Path]]) -> tuple[float, float]:
        """Seconds that these processes ran, and seconds that their threads waited for a CPU; each is (number, entry in /proc)."""
        ticks: dict[int, int] = {}
        waits: dict[int, int] = {}
        for pid, entry in members:
            _, ticks[pid] = state_and_ticks(entry)
            waits.update(thread_waits(entry))
        return self.running_ticks.take(ticks) / _TICKS_PER_S, self.waiting_ns.take(waits) / 1e9


def members_of(kind: str, inode: int) -> list[tuple[int, Path]]:
    """The processes that are in a namespace of this kind (``pid``, ``net``), zombies left out."""
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [(int(entry.name), entry) for entry in entries if namespace(entry, kind) == inode]


def namespace(entry: Path, kind: str) -> int | None:
    """The inode of a process's namespace; None for one that has ended, zombies included."""
    try:
        return os.stat(entry / "ns" / kind).st_ino
    except OSError:
        return None


def state_and_ticks(entry: Path) -> tuple[str, int]:
    """State and CPU ticks of a process; a process that ended meanwhile is ``X``."""
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[11]) + int(fields[12])


def thread_waits(entry: Path) -> dict[int, int]:
    """Thread → nanoseconds that it was runnable and waited for a CPU."""
    waits = {}
    with contextlib.suppress(OSError):  # the process ended meanwhile
        for task in (entry / "task").iterdir():
            with contextlib.suppress(OSError):  # the thread did
                waits[int(task.name)] = int((task / "schedstat").read_text().split()[1])
    return waits


def threads(entry: Path) -> list[int]:
    """The threads of a process; none when it has ended."""
    try:
        return [int(task.name) for task in (entry / "task").iterdir() if task.name.isdecimal()]
    except OSError:
        return []
