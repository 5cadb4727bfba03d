"""What dead controllers left behind, on every kind of place: shown by ``nemesis clean``, removed by it and by the next command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clusters.backends import ledger as ledgers
from clusters.backends.backend import Backend
from clusters.backends.ledger import Entry
from clusters.backends.registry import find_backend
from workloads.problem import Problem


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a dead controller left: its ledger entry, and what still exists of it."""

    path: Path
    lab: str
    run: str
    controller: int
    remains: tuple[str, ...] = ()
    problem: str | None = None
    """why it could not be read or ended; then the entry stays"""

    def __str__(self) -> str:
        text = f"{self.lab} of {self.run or 'an unknown run'} (controller {self.controller} has ended"
        if self.remains:
            text += f", still there: {', '.join(self.remains)}"
        return f"{text})" + (f": {self.problem}" if self.problem else "")


def pending(directory: Path | None = None) -> list[Leftover]:
    """What dead controllers left behind. Changes nothing."""
    return [leftover for leftover, _, _ in _all(directory or ledgers.default_directory())]


def sweep(directory: Path | None = None) -> list[Leftover]:
    """End and remove what dead controllers left and erase their entries; returns what was found.

    An entry of which something could not be ended stays, and its ``problem`` says why.
    """
    found = []
    for leftover, entry, backend in _all(directory or ledgers.default_directory()):
        problem = leftover.problem
        if problem is None and entry is not None and backend is not None:
            problem = _end(backend, entry)
        if problem is None:
            leftover.path.unlink(missing_ok=True)
        found.append(
            Leftover(leftover.path, leftover.lab, leftover.run, leftover.controller, leftover.remains, problem)
        )
    return found


def _all(directory: Path) -> Iterator[tuple[Leftover, Entry | None, Backend | None]]:
    for path, entry in ledgers.dead(directory):
        if isinstance(entry, str):
            yield Leftover(path, path.stem, "", 0, problem=entry), None, None
            continue
        backend: Backend | None = None
        remains: tuple[str, ...] = ()
        problem: str | None = None
        try:
            backend = find_backend(entry.backend)
            remains = tuple(backend.remains(entry))
        except Problem as trouble:
            problem = f"{trouble.what} {trouble.remedy}".strip()
        yield Leftover(path, entry.lab, entry.run, entry.controller.pid, remains, problem), entry, backend
    for path, controller in ledgers.drafts(directory):
        yield Leftover(path, path.stem, "", controller), None, None


def _end(backend: Backend, entry: Entry) -> str | None:
    try:
        return backend.end(entry)
    except Problem as trouble:
        return f"{trouble.what} {trouble.remedy}".strip()
