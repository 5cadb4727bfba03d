"""Fixtures: machines shared by a session, machines of a test's own, and clusters on them with a ledger of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusters.backends.backend import Place
from clusters.backends.ssh import backend
from clusters.backends.ssh.cluster import SshCluster
from tests.clusters.conformance.grounds import missing
from tests.clusters.ssh.machines import Machines, missing_tools, start_machines


@pytest.fixture(scope="session")
def tools() -> None:
    if absent := missing_tools():
        missing("ssh", f"there is no {', '.join(absent)}")


@pytest.fixture(scope="session")
def shared_machines(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = start_machines(tmp_path_factory.mktemp("machines"))
    yield machines
    machines.close()


@pytest.fixture
def machines(shared_machines: Machines) -> Iterator[Machines]:
    """Three machines on which nothing of ours runs; the test is in their network."""
    with shared_machines.inside():
        yield shared_machines


@pytest.fixture
def make_machines(tools: None, tmp_path: Path) -> Iterator[Callable[..., Machines]]:
    """Machines of the test's own; enter their network with ``inside()``."""
    made: list[Machines] = []

    def make(**options: object) -> Machines:
        made.append(start_machines(tmp_path / f"machines{len(made)}", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for machines in made:
        machines.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def make_cluster(tmp_path: Path, ledger: Path) -> Iterator[Callable[..., SshCluster]]:
    """Clusters that are not up yet: ``make_cluster(machines, 3)``; taken down after the test, inside of their network."""
    made: list[tuple[Machines, SshCluster]] = []

    def make(machines: Machines, count: int = 3, inventory: Path | None = None) -> SshCluster:
        place = Place(inventory=inventory or machines.inventory)
        planned = backend.plan(tmp_path / f"run{len(made)}", count, 0, place)
        for node in planned.nodes:
            node.directory.mkdir(parents=True)
        made.append((machines, backend.make(planned.nodes, place, ledger)))
        return made[-1][1]

    yield make
    for machines, cluster in made:
        if machines.process.poll() is None:
            with machines.inside():
                cluster.down()
