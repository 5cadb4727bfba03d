"""From checks to one plan: each check planned by itself, all of them united into the frame that one job collects."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from checker.check import TALLY, Check
from checker.tables import SMALL_ROWS, Tables, as_leaf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANOMALIES_MAX = 20
"""of one check and run that are kept; all are counted"""

_PLANNERS = 2


@dataclass(frozen=True, slots=True)
class Plans:
    """What the checks would do, planned and not run; and why some could not be planned, by name of the check."""

    frames: Sequence[tuple[Check, DataFrame]]
    errors: dict[str, str]


def plan_checks(tables: Tables, checks: Sequence[Check]) -> Plans:
    """Plan checks over tables whose views are defined; a check that cannot be planned is an error of its own."""
    errors: dict[str, str] = {}
    frames: list[tuple[Check, DataFrame]] = []
    # The analyzer works on one check after the other, since views have names; the optimizer on those that it is through with.
    with ThreadPoolExecutor(_PLANNERS, initializer=name_call_site, initargs=(tables.session,)) as planners:
        planned: list[tuple[Check, Future[DataFrame]]] = []
        for check in checks:
            try:
                planned.append((check, planners.submit(as_leaf, check.find(tables))))
            except Exception as error:
                errors[check.name] = reason_of(error)
        for check, future in planned:
            try:
                frames.append((check, future.result()))
            except Exception as error:
                errors[check.name] = reason_of(error)
    return Plans(frames, errors)


def unite(session: SparkSession, frames: Sequence[tuple[Check, DataFrame]], *, small: bool) -> DataFrame:
    """One frame of all answers: the anomalies of each check and run numbered, the first of them kept, and every tally."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    united = reduce(
        lambda left, right: left.union(right), [frame.withColumn("check", F.lit(check.name)) for check, frame in frames]
    )
    group = Window.partitionBy("check", "run_id", "row")
    order = group.orderBy("epoch", "offset", "subject", "facts", "message").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    if small:
        # Each task is sent the plans of all checks: as few of them as keep every processor busy.
        united = united.coalesce(session.sparkContext.defaultParallelism + 1)
    numbered = united.withColumn("number", F.row_number().over(order)).withColumn(
        "total", F.count(F.lit(1)).over(group.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    )
    return numbered.where((F.col("row") == TALLY) | (F.col("number") <= ANOMALIES_MAX))


def fit_to_size(session: SparkSession, rows: int) -> None:
    """Choose between the cheapest plan for a few rows and one that scales."""
    small = rows <= SMALL_ROWS
    name_call_site(session)
    partitions = 1 if small else max(4, 2 * session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    session.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    session.conf.set("spark.sql.files.maxPartitionBytes", str((512 if small else 32) * 1024 * 1024))


def name_call_site(session: SparkSession) -> None:
    """Name the place from which this thread uses Spark, else every operator looks for it in the stack."""
    for form in ("callSite.short", "callSite.long"):
        session.sparkContext.setLocalProperty(form, "checks")


def reason_of(error: Exception) -> str:
    """The first line of an error, without Spark's plan below it."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"[:300]
