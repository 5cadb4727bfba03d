"""Fixtures: every test of the suite once on each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters.conformance.grounds import GROUNDS, Ground
from tests.clusters.conformance.lab import Lab


@pytest.fixture(scope="module", params=[pytest.param(name, marks=mark) for name, (_, mark) in GROUNDS.items()])
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    make, _ = GROUNDS[request.param]
    with make(tmp_path_factory.mktemp(f"ground-{request.param}")) as made, made.inside():
        yield made


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def make_lab(ground: Ground, tmp_path: Path, ledger: Path) -> Iterator[Callable[[int], Lab]]:
    """Labs of the test's own, for what a shared one would not survive."""
    made: list[Lab] = []

    def make(count: int) -> Lab:
        lab = Lab(ground, tmp_path / f"run{len(made)}", count, ledger)
        made.append(lab)
        lab.cluster.up(print)
        lab.clear()
        return lab

    yield make
    for lab in made:
        lab.cluster.down()


@pytest.fixture(scope="module")
def shared_lab(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("shared")
    artifact = folder / "artifact"
    artifact.mkdir()
    (artifact / "code").write_text("as it was installed\n")
    lab = Lab(ground, folder / "run", 3, folder / "ledger")
    try:
        lab.cluster.up(print)
        lab.cluster.install([artifact])
        yield lab
    finally:
        lab.cluster.down()


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """A lab of three nodes, shared by the tests of a module: no process runs, no link is cut, each disk is new."""
    shared_lab.clear()
    return shared_lab
