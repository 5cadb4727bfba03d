"""What dead controllers left behind, on every kind of place: shown by ``nemesis clean``, removed by it and by the next command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from clusters.backends import ledger as ledgers
from clusters.backends.backend import Backend
from clusters.backends.ledger import Entry
from clusters.backends.registry import BACKENDS, find_backend
from workloads.problem import Problem


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a dead controller left: its ledger entry, and what still exists of it."""

    path: Path | None
    """of the ledger entry; None for what only the place itself tells of"""
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


def pending(directory: Path | None = None, *, thorough: bool = False) -> list[Leftover]:
    """What dead controllers left behind; when ``thorough``, also what no ledger entry tells of. Changes nothing."""
    return [leftover for leftover, _, _ in _all(directory or ledgers.default_directory(), thorough=thorough)]


def sweep(directory: Path | None = None, *, thorough: bool = False) -> list[Leftover]:
    """End and remove what dead controllers left and erase their entries; returns what was found.

    An entry of which something could not be ended stays, and its ``problem`` says why.
    """
    found = []
    for leftover, entry, backend in _all(directory or ledgers.default_directory(), thorough=thorough):
        problem = leftover.problem
        if problem is None and entry is not None and backend is not None:
            problem = _end(backend, entry)
        if problem is None and leftover.path is not None:
            leftover.path.unlink(missing_ok=True)
        found.append(replace(leftover, problem=problem))
    return found


def _all(directory: Path, *, thorough: bool) -> Iterator[tuple[Leftover, Entry | None, Backend | None]]:
    told = set()
    for path, entry in ledgers.dead(directory):
        told.add(path.stem)
        if isinstance(entry, str):
            yield Leftover(path, path.stem, "", 0, problem=entry), None, None
        else:
            yield _look(path, entry)
    for path, controller in ledgers.drafts(directory):
        yield Leftover(path, path.stem, "", controller), None, None
    if thorough:
        strays = [(name, *stray) for name in BACKENDS for stray in find_backend(name).strays().items()]
        for name, lab, run in strays:
            if lab not in told:
                yield _look(None, ledgers.new_entry(lab, Path(run), name))


def _look(path: Path | None, entry: Entry) -> tuple[Leftover, Entry, Backend | None]:
    backend: Backend | None = None
    remains: tuple[str, ...] = ()
    problem: str | None = None
    try:
        backend = find_backend(entry.backend)
        remains = tuple(backend.remains(entry))
    except Problem as trouble:
        problem = f"{trouble.what} {trouble.remedy}".strip()
    controller = entry.controller.pid if path is not None else ledgers.controller_of(entry.lab)
    return Leftover(path, entry.lab, entry.run, controller, remains, problem), entry, backend


def _end(backend: Backend, entry: Entry) -> str | None:
    try:
        return backend.end(entry)
    except Problem as trouble:
        return f"{trouble.what} {trouble.remedy}".strip()
