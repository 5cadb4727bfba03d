"""Fixtures: labs of any number of nodes with a ledger of the test's own, removed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_lab import Lab

from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def make_lab(tmp_path: Path, ledger: Path) -> Iterator[Callable[[int], Lab]]:
    made: list[Lab] = []

    def make(count: int) -> Lab:
        run = tmp_path / f"run{len(made)}"
        (run / "output").mkdir(parents=True)
        lab = Lab(LocalCluster(plan_nodes(run, count), ledger), run)
        made.append(lab)
        lab.cluster.up()
        return lab

    yield make
    for lab in made:
        lab.cluster.down()


@pytest.fixture
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    return make_lab(3)
