"""What all tests share: one Spark session, what is left out where it cannot be had, and what runs beside what in several processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from clusters.cache import cache_directory
from tests.clusters.conformance.grounds import GROUNDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK, _SWEEPS = "spark", "sweeps"
_BEGUN = "runs_begun"
"""fixture of runs that go on while other tests of the process pass; one test asks for it alone, and is the first there"""
_LONG = (_SPARK, "namespaces", "docker", "ssh", "kafka", "uml", "browser")
"""markers of tests that take long: most of them wait for elections, timeouts and processes, some start a Spark of their own"""
_SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot be had here; of several processes, give long groups out first, so that all end at the same time."""
    del config
    _leave_out_kafka(items)
    if _SIDE_BY_SIDE:
        items.sort(key=_turn)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whole files go to one process or the other, for their fixtures; all that use the Spark session to one.

    That one computes; most others wait. Those that sweep follow each other, too. A file that runs once on each backend is a group
    for each. The distributor reads groups before it is the turn of :func:`pytest_collection_modifyitems`.
    """
    if _SIDE_BY_SIDE:
        item.add_marker(pytest.mark.xdist_group(_group_of(item)))


def _group_of(item: pytest.Item) -> str:
    if {_SPARK, _BEGUN}.intersection(getattr(item, "fixturenames", ())):
        return _SPARK
    if item.get_closest_marker(_SWEEPS) is not None:
        return _SWEEPS
    file = item.nodeid.partition("::")[0].partition("@")[0]
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    backends = [value for value in parameters.values() if isinstance(value, str) and value in GROUNDS]
    return "-".join([file, *backends])


def _turn(item: pytest.Item) -> int:
    group = _group_of(item)
    if group == _SPARK and _SPARK not in getattr(item, "fixturenames", ()):
        return -1
    if group in (_SPARK, _SWEEPS):
        return (_SPARK, _SWEEPS).index(group)
    return 2 if any(item.get_closest_marker(name) for name in _LONG) else 3


def _leave_out_kafka(items: list[pytest.Item]) -> None:
    """Apache Kafka is tested where mvn can fetch it, or has fetched it."""
    if shutil.which("mvn") is None and not (cache_directory() / "kafka").is_dir():
        absent = pytest.mark.skip(reason="no mvn, and no release of Apache Kafka in the cache")
        for item in items:
            if item.get_closest_marker("kafka") is not None:
                item.add_marker(absent)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that every Spark test uses; it is started by the first of them."""
    from checker.session import start_session, stop_session

    session = start_session()
    yield session
    stop_session(session)
