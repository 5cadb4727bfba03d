"""Processes that end by themselves: whose fault it is, as stories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from checker.checks.crashes import NO_CRASH
from checker.verdict import CheckResult, Verdict
from tests.checker.cases import Case, assert_case, judge_cases
from tests.checker.tables import SECOND, Row, Story, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SAID = "exit status 1; the last that it said: java.lang.IllegalArgumentException: Unexpected acknowledgement from non-voter 2"


def crash(s: Story, *, detail: str = SAID, **columns: Any) -> None:
    s.life("n1", "start", 0)
    s.life("n1", "crash", 5.0, detail=detail, **columns)


def ends_by_itself(s: Story) -> None:
    crash(s)


def says_why(s: Story) -> None:
    s.event("n1", "fatal", seq=3, epoch=4, detail="ERROR Encountered fatal fault")
    s.event("n1", "fatal", seq=7, epoch=4, detail="ERROR Encountered another fatal fault")
    s.event("n1", "fatal", seq=1, incarnation=2, epoch=4, detail="ERROR of the next process")
    crash(s)


def is_killed_and_stopped(s: Story) -> None:
    s.life("n1", "start", 0)
    s.life("n1", "kill", 5.0, detail="exit status -9")
    s.life("n1", "start", 6.0, incarnation=2)
    s.life("n1", "stop", 9.0, incarnation=2, detail="exit status 0")


def its_disk_failed(s: Story) -> None:
    s.life("n1", "deprive", 4.0, detail="its disk is full")
    crash(s)


def its_disk_had_failed_under_the_process_before(s: Story) -> None:
    s.life("n1", "deprive", 1.0, detail="its disk is full")
    crash(s, incarnation=2)


def another_disk_failed(s: Story) -> None:
    s.life("n2", "deprive", 4.0, detail="its disk is full")
    crash(s)


def its_disk_was_damaged(s: Story) -> None:
    s.life("n1", "damage", 4.0)
    crash(s, incarnation=2)


def its_disk_was_damaged_and_wiped(s: Story) -> None:
    s.life("n1", "damage", 3.0)
    s.life("n1", "wipe", 4.0)
    crash(s, directory_id="another")


def lost_its_power_before(s: Story) -> None:
    s.life("n1", "power-cut", 4.0)
    crash(s)


def was_killed_by_somebody(s: Story) -> None:
    crash(s, detail="exit status -9")


def crashed(**columns: Any) -> Row:
    return {
        "table": "lifecycle", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "kind": "crash", "ts_ns": 5 * SECOND,
        "detail": SAID, **columns,
    }  # fmt: skip


FATAL = {
    "table": "node_events", "node": "n1", "incarnation": 1, "seq": 7, "kind": "fatal", "epoch": 4,
    "detail": "ERROR Encountered another fatal fault",
}  # fmt: skip


def sentence(incarnation: int = 1) -> str:
    return f"n1 (incarnation {incarnation}) ended by itself at 5.000 s, {SAID}."


CASES = (
    Case("it ends by itself", ends_by_itself, NO_CRASH, sentence(), (crashed(),)),
    Case(
        "it says why",
        says_why,
        NO_CRASH,
        f"{sentence()} It said before: ERROR Encountered another fatal fault",
        (crashed(), FATAL),
    ),
    Case("it is killed and stopped", is_killed_and_stopped, NO_CRASH),
    Case("its disk failed", its_disk_failed, NO_CRASH),
    Case(
        "its disk had failed under the process before",
        its_disk_had_failed_under_the_process_before,
        NO_CRASH,
        sentence(2),
        (crashed(incarnation=2),),
    ),
    Case("another disk failed", another_disk_failed, NO_CRASH, sentence(), (crashed(),)),
    Case("its disk was damaged", its_disk_was_damaged, NO_CRASH),
    Case(
        "its disk was damaged, then wiped",
        its_disk_was_damaged_and_wiped,
        NO_CRASH,
        sentence(),
        (crashed(directory_id="another"),),
    ),
    Case("it lost its power before", lost_its_power_before, NO_CRASH, sentence(), (crashed(),)),
)
SOMEBODY = Case("it was killed by somebody else", was_killed_by_somebody, NO_CRASH)


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, CheckResult]:
    return judge_cases(spark, tmp_path_factory.mktemp("runs"), [*CASES, SOMEBODY])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, results: dict[Case, CheckResult]) -> None:
    assert_case(case, results[case])


def test_who_was_killed_by_somebody_else_is_not_blamed_and_not_passed(results: dict[Case, CheckResult]) -> None:
    told = results[SOMEBODY]
    assert told.anomalies == ()
    assert told.verdict is Verdict.UNKNOWN
    assert "n1 was ended by somebody else, or it is not known how it ended (exit status -9)" in told.reason
