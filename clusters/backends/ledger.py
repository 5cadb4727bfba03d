"""What a cluster will start, written down before it starts, so that the next command can end what a dead controller left behind.

One file a cluster; :mod:`.leftovers` reads them. A process is known by its number *and* its start time: a number that the
kernel gave to somebody else since is never killed. Clusters of other hosts, and of process namespaces that we cannot see into,
are left alone.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import select
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping
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
    backend: str = "local"
    place: dict[str, str] = {}
    """what the backend needs to find the rest again: an engine's address, an inventory"""
    written: str
    """UTC, ISO 8601: for people"""


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


def new_entry(lab: str, run: Path, backend: str = "local", place: Mapping[str, str] | None = None) -> Entry:
    """The entry of a lab of this process, of which nothing exists yet. A lab's name begins with ``lab-<our process id>-``."""
    controller = started(os.getpid())
    if controller is None:
        raise Problem("proc-missing", "/proc does not show this process.", "Mount /proc.")
    return Entry(
        lab=lab,
        run=str(run.absolute()),
        host=socket.gethostname(),
        boot=boot(),
        pid_namespace=pid_namespace(),
        controller=controller,
        backend=backend,
        place=dict(place or {}),
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


def dead(directory: Path) -> Iterator[tuple[Path, Entry | str]]:
    """(file, entry) of each controller that has ended; a text instead of the entry says why the file cannot be read."""
    for path in sorted(directory.glob("*.json")):
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        except FileNotFoundError:
            continue  # another command was quicker
        except (OSError, msgspec.DecodeError) as error:
            yield path, f"{path} is not a ledger entry: {error}"
            continue
        if entry.host != socket.gethostname():
            continue
        if entry.boot == boot() and (
            entry.pid_namespace != pid_namespace() or started(entry.controller.pid) == entry.controller
        ):
            continue
        yield path, entry


def drafts(directory: Path) -> Iterator[tuple[Path, int]]:
    """(file, controller) of entries whose writer died while writing; nothing had been started for them, or the whole entry is
    beside them."""
    for path in sorted(directory.glob("*.draft")):
        pid = controller_of(path.stem)
        if pid and started(pid) is None:
            yield path, pid


def controller_of(lab: str) -> int:
    """The process id in a lab's name; 0 for a name that is none."""
    prefix, _, rest = lab.partition("-")
    number = rest.partition("-")[0]
    return int(number) if prefix == "lab" and number.isdecimal() else 0


def living(processes: Iterable[Started]) -> tuple[Started, ...]:
    """Those that still run."""
    return tuple(each for each in processes if started(each.pid) == each)


def end_all(processes: Iterable[Started]) -> str | None:
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


def boot() -> str:
    """Which boot of this machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_namespace() -> int:
    """Which process namespace this process is in, by its inode."""
    return os.stat("/proc/self/ns/pid").st_ino
