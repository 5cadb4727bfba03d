"""Cases for checks: a tiny story each, the check that looks at it, and the whole finding or none.

All cases of a module are judged together, in one job: each is a run of its own, so they also show that runs do not mix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checker.check import Check
from checker.run import check_runs
from checker.verdict import CheckResult, Verdict
from tests.checker.tables import Story, manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Witness = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, eq=False)
class Case:
    """One story. Without ``message`` it is legal, and the check must have been exercised unless ``idle``."""

    name: str
    build: Callable[[Story], Any]
    check: Check
    message: str | None = None
    witness: Witness = ()
    idle: bool = False

    def __str__(self) -> str:
        return f"{self.check.name}: {self.name}"


def judge_cases(spark: SparkSession, store: Path, cases: Sequence[Case]) -> dict[Case, CheckResult]:
    """Judge all cases in one go; each with its own check's result."""
    runs = []
    for number, case in enumerate(cases):
        story = Story(manifest(run_id=f"case/{number}"))
        case.build(story)
        runs.append(story.write(store))
    checks = tuple({case.check.name: case.check for case in cases}.values())
    verdicts = check_runs(spark, runs, checks=checks, write=False)
    return {
        case: next(result for result in verdict.checks if result.check == case.check.name)
        for case, verdict in zip(cases, verdicts, strict=True)
    }


def assert_case(case: Case, result: CheckResult, *, unknown: bool = False) -> None:
    """Compare the result with what the case expects: the sentence and the whole witness, or no finding at all."""
    found = [(anomaly.message, anomaly.witness) for anomaly in result.anomalies]
    if case.message is None:
        assert found == []
        assert result.verdict is Verdict.VALID, result.reason
        assert (result.exercised == 0) is case.idle
        return
    assert found == [(case.message, case.witness)]
    assert result.verdict is (Verdict.UNKNOWN if unknown else Verdict.INVALID)
    assert result.anomaly_count == 1
