"""All checks over runs: how many jobs, what is missing, what breaks, and what a verdict says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from checker.check import Check
from checker.checks.elections import ONE_LEADER_PER_EPOCH
from checker.checks.high_watermark import HIGH_WATERMARK_OWN_EPOCH
from checker.checks.log_matching import LOG_MATCHING
from checker.checks.registry import CHECKS
from checker.plans import ANOMALIES_MAX
from checker.run import check_runs
from checker.tables import SCHEMAS, Tables
from checker.verdict import CheckResult, Kind, RunVerdict, Verdict
from checker.verdict_json import decode_verdict, encode_verdict
from tests.checker.tables import PROMISES, SECOND, Story, manifest
from workloads.problem import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EVIDENCE = ("log_entries", "node_events", "quorum_samples", "quorum_states", "lifecycle")
JOBS_MAX = 6


def healthy(number: int = 1) -> Story:
    """A small healthy run with rows in every table that a candidate promises."""
    base = manifest(run_id=f"healthy/{number}", needs={"isolations": 1, "cut_off_operations": 1})
    s = Story(msgspec.structs.replace(base, candidate=msgspec.structs.replace(base.candidate, evidence=EVIDENCE)))
    for node in ("n1", "n2", "n3"):
        s.life(node, "format", 0)
        s.life(node, "start", 0.1)
        s.event(node, "start", epoch=0, state="unattached", ts_ns=SECOND // 5)
        s.state(node, "unattached", 0)
        s.log(node, (1, 0, 3), (2, 4, 6))
        s.rows["log_entries"][-6].update(f="write", key=1, value=50)
        s.stored(node, 2, leader="n2", log_start=0, log_end=7)
    s.state("n1", "prospective", 0)
    s.state("n1", "candidate", 1)
    s.state("n1", "leader", 1)
    s.sample("n1", 1.0, 1, 4)
    s.cut("n1", 3.0, 7.0, leader="n1", leader_epoch=1)
    s.sample("n2", 8.0, 2, 7)
    s.sample("n2", 21.5, 2, 7)
    s.operation("write", 50, key=1)
    s.operation("read", key=1, output=(50,), invoked_ns=4 * SECOND, completed_ns=None, status="info")
    s.operation(
        "read", key=1, output=(50,), phase="final", client_node="n2", invoked_ns=22 * SECOND, completed_ns=23 * SECOND
    )
    return s


def jobs_of(spark: SparkSession, act: Callable[[], Any]) -> int:
    """How many Spark jobs ``act`` starts in a group of its own."""
    context = spark.sparkContext
    context.setJobGroup("counted", "counted")
    before = set(context.statusTracker().getJobIdsForGroup("counted"))
    try:
        act()
        return len(set(context.statusTracker().getJobIdsForGroup("counted")) - before)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def result_of(verdict: RunVerdict, check: str) -> CheckResult:
    return next(result for result in verdict.checks if result.check == check)


def test_a_healthy_run_is_valid_in_a_handful_of_jobs(spark: SparkSession, tmp_path: Path) -> None:
    run = healthy().write(tmp_path)
    verdicts: list[RunVerdict] = []
    assert jobs_of(spark, lambda: verdicts.extend(check_runs(spark, [run]))) <= JOBS_MAX
    (verdict,) = verdicts
    assert {(r.check, r.reason) for r in verdict.checks if r.verdict not in (Verdict.VALID, None)} == set()
    assert verdict.verdict is Verdict.VALID
    assert verdict.operations == {"ok": 2, "fail": 0, "info": 1}
    assert (verdict.faults, verdict.leader_changes) == (1, 1)
    assert verdict.sentence.startswith("No violation was found in reference 1 under story: 3 operations passed ")
    assert result_of(verdict, "leader-resigns").exercised == 1
    assert decode_verdict((run / "verdict.json").read_bytes()) == verdict


def test_thirty_runs_take_as_many_jobs_as_one(spark: SparkSession, tmp_path: Path) -> None:
    runs = [healthy(number).write(tmp_path) for number in range(30)]
    bad = healthy(99)
    bad.record("n3", 9, 2, kind="leader_change", leader="n3")
    bad.record("n2", 9, 2, kind="leader_change", leader="n1")
    runs.insert(7, bad.write(tmp_path))
    verdicts: list[RunVerdict] = []
    assert jobs_of(spark, lambda: verdicts.extend(check_runs(spark, runs, write=False))) <= JOBS_MAX
    assert [verdict.run_id for verdict in verdicts] == [str(run.relative_to(tmp_path)) for run in runs]
    assert [number for number, verdict in enumerate(verdicts) if verdict.verdict is Verdict.INVALID] == [7]
    assert verdicts[7].sentence.startswith(
        "reference 1 under story breaks safety (one-leader-per-epoch): Epoch 2 has two leaders: "
    )


def test_a_finding_without_words_is_told_all_the_same(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A sentence that trips over evidence must not hide what was found."""
    story = healthy(98)
    story.record("n3", 9, 2, kind="leader_change", leader="n3")
    story.record("n2", 9, 2, kind="leader_change", leader="n1")

    def trips(finding: Any) -> str:
        raise KeyError("log_end")

    check = replace(ONE_LEADER_PER_EPOCH, sentence=trips)
    (verdict,) = check_runs(spark, [story.write(tmp_path)], checks=(check,), write=False)
    assert verdict.verdict is Verdict.INVALID
    (anomaly,) = result_of(verdict, check.name).anomalies
    assert anomaly.message == f'"{check.title}" does not hold at {anomaly.subject}.'
    assert anomaly.witness
    assert "has no words" in caplog.text


@pytest.fixture(scope="module")
def missing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], RunVerdict]:
    """Healthy runs that each lack one table: without the file, and with the file but no row in it."""
    store = tmp_path_factory.mktemp("missing")
    keys, runs = [], []
    for number, table in enumerate(("operations", "faults", *EVIDENCE)):
        for way in ("absent", "empty"):
            story = healthy(2 * number + (way == "empty"))
            story.rows[table].clear()
            if way == "absent":
                story.without(table)
            keys.append((table, way))
            runs.append(story.write(store))
    return dict(zip(keys, check_runs(spark, runs, write=False), strict=True))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_missing_evidence_is_never_valid(check: Check, missing: dict[tuple[str, str], RunVerdict]) -> None:
    """Each table that a check may use and that was promised: without it the check does not say valid."""
    for table in {table for group in check.needs for table in group}:
        for way in ("absent", "empty"):
            verdict = missing.get((table, way))
            if verdict is None or (table == "faults" and way == "empty"):
                continue
            result = result_of(verdict, check.name)
            assert result.verdict is not Verdict.VALID, (table, way)
            assert table in result.reason or result.verdict is None or result.anomalies, (table, way, result.reason)


def test_an_empty_history_is_unknown(missing: dict[tuple[str, str], RunVerdict]) -> None:
    verdict = missing[("operations", "empty")]
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.sentence.startswith("Nobody can tell whether reference 1 under story is safe: ")


def test_what_is_not_promised_is_not_judged(spark: SparkSession, tmp_path: Path) -> None:
    """A black box that promises nothing: rules about promises are not applicable, and weigh nothing."""
    story = healthy().promise("linearizable-operations")
    story.event("n1", "high_watermark", state="leader", epoch=1, high_watermark=4, entry_epoch=0)
    (verdict,) = check_runs(
        spark, [story.write(tmp_path)], checks=(HIGH_WATERMARK_OWN_EPOCH, LOG_MATCHING), write=False
    )
    result = result_of(verdict, "high-watermark-own-epoch")
    assert (result.verdict, result.anomalies, result.reason) == (None, (), "reference 1 does not promise node-trace")
    assert verdict.verdict is Verdict.VALID


def broken_when_planned(tables: Tables) -> DataFrame:
    return tables.sql("SELECT nothing FROM nowhere")


def broken_when_run(tables: Tables) -> DataFrame:
    return tables.findings(
        anomalies="""SELECT run_id, raise_error('it broke') AS subject, NULL AS epoch, NULL AS offset, NULL AS operations, NULL AS facts,
                            NULL AS witness FROM runs""",
        tally="SELECT run_id, 0 AS evidence_rows, 0 AS exercised, NULL AS unknown, NULL AS metrics FROM runs",
    )


@pytest.mark.parametrize(("find", "reason"), [(broken_when_planned, "nowhere"), (broken_when_run, "it broke")])
def test_a_broken_check_is_unknown_and_hides_nothing(
    find: Callable[[Tables], DataFrame], reason: str, spark: SparkSession, tmp_path: Path
) -> None:
    broken = replace(LOG_MATCHING, name="broken", find=find)
    story = healthy()
    story.rows["log_entries"][-1].update(checksum=1)
    (verdict,) = check_runs(
        spark, [story.write(tmp_path)], checks=(broken, LOG_MATCHING, ONE_LEADER_PER_EPOCH), write=False
    )
    assert result_of(verdict, "broken").verdict is Verdict.UNKNOWN
    assert reason in result_of(verdict, "broken").reason
    assert result_of(verdict, "log-matching").verdict is Verdict.INVALID
    assert result_of(verdict, "one-leader-per-epoch").verdict is Verdict.VALID


def test_findings_are_bounded_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    story = healthy()
    for epoch in range(10, 40):
        story.sample("n1", epoch, epoch)
        story.sample("n2", epoch, epoch)
    (verdict,) = check_runs(spark, [story.write(tmp_path)], checks=(ONE_LEADER_PER_EPOCH,), write=False)
    result = result_of(verdict, "one-leader-per-epoch")
    assert result.anomaly_count == 30
    assert [anomaly.epoch for anomaly in result.anomalies] == list(range(10, 10 + ANOMALIES_MAX))


def test_the_same_run_twice_is_a_problem(spark: SparkSession, tmp_path: Path) -> None:
    run = healthy().write(tmp_path)
    with pytest.raises(Problem, match="are the same run") as caught:
        check_runs(spark, [run, run])
    assert caught.value.usage


@pytest.mark.parametrize(
    ("name", "content", "slug"),
    [("run.json", b"{", "damaged-manifest"), ("tables/operations.parquet", b"no parquet", "damaged-table")],
)
def test_damaged_files_are_problems(name: str, content: bytes, slug: str, spark: SparkSession, tmp_path: Path) -> None:
    run = healthy().write(tmp_path)
    (run / name).write_bytes(content)
    with pytest.raises(Problem) as caught:
        check_runs(spark, [run])
    assert caught.value.slug == slug
    with pytest.raises(Problem) as caught:
        check_runs(spark, [tmp_path / "nothing"])
    assert caught.value.slug == "no-run"


def test_checks_have_names_of_their_own_and_known_tables() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    for check in CHECKS:
        assert {table for group in check.needs for table in group} <= set(SCHEMAS)
        assert set(check.promises) <= {*PROMISES, "linearizable-reads"}
        assert check.title.endswith(".")
        assert check.kind in Kind


def test_a_verdict_of_a_later_schema_is_refused() -> None:
    verdict = RunVerdict("r", Verdict.VALID, "s", (), {}, 0, 0)
    data = encode_verdict(verdict).replace(b'"schema_version": 1', b'"schema_version": 2')
    with pytest.raises(ValueError, match="newer"):
        decode_verdict(data)
