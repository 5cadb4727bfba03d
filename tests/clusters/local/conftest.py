"""Fixtures: labs of any number of nodes with a ledger of the test's own, removed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_lab import Lab

from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes


def bring_up(run: Path, count: int, ledger: Path) -> Lab:
    (run / "output").mkdir(parents=True)
    lab = Lab(LocalCluster(plan_nodes(run, count), ledger), run)
    lab.cluster.up()
    return lab


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def make_lab(tmp_path: Path, ledger: Path) -> Iterator[Callable[[int], Lab]]:
    """Labs of the test's own, for what a shared one would not survive."""
    made: list[Lab] = []

    def make(count: int) -> Lab:
        made.append(bring_up(tmp_path / f"run{len(made)}", count, ledger))
        return made[-1]

    yield make
    for lab in made:
        lab.cluster.down()


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("shared")
    lab = bring_up(folder / "run", 3, folder / "ledger")
    yield lab
    lab.cluster.down()


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """A lab of three nodes, shared by the tests of a module: no process runs, no link is cut, no output is there."""
    shared_lab.clear()
    return shared_lab
