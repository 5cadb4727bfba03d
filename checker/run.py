"""All checks over a set of runs in a handful of Spark jobs, merged into one verdict a run.

The checks' frames are united and collected once. When that job fails, each check runs by itself, so that one broken check
is *unknown* for its own reason and hides nothing else.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checker.check import ANOMALY, TALLY, WITNESS_ROWS_MAX, Check, Finding
from checker.checks.registry import CHECKS
from checker.gate import Gate, gate
from checker.sentence import run_sentence
from checker.summary import SUMMARY
from checker.tables import SMALL_ROWS, StoredRun, Tables, as_leaf, open_tables, read_runs
from checker.verdict import Anomaly, CheckResult, Kind, RunVerdict, Verdict, merge
from checker.verdict_json import encode_verdict
from checker.views import define_views
from workloads.problem import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ANOMALIES_MAX = 20
"""of one check and run that are kept; all are counted"""

_PLANNERS = 2

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Tally:
    """What a check counted in one run."""

    evidence_rows: int = 0
    exercised: int = 0
    unknown: str = ""
    metrics: dict[str, float] | None = None


@dataclass(slots=True)
class _Answers:
    """Everything that was collected: by (check, run_id), and why a check failed altogether."""

    anomalies: dict[tuple[str, str], list[Row]]
    counts: dict[tuple[str, str], int]
    tallies: dict[tuple[str, str], _Tally]
    errors: dict[str, str]


def check_runs(
    session: SparkSession, run_dirs: Sequence[Path], *, checks: Sequence[Check] = CHECKS, write: bool = True
) -> list[RunVerdict]:
    """Judge stored runs and write ``verdict.json`` into each; verdicts come in the order of ``run_dirs``.

    Raises Problem for a folder that is no run, a damaged table, or the same run given twice. A failing check raises nothing: it
    answers *unknown* with the reason.
    """
    runs = read_runs(run_dirs)
    if not runs:
        raise Problem("no-runs", "There is no run to check.", "Name at least one run's folder.", usage=True)
    _called.set()
    with _turn:
        verdicts = _check(session, runs, checks)
    if write:
        for run, verdict in zip(runs, verdicts, strict=True):
            _write(run.directory / "verdict.json", encode_verdict(verdict))
    return verdicts


def rehearse(session: SparkSession) -> None:
    """Plan all checks over no run, and run them, so that the first real check finds a warm machine.

    Ends early, between two checks, as soon as somebody calls :func:`check_runs`.
    """
    with _turn:
        _fit_to_size(session, 0)
        tables = open_tables(session, ())
        define_views(tables)
        plans: list[tuple[str, DataFrame]] = []
        for check in (*CHECKS, SUMMARY):
            if _called.is_set():
                return
            plans.append((check.name, as_leaf(check.find(tables))))
        _collect(plans, small=True)


_turn = threading.Lock()
"""views have names in the session, so one set of runs at a time"""

_called = threading.Event()
"""somebody waits for verdicts: no time to rehearse"""


def _check(session: SparkSession, runs: Sequence[StoredRun], checks: Sequence[Check]) -> list[RunVerdict]:
    started = time.monotonic()
    gates = {(check.name, run.manifest.run_id): gate(check, run) for check in checks for run in runs}
    _fit_to_size(session, sum(sum(run.rows.values()) for run in runs))
    tables = open_tables(session, runs)
    try:
        define_views(tables)
        useful = [check for check in checks if any(gates[(check.name, run.manifest.run_id)].applies for run in runs)]
        answers = _answer(tables, [*useful, SUMMARY])
    finally:
        tables.release()
    told = _about_checker(session, time.monotonic() - started)
    return [_verdict(run, checks, gates, answers, told) for run in runs]


def _fit_to_size(session: SparkSession, rows: int) -> None:
    """Choose between the cheapest plan for a few rows and one that scales."""
    small = rows <= SMALL_ROWS
    _name_call_site(session)
    partitions = 1 if small else max(4, 2 * session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    session.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    session.conf.set("spark.sql.files.maxPartitionBytes", str((512 if small else 32) * 1024 * 1024))


def _name_call_site(session: SparkSession) -> None:
    """Name the place from which this thread uses Spark, else every operator looks for it in the stack."""
    for form in ("callSite.short", "callSite.long"):
        session.sparkContext.setLocalProperty(form, "checks")


def _answer(tables: Tables, checks: Sequence[Check]) -> _Answers:
    answers = _Answers({}, {}, {}, {})
    small = tables.row_count <= SMALL_ROWS
    plans: list[tuple[Check, DataFrame]] = []
    # The analyzer works on one check after the other, since views have names; the optimizer on those that it is through with.
    with ThreadPoolExecutor(_PLANNERS, initializer=_name_call_site, initargs=(tables.session,)) as planners:
        planned: list[tuple[Check, Future[DataFrame]]] = []
        for check in checks:
            try:
                planned.append((check, planners.submit(as_leaf, check.find(tables))))
            except Exception as error:
                answers.errors[check.name] = _reason(error)
        for check, future in planned:
            try:
                plans.append((check, future.result()))
            except Exception as error:
                answers.errors[check.name] = _reason(error)
    try:
        _take(_collect([(check.name, plan) for check, plan in plans], small), answers)
    except Exception as error:
        _log.warning("the checks failed together, each runs by itself now: %s", _reason(error))
        for check, plan in plans:
            try:
                _take(_collect([(check.name, plan)], small), answers)
            except Exception as own:
                answers.errors[check.name] = _reason(own)
    return answers


def _collect(plans: Sequence[tuple[str, DataFrame]], small: bool) -> list[Row]:
    """One job: unite, number the anomalies of each check and run, keep the first of them and every tally."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not plans:
        return []
    united = reduce(
        lambda left, right: left.union(right), [plan.withColumn("check", F.lit(name)) for name, plan in plans]
    )
    group = Window.partitionBy("check", "run_id", "row")
    order = group.orderBy("epoch", "offset", "subject", "facts", "message").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    if small:
        united = united.coalesce(1)  # else each of the many tiny tasks is sent the plans of all checks
    numbered = united.withColumn("number", F.row_number().over(order)).withColumn(
        "total", F.count(F.lit(1)).over(group.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    )
    return numbered.where((F.col("row") == TALLY) | (F.col("number") <= ANOMALIES_MAX)).collect()


def _take(rows: Sequence[Row], answers: _Answers) -> None:
    for row in sorted(rows, key=lambda row: (row["check"], row["run_id"], row["row"], row["number"])):
        key = (row["check"], row["run_id"])
        if row["row"] == ANOMALY:
            answers.anomalies.setdefault(key, []).append(row)
            answers.counts[key] = int(row["total"])
        else:
            _add(answers.tallies.setdefault(key, _Tally()), row)


def _add(tally: _Tally, row: Row) -> None:
    tally.evidence_rows += row["evidence_rows"] or 0
    tally.exercised += row["exercised"] or 0
    tally.unknown = tally.unknown or row["unknown"] or ""
    for name, value in (row["metrics"] or {}).items():
        if value is not None:
            tally.metrics = tally.metrics or {}
            tally.metrics[name] = max(tally.metrics.get(name, value), value)


def _reason(error: Exception) -> str:
    """The first line of an error, without Spark's plan below it."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"[:300]


def _verdict(
    run: StoredRun,
    checks: Sequence[Check],
    gates: Mapping[tuple[str, str], Gate],
    answers: _Answers,
    told: Mapping[str, Any],
) -> RunVerdict:
    manifest = run.manifest
    results = tuple(_result(check, manifest.run_id, gates[(check.name, manifest.run_id)], answers) for check in checks)
    verdict = merge(result.verdict for result in results if result.verdict is not None)
    summary = answers.tallies.get((SUMMARY.name, manifest.run_id), _Tally()).metrics or {}
    operations = {status: int(summary.get(status, 0)) for status in ("ok", "fail", "info")}
    return RunVerdict(
        run_id=manifest.run_id,
        verdict=verdict,
        sentence=run_sentence(manifest, verdict, results, operations),
        checks=results,
        operations=operations,
        faults=int(summary.get("faults", 0)),
        leader_changes=max(0, int(summary.get("leader_epochs", 0)) - 1),
        expected=None if manifest.expected is None else Verdict(manifest.expected),
        known_hazard=manifest.known_hazard,
        checker=told,
    )


def _result(check: Check, run_id: str, gate: Gate, answers: _Answers) -> CheckResult:
    tally = answers.tallies.get((check.name, run_id), _Tally())
    found = tuple(_anomaly(check, row) for row in answers.anomalies.get((check.name, run_id), ()))
    verdict: Verdict | None
    reason = answers.errors.get(check.name, "") or gate.missing or tally.unknown
    if not gate.applies:
        verdict, reason, found = None, gate.reason, ()
    elif found:
        verdict = Verdict.UNKNOWN if check.kind is Kind.FRAMEWORK else Verdict.INVALID
    else:
        verdict = Verdict.UNKNOWN if reason else Verdict.VALID
    return CheckResult(
        check=check.name,
        kind=check.kind,
        requirement=check.requirement,
        title=check.title,
        verdict=verdict,
        evidence_rows=tally.evidence_rows,
        exercised=tally.exercised,
        situation=check.situation,
        reason=reason,
        anomalies=found,
        anomaly_count=answers.counts.get((check.name, run_id), 0) if found else 0,
        metrics=tally.metrics,
    )


def _anomaly(check: Check, row: Row) -> Anomaly:
    finding = Finding(
        run_id=row["run_id"],
        subject=row["subject"] or check.name,
        epoch=row["epoch"],
        offset=row["offset"],
        operations=tuple(row["operations"] or ()),
        facts=json.loads(row["facts"]) if row["facts"] else {},
        witness=tuple(json.loads(text) for text in (row["witness"] or ())[:WITNESS_ROWS_MAX] if text is not None),
    )
    message = row["message"] or (check.sentence(finding) if check.sentence is not None else finding.subject)
    return Anomaly(
        run_id=finding.run_id,
        check=check.name,
        severity=check.kind,
        subject=finding.subject,
        message=message,
        witness=finding.witness,
        epoch=finding.epoch,
        offset=finding.offset,
        operations=finding.operations,
    )


def _about_checker(session: SparkSession, seconds: float) -> dict[str, Any]:
    context = session.sparkContext
    java: Any = context._jvm
    return {
        "spark": session.version,
        "master": context.master,
        "java": java.java.lang.System.getProperty("java.version"),
        "seconds": round(seconds, 2),
    }


def _write(path: Path, data: bytes) -> None:
    """Write a file so that it is either the old or the new one."""
    temporary = path.with_suffix(".json.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
