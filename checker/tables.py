"""Stored runs as Spark tables: one frame a table with the vocabulary's schema, many runs in each, ``run_id`` first.

A table that no run has is an empty frame with its schema. The manifests become the small view ``runs``. Every table is a
temporary view of its own name, so that checks are SQL; every shared derivation is another view (:mod:`checker.views`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checker.check import ANOMALY, FINDINGS_DDL, TALLY
from checker.given import preface, shared, take_apart
from clusters.evidence.schema import TABLES as EVIDENCE_TABLES
from workloads.history.manifest import Manifest, decode_manifest
from workloads.history.schema import FAULTS, OPERATIONS
from workloads.problem import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMAS: Mapping[str, pa.Schema] = {"operations": OPERATIONS, "faults": FAULTS, **EVIDENCE_TABLES}

NEWS_ONLY = {"rpcs": "is_news"}
"""tables of which checks are given only the rows where a column is true: what else there is repeats it, offsets aside"""

SMALL_ROWS = 400_000
"""up to so many rows one partition is fastest: nothing is shuffled and nothing compiled"""

CACHED_ROWS_MAX = 5_000_000
"""beyond it tables are scanned again instead of being kept in memory"""

RUNS_DDL = (
    "run_id: string, promises: array<string>, generation: string, voters: array<string>, check_quorum_ms: bigint, "
    "election_timeout_ms: bigint, fetch_timeout_ms: bigint, recovery_limit_ms: bigint, interrupted: boolean, finished: boolean, "
    "voters_change: boolean, load_ended_ns: bigint, heal_started_ns: bigint, heal_ended_ns: bigint, final_ended_ns: bigint, "
    "stalls: array<struct<from_ns: bigint, to_ns: bigint>>, needs: map<string, bigint>"
)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run's folder: its manifest, and how many rows each of its tables has (absent: there is no such file)."""

    directory: Path
    manifest: Manifest
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a set of runs. ``tables["operations"]`` is a frame, ``tables.sql`` a query over the views."""

    session: SparkSession
    runs: Sequence[StoredRun]
    frames: Mapping[str, DataFrame]
    cached: list[DataFrame] = field(default_factory=list)
    pending: bool = False
    """the files are not there yet: plans are made now and read them when they run (:mod:`checker.pending`)"""
    shared: set[str] = field(default_factory=set)
    """names of views that checks have shared so far"""

    def __getitem__(self, name: str) -> DataFrame:
        """Return the frame of a table. Raises KeyError for a name that is no table."""
        return self.frames[name]

    @property
    def manifests(self) -> Mapping[str, Manifest]:
        """Manifest by run_id."""
        return {run.manifest.run_id: run.manifest for run in self.runs}

    @property
    def row_count(self) -> int:
        """Rows of all tables of all runs."""
        return sum(sum(run.rows.values()) for run in self.runs)

    def holds(self, name: str, column: str, value: str) -> bool:
        """Whether any row of a table has, or may get, ``value`` in a text column; a check without its subject plans nothing."""
        return self.pending or any(
            pc.any(
                pc.equal(pq.read_table(run.directory / "tables" / f"{name}.parquet", columns=[column])[column], value)
            ).as_py()
            for run in self.runs
            if run.rows.get(name)
        )

    def nothing(self) -> DataFrame:
        """No findings and nothing looked at."""
        return self.session.sql(f"SELECT {_NOTHING} WHERE false")

    def sql(self, query: str) -> DataFrame:
        """Run a query over the views."""
        return self.session.sql(query)

    def define(self, name: str, query: str, *, once: bool) -> None:
        """Make a view that several checks share; with ``once`` it is a leaf of later plans, computed by the first job."""
        frame = self.session.sql(query)
        (self._leaf(frame) if once else frame).createOrReplaceTempView(name)

    def share(self, expressions: str, *, leaves: Collection[str]) -> None:
        """Make views of common table expressions that several checks use; ``leaves`` are computed once. A second call does nothing."""
        for each in take_apart(expressions):
            if each.name not in self.shared:
                self.define(each.name, each.query, once=each.name in leaves)
                self.shared.add(each.name)

    def findings(self, *, anomalies: str, tally: str, given: str = "") -> DataFrame:
        """Return one frame of :data:`checker.check.FINDINGS` from two queries over the views.

        ``anomalies`` selects, by name, run_id, subject, epoch, offset, operations, facts and witness; ``tally`` selects run_id,
        evidence_rows, exercised, unknown and metrics. ``given`` are common table expressions (``name AS (…), …``) for both.
        """
        expressions = take_apart(given)
        once = shared(expressions, (anomalies, tally))
        inline = [each for each in expressions if each.name not in once]
        made: list[str] = []
        try:
            for each in expressions:
                if each.name not in once:
                    continue
                if self.session.catalog.tableExists(each.name):
                    raise ValueError(f"{each.name} is a view of all checks, and no name for a common table expression")
                frame = self.session.sql(preface(each.query, inline) + each.query)
                self._leaf(frame).createOrReplaceTempView(each.name)
                made.append(each.name)
            prefix = preface(f"{anomalies} {tally}", inline) or "WITH "
            joined = prefix if prefix == "WITH " else prefix.rstrip() + ", "
            return self.session.sql(
                f"{joined}found AS ({anomalies}), counted AS ({tally}) "
                f"SELECT {_FOUND} FROM found UNION ALL SELECT {_COUNTED} FROM counted"
            )
        finally:
            for name in made:
                self.session.catalog.dropTempView(name)

    def _leaf(self, frame: DataFrame) -> DataFrame:
        """A leaf of later plans; of few rows in one partition, so that nothing joined with it is shuffled."""
        return as_leaf(frame.coalesce(1) if self.row_count <= SMALL_ROWS else frame)

    def release(self) -> None:
        """Drop what was cached."""
        for frame in self.cached:
            frame.unpersist()
        self.cached.clear()


_TYPES = dict(part.split(" ", 1) for part in FINDINGS_DDL.split(", "))


def _aligned(row: str, given: frozenset[str]) -> str:
    """The select list that brings a query with the columns ``given`` into the form of FINDINGS."""
    return ", ".join(
        f"'{row}' AS row" if name == "row" else f"CAST({name if name in given else 'NULL'} AS {kind}) AS {name}"
        for name, kind in _TYPES.items()
    )


_FOUND = _aligned(ANOMALY, frozenset({"run_id", "subject", "epoch", "offset", "operations", "facts", "witness"}))
_NOTHING = _aligned(TALLY, frozenset())
_COUNTED = _aligned(TALLY, frozenset({"run_id", "evidence_rows", "exercised", "unknown", "metrics"}))


def as_leaf(frame: DataFrame) -> DataFrame:
    """Plan a frame now and hide its plan: later plans have one leaf in its place, and its rows are computed once, by the first job.

    Without this the analyzer meets every shared derivation again in every check, and takes minutes.
    """
    return frame.localCheckpoint(eager=False)


def read_runs(directories: Sequence[Path]) -> list[StoredRun]:
    """Read manifests and table sizes. Raises Problem for a folder that is no run, or the same run twice."""
    runs: list[StoredRun] = []
    seen: dict[str, Path] = {}
    for directory in directories:
        run = _read_run(directory)
        if (other := seen.get(run.manifest.run_id)) is not None:
            raise Problem(
                "run-twice",
                f"{other} and {directory} are the same run, {run.manifest.run_id}.",
                "Give it once.",
                usage=True,
            )
        seen[run.manifest.run_id] = directory
        runs.append(run)
    return runs


def _read_run(directory: Path) -> StoredRun:
    path = directory / "run.json"
    try:
        manifest = decode_manifest(path.read_bytes())
    except FileNotFoundError:
        raise Problem(
            "no-run",
            f"{directory} holds no run: there is no run.json.",
            "Give folders that `nemesis run` wrote.",
            usage=True,
        ) from None
    except (msgspec.MsgspecError, OSError) as error:
        raise Problem("damaged-manifest", f"{path} cannot be read: {error}.", "The run cannot be judged.") from error
    rows: dict[str, int] = {}
    for name in SCHEMAS:
        table = directory / "tables" / f"{name}.parquet"
        if table.is_file():
            rows[name] = _row_count(table, NEWS_ONLY.get(name))
    return StoredRun(directory, manifest, rows)


def _row_count(table: Path, news: str | None) -> int:
    try:
        if news is None:
            return int(pq.read_metadata(table).num_rows)
        # A column that an older release's table lacks: it had no rows.
        held = news in pq.read_schema(table).names
        return int(pc.sum(pq.read_table(table, columns=[news])[news]).as_py() or 0) if held else 0
    except (pa.ArrowException, OSError) as error:
        raise Problem(
            "damaged-table",
            f"{table} is no Parquet file: {error}.",
            "Delete the folder `tables` and check the run again.",
        ) from error


def open_tables(session: SparkSession, runs: Sequence[StoredRun]) -> Tables:
    """Make the frames and views of the runs' tables; nothing is read yet."""
    frames: dict[str, DataFrame] = {}
    tables = Tables(session, runs, frames)
    small = tables.row_count <= SMALL_ROWS
    for name, schema in SCHEMAS.items():
        paths = [str(run.directory / "tables" / f"{name}.parquet") for run in runs if run.rows.get(name)]
        frame = _frame(session, paths, schema)
        if paths and name in NEWS_ONLY:
            frame = frame.where(NEWS_ONLY[name])
        if small:
            frame = frame.coalesce(1)
        if paths and tables.row_count <= CACHED_ROWS_MAX:
            frame = frame.persist()
            tables.cached.append(frame)
        frame.createOrReplaceTempView(name)
        frames[name] = frame
    _runs_frame(session, [run.manifest for run in runs]).createOrReplaceTempView("runs")
    return tables


def _frame(session: SparkSession, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
    return session.read.schema(spark_schema(schema)).parquet(*paths) if paths else empty_frame(session, schema)


def empty_frame(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """A table without rows."""
    return _from_json(session, "[]", spark_schema(schema, ": "))


def _runs_frame(session: SparkSession, manifests: Sequence[Manifest]) -> DataFrame:
    return _from_json(session, runs_document(manifests), RUNS_DDL)


def runs_document(manifests: Sequence[Manifest]) -> str:
    """The rows of the view ``runs`` as JSON, an array of objects with the fields of :data:`RUNS_DDL`."""
    return msgspec.json.encode([_run_row(manifest) for manifest in manifests]).decode()


def _run_row(manifest: Manifest) -> dict[str, Any]:
    phases = {phase.name: phase for phase in manifest.phases}

    def moment(name: str, edge: str) -> int | None:
        return getattr(phases[name], edge) if name in phases else None

    return {
        "run_id": manifest.run_id,
        "promises": manifest.candidate.promises,
        "generation": manifest.candidate.generation,
        "voters": [node.name for node in manifest.nodes if node.role == "voter"],
        "check_quorum_ms": manifest.timers.check_quorum_ms,
        "election_timeout_ms": manifest.timers.election_timeout_ms,
        "fetch_timeout_ms": manifest.timers.fetch_timeout_ms,
        "recovery_limit_ms": round(manifest.recovery_limit_s * 1000),
        "interrupted": manifest.interrupted,
        "finished": manifest.finished,
        "voters_change": manifest.voters_change,
        "load_ended_ns": moment("load", "ended_ns"),
        "heal_started_ns": moment("heal", "started_ns"),
        "heal_ended_ns": moment("heal", "ended_ns"),
        "final_ended_ns": moment("final", "ended_ns"),
        "stalls": [{"from_ns": begin, "to_ns": end} for begin, end in manifest.stalls],
        "needs": manifest.needs,
    }


def _from_json(session: SparkSession, document: str, fields: str) -> DataFrame:
    """A small frame from JSON inside the plan: no Python worker, no job."""
    frame = session.sql(f"SELECT inline(from_json(:document, 'array<struct<{fields}>>'))", args={"document": document})
    # One partition, told to the planner: nothing that is joined with it needs a shuffle where all else is one partition too.
    return frame.coalesce(1)


def spark_schema(schema: pa.Schema, separator: str = " ") -> str:
    """Write an Arrow schema of the vocabulary as Spark's DDL. Raises KeyError for a type that it does not use."""
    return ", ".join(f"`{column.name}`{separator}{_spark_type(column.type)}" for column in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    names = {
        pa.string(): "string",
        pa.int64(): "bigint",
        pa.int32(): "int",
        pa.bool_(): "boolean",
        pa.float64(): "double",
    }
    return names[kind]
