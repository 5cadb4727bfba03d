"""The outputs of a node's processes in a stored run: which there are, what disk each process ran on, and what their clocks mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from clusters.collect.collection import read_collections
from clusters.collect.meta_properties import NAME, read_meta_properties
from clusters.collect.wall_clock import OutputClock, read_changes
from workloads.history.manifest import Manifest, NodeEntry
from workloads.problem import Problem


def outputs(run: Path, node: str) -> list[tuple[int, Path]]:
    """(incarnation, file), in order. Raises Problem ``damaged-output`` for a file that is not named by its incarnation."""
    found = []
    for path in (run / "nodes" / node / "output").glob("*.log"):
        if not path.stem.isdigit():
            raise Problem(
                "damaged-output",
                f"{path} is not named by an incarnation (1.log, 2.log, …).",
                "Remove it, and check the run again.",
            )
        found.append((int(path.stem), path))
    return sorted(found)


def whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(byte at which it begins, text without its end) of each line of a file; what a kill left of the last one is dropped."""
    at = 0
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield at, line[:-1].decode("utf-8", errors="replace")
            at += len(line)


@dataclass(frozen=True, slots=True)
class LineTimes:
    """What the time stamps in one incarnation's output mean, also where the node's wall clock was faked."""

    began_ns: int
    """the node's own true wall clock at the start of the run"""
    clock: OutputClock

    def ts_ns(self, at_byte: int, wall_ns: int) -> int:
        """The time of the run at which the line at this byte, stamped ``wall_ns`` (since 1970), was printed."""
        return self.clock.real_ns(at_byte, wall_ns) - self.began_ns


def line_times(run: Path, manifest: Manifest, node: str, incarnation: int) -> LineTimes:
    """For the output of one process. Raises Problem ``damaged-manifest`` or ``damaged-clock-record``."""
    changes = read_changes(run / "nodes" / node)
    return LineTimes(began_wall_ns(manifest, node), OutputClock(changes, incarnation))


def began_wall_ns(manifest: Manifest, node: str) -> int:
    """What the node's wall clock said at the start of the run, in nanoseconds since 1970. Raises Problem ``damaged-manifest``."""
    at = datetime.fromisoformat(manifest.started_at)
    if at.tzinfo is None:
        raise Problem("damaged-manifest", f"started_at is {manifest.started_at!r}, a time without its zone.")
    ahead_ns = next((each.wall_ahead_ns for each in manifest.nodes if each.name == node), 0)
    return round(at.timestamp() * 1_000_000) * 1000 + ahead_ns


def disks(run: Path, node: NodeEntry, meta_properties: str = NAME) -> dict[int, str | None]:
    """Incarnation → directory id of the disk that it ran on.

    The first copy after a process tells its disk; a later one may be of a disk that was wiped since. The last process of an
    interrupted run has none, and the live disk tells its id. ``meta_properties`` is that file's path on a disk, or empty.
    """
    known: dict[int, str | None] = {}
    for collection, directory in read_collections(run, node.name):
        known.setdefault(collection.incarnation, _written(directory, meta_properties) or collection.directory_id)
    live = _written(run / "nodes" / node.name / "data", meta_properties)
    last = live or (known[max(known)] if known else node.directory_id)
    started = [int(path.stem) for path in (run / "nodes" / node.name / "output").glob("*.log") if path.stem.isdigit()]
    for incarnation in started:
        known.setdefault(incarnation, last)
    return known


def _written(directory: Path, meta_properties: str) -> str | None:
    written = read_meta_properties(directory / meta_properties) if meta_properties else None
    return written.directory_id if written else None
