"""What all tests share: one Spark session for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that every Spark test uses; it is started by the first of them."""
    from checker.session import start_session, stop_session

    session = start_session()
    yield session
    stop_session(session)
