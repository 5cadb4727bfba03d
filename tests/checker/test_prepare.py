"""Checks that were planned while the run went on judge it as if they had been planned afterwards."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest

from checker.archive import archive_file
from checker.check import Check
from checker.checks.registry import CHECKS
from checker.java import Java
from checker.pending import table_reader
from checker.prepare import Prepared, prepare
from checker.run import check_runs
from checker.tables import SCHEMAS, read_runs
from checker.verdict import RunVerdict, Verdict
from tests.checker.tables import Story
from tests.checker.test_run import JOBS_MAX, healthy, jobs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_NAMES = {"one-leader-per-epoch", "vote-durable", "linearizable", "recovery", "faults-happened", "evidence-complete"}
FEW = [check for check in CHECKS if check.name in _NAMES]
"""enough to see that plans are used; that all checks can be planned so, one test shows"""


def begin(story: Story, store: Path) -> tuple[Path, Path]:
    """A run's folder before its tables were written, and where they wait."""
    run = story.write(store)
    waiting = store / f"tables-{story.manifest.run_id.replace('/', '-')}"
    (run / "tables").rename(waiting)
    return run, waiting


def unequal() -> Story:
    """Two leaders in one epoch, by what one of them said; what is no news is for no check."""
    story = healthy(99)
    story.said("n3", "n1", "BeginQuorumEpoch", "request", 8.5, epoch=2, leader="n3")
    story.said("n3", "n1", "BeginQuorumEpoch", "request", 8.6, epoch=1, leader="n3", is_news=False)
    return story


def same(one: RunVerdict, other: RunVerdict) -> bool:
    names = [name for name in RunVerdict.__dataclass_fields__ if name != "checker"]
    return all(getattr(one, name) == getattr(other, name) for name in names)


@pytest.mark.parametrize(("story", "checks"), [(healthy(1), CHECKS), (unequal(), FEW)], ids=["healthy", "two leaders"])
def test_a_prepared_plan_gives_the_verdict_of_a_stored_run(
    spark: SparkSession, tmp_path: Path, story: Story, checks: Sequence[Check]
) -> None:
    run, waiting = begin(story, tmp_path)
    prepared = prepare(spark, run, checks)
    waiting.rename(run / "tables")
    verdicts: list[RunVerdict] = []
    assert jobs_of(spark, lambda: verdicts.extend(check_runs(spark, [run], checks=checks, prepared=prepared))) == 1
    assert same(verdicts[0], check_runs(spark, [run], checks=checks, write=False)[0])


def test_the_manifest_counts_as_it_is_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    """Phases, stalls and whether the run was stopped are known only then; an early manifest promises nothing yet."""
    story = healthy(2)
    run, waiting = begin(story, tmp_path)
    at_the_end = (run / "run.json").read_bytes()
    early = story.manifest
    early = msgspec.structs.replace(
        early, phases=(), finished=False, candidate=msgspec.structs.replace(early.candidate, promises=(), evidence=())
    )
    (run / "run.json").write_bytes(msgspec.json.encode(early))
    prepared = prepare(spark, run, FEW)
    assert prepared.checks == {check.name for check in FEW}
    (run / "run.json").write_bytes(at_the_end)
    waiting.rename(run / "tables")
    (verdict,) = check_runs(spark, [run], checks=FEW, prepared=prepared)
    assert verdict.verdict is Verdict.VALID
    assert same(verdict, check_runs(spark, [run], checks=FEW, write=False)[0])


def test_a_table_that_never_came_is_missing_evidence(spark: SparkSession, tmp_path: Path) -> None:
    run, waiting = begin(healthy(3), tmp_path)
    prepared = prepare(spark, run, FEW)
    (waiting / "node_events.parquet").unlink()
    waiting.rename(run / "tables")
    (verdict,) = check_runs(spark, [run], checks=FEW, prepared=prepared)
    assert verdict.verdict is Verdict.UNKNOWN
    assert same(verdict, check_runs(spark, [run], checks=FEW, write=False)[0])


def test_a_table_that_nobody_promised_is_read_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    story = healthy(6)
    assert "state_digests" not in story.manifest.candidate.evidence
    run, waiting = begin(story, tmp_path)
    prepared = prepare(spark, run, FEW)
    waiting.rename(run / "tables")
    assert prepared.fits(read_runs([run]), FEW)
    digests = pa.table({name: [None] for name in SCHEMAS["state_digests"].names}).cast(
        pa.schema([field.with_nullable(True) for field in SCHEMAS["state_digests"]])
    )
    pa.parquet.write_table(digests, run / "tables" / "state_digests.parquet")
    assert not prepared.fits(read_runs([run]), FEW)


def test_a_plan_for_another_run_or_for_too_few_checks_is_not_used(spark: SparkSession, tmp_path: Path) -> None:
    first, waiting = begin(healthy(4), tmp_path)
    prepared = prepare(spark, first, FEW)
    waiting.rename(first / "tables")
    second = unequal().write(tmp_path)
    assert prepared.fits(read_runs([first]), FEW)
    assert not prepared.fits(read_runs([second]), FEW)
    assert not prepared.fits(read_runs([first, second]), FEW)
    few = Prepared(first, frozenset({"linearizable"}), prepared.tables, prepared.answers)
    assert not few.fits(read_runs([first]), FEW)
    (verdict,) = check_runs(spark, [second], checks=FEW, prepared=prepared)
    assert verdict.verdict is Verdict.INVALID


def test_a_prepared_plan_that_fails_gives_way_to_a_new_one(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, waiting = begin(healthy(5), tmp_path)
    prepared = prepare(spark, run, FEW)
    waiting.rename(run / "tables")
    manifest = (run / "run.json").read_bytes()
    runs = read_runs([run])
    (run / "run.json").write_text("torn {")
    with pytest.raises(Exception, match="cannot be read"):
        check_runs(spark, [run], checks=FEW, prepared=prepared)
    (run / "run.json").write_bytes(manifest)
    broken = Prepared(run, prepared.checks, prepared.tables, spark.sql("SELECT raise_error('broken') AS row"))
    assert broken.fits(runs, FEW)
    verdicts: list[RunVerdict] = []
    assert (
        1 < jobs_of(spark, lambda: verdicts.extend(check_runs(spark, [run], checks=FEW, prepared=broken))) <= JOBS_MAX
    )
    assert verdicts[0].verdict is Verdict.VALID
    assert "the prepared plan failed" in caplog.text


def test_a_table_lacking_a_column_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "faults.parquet"
    schema = SCHEMAS["faults"]
    assert list(table_reader(path, schema)(iter(()))) == []
    pa.parquet.write_table(pa.table({"run_id": ["a"]}), path)
    with pytest.raises(KeyError):
        list(table_reader(path, schema)(iter(())))


def test_an_archive_belongs_to_one_java_and_one_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("one", "17.0.1"), ("two", "21.0.2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "release").write_text(f'JAVA_VERSION="{version}"\n')
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    one = archive_file(Java(tmp_path / "one", 17, True))
    two = archive_file(Java(tmp_path / "two", 21, True))
    assert one is not None
    assert two is not None
    assert one != two
    assert one.is_relative_to(tmp_path / "venv")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert archive_file(Java(tmp_path / "one", 17, True)) is None
