"""Every fault that a backend claims is shown there by a test that says so (``@pytest.mark.shows``).

What is claimed comes from the catalogue and from what each backend says that it can do. What is shown comes from the tests: a marked
one shows its faults on the backend by whose marker it runs. ``made_of`` names the faults that a whole schedule consists of: seen once,
it is shown wherever those are. ``disks`` says which kind of disk, where nodes have another than a file system of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.backends.registry import BACKENDS
from clusters.backends.shim_disks import KIND as SHIM
from nemesis.faults.capabilities import EVERYWHERE, OF_BACKEND
from nemesis.faults.catalogue import CATALOGUE
from nemesis.faults.kinds.kind import Capability
from tests.clusters.conformance.grounds import GROUNDS

TESTS = Path(__file__).parents[1]
BACKEND_OF = {mark.name: backend for backend, (_, mark) in GROUNDS.items()}
"""pytest's marker → the backend on which a test with it runs"""

Shown = tuple[str, str]
"""fault, and backend; with a colon and the kind of disk where that makes a difference"""


class _Collected:
    items: tuple[pytest.Item, ...] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = tuple(session.items)


def marked() -> Iterator[tuple[pytest.Mark, str]]:
    """Each mark of each test, with the backend on which the test runs."""
    files = [path for path in TESTS.rglob("test_*.py") if "mark.shows(" in path.read_text() and path != Path(__file__)]
    collected = _Collected()
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
    assert pytest.main([*options, *map(str, files)], plugins=[collected]) == pytest.ExitCode.OK
    for item in collected.items:
        backends = {BACKEND_OF[mark.name] for mark in item.iter_markers() if mark.name in BACKEND_OF}
        for mark in item.iter_markers("shows"):
            assert len(backends) == 1, f"{item.nodeid} runs on {sorted(backends) or 'no backend'}"
            yield mark, *backends


def claims() -> set[Shown]:
    """Faults that are short for another are that one with a parameter fixed; one that needs nothing of a backend is shown by any."""
    found = set()
    for kind in CATALOGUE.values():
        for backend in BACKENDS if kind.needs else ("local",):
            if kind.short_for is None and kind.needs <= OF_BACKEND.get(backend, EVERYWHERE):
                found.add((kind.name, backend))
                if backend == "local" and Capability.DISK_FAILURES in kind.needs:
                    found.add((kind.name, f"{backend}:{SHIM}"))
    return found


def test_each_fault_is_shown_on_each_backend_that_claims_it() -> None:
    assert set(GROUNDS) == set(BACKENDS), "every backend can be had in tests"
    shown: set[Shown] = set()
    schedules: dict[str, set[str]] = {}
    for mark, backend in marked():
        assert set(mark.args) <= set(CATALOGUE), "a mark names faults of the catalogue"
        disks = mark.kwargs.get("disks", "")
        shown |= {(fault, f"{backend}:{disks}" if disks else backend) for fault in mark.args}
        for fault in mark.args if "made_of" in mark.kwargs else ():
            schedules.setdefault(fault, set()).update(mark.kwargs["made_of"])
    for fault, parts in schedules.items():
        shown |= {(fault, backend) for backend in BACKENDS if {(part, backend) for part in parts} <= shown}
    missing = sorted(f"{fault} on {backend}" for fault, backend in claims() - shown)
    assert not missing, f"claimed, and no test is marked to show it: {', '.join(missing)}"
