"""VOCABULARY: anomaly, result of a check, verdict, and how they merge. No Spark.

Verdicts form an order, invalid > unknown > valid, and one function merges them. *Not applicable* is no verdict: a check
outside the candidate's promises is listed as not checked and weighs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1


class Verdict(StrEnum):
    """The answer of a run: ``valid``, ``invalid`` or ``unknown``."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        """Refuse: unknown must never pass for valid; compare with ``is Verdict.VALID``."""
        raise TypeError("a verdict is no bool: write `verdict is Verdict.VALID`")


class Kind(StrEnum):
    """What a violated check means for the person who reads it."""

    SAFETY = "safety"
    LIVENESS = "liveness"
    FRAMEWORK = "framework"


_WEIGHT = {Verdict.VALID: 0, Verdict.UNKNOWN: 1, Verdict.INVALID: 2}


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of the verdicts; *unknown* where there are none, since nothing was judged."""
    worst: Verdict | None = None
    for verdict in verdicts:
        if worst is None or _WEIGHT[verdict] > _WEIGHT[worst]:
            worst = verdict
    return Verdict.UNKNOWN if worst is None else worst


@dataclass(frozen=True, slots=True)
class Anomaly:
    """The least evidence that one thing went wrong.

    ``message`` is one sentence that names node, offset, epoch, operation and the two facts that contradict each other.
    ``witness`` holds at most six rows; each is a plain mapping whose ``table`` tells where it was recorded (``operations``,
    ``node_events``, ``log_entries``, …) and whose other keys are columns of that table.
    """

    run_id: str
    check: str
    severity: Kind
    subject: str
    """what it is about, e.g. ``epoch 7`` or ``key 3`` or ``offset 88``; equal subjects are one finding"""
    message: str
    witness: tuple[Mapping[str, Any], ...] = ()
    epoch: int | None = None
    offset: int | None = None
    operations: tuple[int, ...] = ()
    """op_ids, for links into the timeline"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check says of one run.

    ``verdict`` None means *not applicable* (``reason`` says which promise is absent). ``evidence_rows`` counts rows looked
    at; ``exercised`` counts the situations in which the check could have failed, ``situation`` names them in words. A
    valid result with ``exercised`` zero is shown as *not exercised*.
    """

    check: str
    kind: Kind
    requirement: str
    title: str
    """the property in one plain sentence, e.g. "No two nodes lead in one epoch." """
    verdict: Verdict | None
    evidence_rows: int = 0
    exercised: int = 0
    situation: str = ""
    reason: str = ""
    anomalies: tuple[Anomaly, ...] = ()
    anomaly_count: int = 0
    """all that were found; ``anomalies`` may hold only the first of them"""
    metrics: Mapping[str, float | int | str] | None = None
    """measurements that no promise is judged by (staleness, recovery time)"""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict of one run: what ``verdict.json`` holds and what a report is a pure function of."""

    run_id: str
    verdict: Verdict
    sentence: str
    checks: tuple[CheckResult, ...]
    operations: Mapping[str, int]
    """counts of ``ok``, ``fail``, ``info``"""
    faults: int
    leader_changes: int
    expected: Verdict | None = None
    known_hazard: str = ""
    """e.g. KAFKA-14077: what the scenario declares about a set-up that is known to be bad"""
    checker: Mapping[str, Any] | None = None
    """versions and times of the checker"""
