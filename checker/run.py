"""All checks over a set of runs in a handful of Spark jobs, merged into one verdict a run.

The checks' frames are united and collected once. When that job fails, each check runs by itself, so that one broken check
is *unknown* for its own reason and hides nothing else.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checker.check import ANOMALY, WITNESS_ROWS_MAX, Check, Finding
from checker.checks.registry import CHECKS
from checker.gate import Gate, gate
from checker.plans import fit_to_size, plan_checks, reason_of, unite
from checker.prepare import TURN, WANTED, Prepared
from checker.sentence import run_sentence
from checker.summary import SUMMARY
from checker.tables import SMALL_ROWS, StoredRun, Tables, open_tables, read_runs
from checker.verdict import Anomaly, CheckResult, Kind, RunVerdict, Verdict, merge
from checker.verdict_json import encode_verdict
from checker.views import define_views
from workloads.problem import Problem

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

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
    session: SparkSession,
    run_dirs: Sequence[Path],
    *,
    checks: Sequence[Check] = CHECKS,
    write: bool = True,
    prepared: Prepared | None = None,
) -> list[RunVerdict]:
    """Judge stored runs and write ``verdict.json`` into each; verdicts come in the order of ``run_dirs``.

    ``prepared`` is used where it fits the runs.

    Raises Problem for a folder that is no run, a damaged table, or the same run given twice. A failing check raises nothing: it
    answers *unknown* with the reason.
    """
    runs = read_runs(run_dirs)
    if not runs:
        raise Problem("no-runs", "There is no run to check.", "Name at least one run's folder.", usage=True)
    WANTED.set()
    with TURN:
        verdicts = _check(session, runs, checks, prepared)
    if write:
        for run, verdict in zip(runs, verdicts, strict=True):
            _write(run.directory / "verdict.json", encode_verdict(verdict))
    return verdicts


def _check(
    session: SparkSession, runs: Sequence[StoredRun], checks: Sequence[Check], prepared: Prepared | None
) -> list[RunVerdict]:
    started = time.monotonic()
    gates = {(check.name, run.manifest.run_id): gate(check, run) for check in checks for run in runs}
    useful = [check for check in checks if any(gates[(check.name, run.manifest.run_id)].applies for run in runs)]
    answers = None
    if prepared is not None and prepared.fits(runs, useful):
        answers = _answer_as_prepared(prepared)
    if answers is None:
        answers = _answer_from_files(session, runs, [*useful, SUMMARY])
    told = _about_checker(session, time.monotonic() - started)
    return [_verdict(run, checks, gates, answers, told) for run in runs]


def _answer_from_files(session: SparkSession, runs: Sequence[StoredRun], checks: Sequence[Check]) -> _Answers:
    fit_to_size(session, sum(sum(run.rows.values()) for run in runs))
    tables = open_tables(session, runs)
    try:
        define_views(tables)
        return _answer(tables, checks)
    finally:
        tables.release()


def _answer(tables: Tables, checks: Sequence[Check]) -> _Answers:
    small = tables.row_count <= SMALL_ROWS
    plans = plan_checks(tables, checks)
    answers = _Answers({}, {}, {}, plans.errors)
    try:
        if plans.frames:
            _take(unite(tables.session, plans.frames, small=small).collect(), answers)
    except Exception as error:
        _log.warning("the checks failed together, each runs by itself now: %s", reason_of(error))
        for plan in plans.frames:
            try:
                _take(unite(tables.session, [plan], small=small).collect(), answers)
            except Exception as own:
                answers.errors[plan[0].name] = reason_of(own)
    return answers


def _answer_as_prepared(prepared: Prepared) -> _Answers | None:
    answers = _Answers({}, {}, {}, {})
    try:
        _take(prepared.answers.collect(), answers)
    except Exception as error:
        _log.warning("the prepared plan failed, the checks are planned anew: %s", reason_of(error))
        return None
    return answers


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
    message = row["message"] or _sentence(check, finding)
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


def _sentence(check: Check, finding: Finding) -> str:
    """The check's own words for a finding; a plain one where evidence lacks a column that they need, for a finding is never lost."""
    if check.sentence is None:
        return finding.subject
    try:
        return check.sentence(finding)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        _log.warning("%s has no words for its finding at %s: %r", check.name, finding.subject, error)
        return f'"{check.title}" does not hold at {finding.subject}.'


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
