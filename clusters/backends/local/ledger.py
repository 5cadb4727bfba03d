"""What a lab will start, written down before it starts, so that the next command can end what a dead controller left behind.

One file a lab. A process is known by its number *and* its start time: a number that the kernel gave to somebody else since is never
killed. Labs of other hosts, and of process namespaces that we cannot see into, are left alone.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import select
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from workloads.problem import Problem

_END_PATIENCE_S = 5.0
_REMEDY = "Set XDG_STATE_HOME to a directory that you can write to."


class Started(msgspec.Struct, frozen=True):
    """A process: its number on the host and when it started, in clock ticks since boot (proc(5), field 22)."""

    pid: int
    ticks: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One lab, as far as it may have come."""

    lab: str
    run: str
    """the run's directory"""
    host: str
    boot: str
    pid_namespace: int
    controller: Started
    agents: tuple[Started, ...] = ()
    """processes outside of the lab; everything inside dies with them"""
    written: str
    """UTC, ISO 8601: for people"""


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a dead controller left: its ledger entry, and which of its processes still live."""

    path: Path
    lab: str
    run: str
    controller: int
    processes: tuple[int, ...]
    problem: str | None = None
    """why it could not be read or ended; then the entry stays"""

    def __str__(self) -> str:
        text = f"{self.lab} of {self.run or 'an unknown run'} (controller {self.controller} has ended"
        if self.processes:
            text += f", still running: {', '.join(map(str, self.processes))}"
        return f"{text})" + (f": {self.problem}" if self.problem else "")


def default_directory() -> Path:
    """``$XDG_STATE_HOME/nemesis/ledger``, by default ``~/.local/state/nemesis/ledger``. Raises Problem."""
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        return Path(state) / "nemesis" / "ledger"
    try:
        return Path.home() / ".local" / "state" / "nemesis" / "ledger"
    except RuntimeError as error:
        raise Problem("ledger-not-writable", "This user has no home directory for the ledger.", _REMEDY) from error


def started(pid: int) -> Started | None:
    """A living process as the ledger knows it; None when there is none (a zombie has ended)."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Started(pid, int(fields[19]))


def new_entry(lab: str, run: Path) -> Entry:
    """The entry of a lab of this process, of which nothing exists yet."""
    controller = started(os.getpid())
    if controller is None:
        raise Problem("proc-missing", "/proc does not show this process.", "Mount /proc.")
    return Entry(
        lab=lab,
        run=str(run.absolute()),
        host=socket.gethostname(),
        boot=_boot(),
        pid_namespace=_pid_namespace(),
        controller=controller,
        written=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def write(directory: Path, entry: Entry) -> Path:
    """Write or replace a lab's entry, whole or not at all. Raises Problem ``ledger-not-writable``."""
    path = directory / f"{entry.lab}.json"
    draft = path.with_suffix(".draft")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(entry))
        draft.replace(path)
    except OSError as error:
        raise Problem(
            "ledger-not-writable",
            f"The ledger of running labs cannot be written: {error}.",
            _REMEDY,
        ) from error
    return path


def erase(directory: Path, lab: str) -> None:
    """Forget a lab of which nothing is left."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        (directory / f"{lab}.json").unlink()


def pending(directory: Path | None = None) -> list[Leftover]:
    """What dead controllers left behind. Changes nothing."""
    directory = directory or default_directory()
    return [leftover for leftover, _ in _dead(directory)]


def sweep(directory: Path | None = None) -> list[Leftover]:
    """End what dead controllers left running and erase their entries; returns what was found.

    An entry of which something could not be ended stays, and its ``problem`` says why.
    """
    directory = directory or default_directory()
    found = []
    for leftover, living in _dead(directory):
        problem = leftover.problem or _end_all(living)
        if problem is None:
            leftover.path.unlink(missing_ok=True)
        found.append(
            Leftover(leftover.path, leftover.lab, leftover.run, leftover.controller, leftover.processes, problem)
        )
    return found


def _dead(directory: Path) -> Iterator[tuple[Leftover, list[Started]]]:
    for path in sorted(directory.glob("*.json")):
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        except FileNotFoundError:
            continue  # another command was quicker
        except (OSError, msgspec.DecodeError) as error:
            yield Leftover(path, path.stem, "", 0, (), f"{path} is not a ledger entry: {error}"), []
            continue
        if entry.host != socket.gethostname():
            continue
        living: list[Started] = []
        if entry.boot == _boot():
            if entry.pid_namespace != _pid_namespace() or started(entry.controller.pid) == entry.controller:
                continue
            living = [agent for agent in entry.agents if started(agent.pid) == agent]
        pids = tuple(agent.pid for agent in living)
        yield Leftover(path, entry.lab, entry.run, entry.controller.pid, pids), living
    yield from _drafts(directory)


def _drafts(directory: Path) -> Iterator[tuple[Leftover, list[Started]]]:
    """Entries whose writer died while writing; nothing had been started for them, or the whole entry is beside them."""
    for path in sorted(directory.glob("*.draft")):
        pid = int(path.stem.split("-")[1]) if path.stem.startswith("lab-") else 0
        if pid and started(pid) is None:
            yield Leftover(path, path.stem, "", pid, ()), []


def _end_all(processes: list[Started]) -> str | None:
    """Kill each and wait until it is gone; returns what went wrong."""
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            # Asked again while the descriptor holds the number: from here on it cannot become somebody else's.
            if started(process.pid) != process:
                continue
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            if not select.select([descriptor], [], [], _END_PATIENCE_S)[0]:
                return f"process {process.pid} does not end {_END_PATIENCE_S:.0f} s after kill -9"
        except ProcessLookupError:
            continue
        except PermissionError:
            return f"process {process.pid} belongs to another user: repeat the command as that user or as root"
        finally:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
