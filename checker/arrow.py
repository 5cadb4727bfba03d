"""Arrow batches through a Python function, without pandas.

``DataFrame.mapInArrow`` of PySpark 4.3 asks for pandas although nothing on its way uses it, and PySpark warns about the pandas
that installs today. These few lines are what it does after asking; PySpark's minor version is pinned and a test runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: BatchFunction, schema: str) -> DataFrame:
    """Run ``function`` over each partition's batches in Python workers; ``schema`` is the DDL of what it yields."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
    from pyspark.util import PythonEvalType

    udf: Any = vectorized_udf(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF, "pandas")
    column = udf(*[frame[f"`{name}`"] for name in frame.columns])
    return ClassicDataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
