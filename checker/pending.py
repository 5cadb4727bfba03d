"""The tables of a run that has not ended: plans are made while it goes on, and read its files when they run.

Planning thirty checks takes longer than running them on one run, and needs none of its rows. A table is a task that opens the
run's Parquet file by its path, and the view ``runs`` one that opens ``run.json``, both when the first job asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from checker.arrow import map_in_arrow
from checker.tables import (
    NEWS_ONLY,
    RUNS_DDL,
    SCHEMAS,
    StoredRun,
    Tables,
    as_leaf,
    empty_frame,
    runs_document,
    spark_schema,
)
from workloads.history.manifest import Manifest, decode_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_BATCH_ROWS = 65_536


def open_pending(session: SparkSession, run: StoredRun) -> Tables:
    """Make the frames and views of a run whose tables are not written yet; ``run.rows`` is empty."""
    frames: dict[str, DataFrame] = {}
    due = tables_due(run.manifest)
    for name, schema in SCHEMAS.items():
        path = run.directory / "tables" / f"{name}.parquet"
        frames[name] = (
            as_leaf(_late(session, table_reader(path, schema), spark_schema(schema)))
            if name in due
            else empty_frame(session, schema)
        )
        frames[name].createOrReplaceTempView(name)
    documents = _late(session, _manifest_reader(run.directory / "run.json"), "document string")
    rows = documents.selectExpr(f"inline(from_json(document, 'array<struct<{RUNS_DDL}>>'))")
    as_leaf(rows).createOrReplaceTempView("runs")
    return Tables(session, (run,), frames, pending=True)


def tables_due(manifest: Manifest) -> frozenset[str]:
    """The tables that a run will have by what its candidate promises so far; all, before it has promised anything."""
    promised = manifest.candidate.evidence
    return frozenset({"operations", "faults", "rpcs", *promised} if promised else SCHEMAS)


def table_reader(path: Path, schema: pa.Schema) -> _Read:
    """What the task of a table does: the file's rows in the columns of ``schema``, nothing where there is no file.

    Raises pyarrow's errors for a file that is none, or lacks a column.
    """

    def read(asked: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in asked:
            pass
        if path.is_file():
            news = NEWS_ONLY.get(path.stem)
            wanted = None if news is None else [(news, "=", True)]
            yield from (
                pq.read_table(path, filters=wanted)
                .select(schema.names)
                .cast(schema)
                .to_batches(max_chunksize=_BATCH_ROWS)
            )

    return read


def _manifest_reader(path: Path) -> _Read:
    def read(asked: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in asked:
            pass
        yield pa.RecordBatch.from_pydict({"document": [runs_document([decode_manifest(path.read_bytes())])]})

    return read


def _late(session: SparkSession, read: _Read, columns: str) -> DataFrame:
    return map_in_arrow(session.range(0, 1, 1, 1), read, columns)
