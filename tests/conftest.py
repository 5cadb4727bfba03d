"""What all tests share: one Spark session for the whole test run, and what is left out where it cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from clusters.cache import cache_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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
