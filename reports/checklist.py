"""Checks as a person reads them: what each says, how often it could have said otherwise, and what was not checked at all."""

from __future__ import annotations

from collections.abc import Iterable

from checker.verdict import CheckResult, Kind, RunVerdict, Verdict
from reports.page import CheckLine, Finding, NotChecked
from workloads.history.operation import FaultRow

STATUS_ORDER = ("invalid", "unknown", "valid", "not-exercised", "not-applicable")
_KINDS = tuple(kind.value for kind in Kind)


def status(result: CheckResult) -> str:
    """The status that is shown: *not exercised* is a valid result that could not have been another."""
    if result.verdict is None:
        return "not-applicable"
    if result.verdict is Verdict.VALID and result.exercised == 0:
        return "not-exercised"
    return result.verdict.value


def check_lines(verdict: RunVerdict, found: Iterable[Finding]) -> tuple[CheckLine, ...]:
    """All checks: violated ones first, then by kind in the order in which the checker lists them."""
    anchors: dict[str, list[tuple[str, str]]] = {}
    for finding in found:
        anchors.setdefault(finding.check, []).append((finding.anchor, str(finding.number)))
    lines = [_line(result, tuple(anchors.get(result.check, ()))) for result in verdict.checks]
    return tuple(sorted(lines, key=lambda line: (STATUS_ORDER.index(line.status), _KINDS.index(line.kind))))


def _line(result: CheckResult, anchors: tuple[tuple[str, str], ...]) -> CheckLine:
    metrics = tuple((name.replace("_", " "), _number(value)) for name, value in (result.metrics or {}).items())
    situation = f" {result.situation}" if result.situation else ""
    return CheckLine(
        name=result.check,
        kind=result.kind.value,
        requirement=result.requirement,
        title=result.title,
        status=status(result),
        evidence_rows=result.evidence_rows,
        exercised="" if result.verdict is None else f"{result.exercised:,}{situation}",
        reason=result.reason,
        found=max(result.anomaly_count, len(result.anomalies)),
        anchors=anchors,
        metrics=metrics,
    )


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def not_checked(verdict: RunVerdict, faults: Iterable[FaultRow]) -> tuple[NotChecked, ...]:
    """What this run does not prove: checks without an answer, and faults that did not happen."""
    gaps = []
    for result in verdict.checks:
        word = status(result)
        if word == "unknown":
            gaps.append(NotChecked(word, result.check, result.reason or "could not be judged"))
        elif word == "not-exercised":
            met = f"never met: {result.situation}" if result.situation else "no situation in which it could have failed"
            gaps.append(NotChecked(word, result.check, result.reason or met))
        elif word == "not-applicable":
            gaps.append(NotChecked(word, result.check, result.reason or "outside the candidate's promises"))
    for fault in faults:
        if fault.started_ns is None:
            gaps.append(
                NotChecked("not-reached", f"fault {fault.fault}", "planned, and the run ended before it was due")
            )
        elif fault.verified is False:
            gaps.append(NotChecked("unknown", f"fault {fault.fault}", "started, and no probe saw it take effect"))
    return tuple(sorted(gaps, key=lambda gap: (*STATUS_ORDER, "not-reached").index(gap.status)))


def sureness(verdict: RunVerdict) -> tuple[str, ...]:
    """How far the answer carries, in sentences."""
    judged = [result for result in verdict.checks if result.verdict is not None]
    proven = [result for result in judged if status(result) in ("valid", "invalid")]
    rows = sum(result.evidence_rows for result in judged)
    answered = (
        f"{len(proven)} of {len(verdict.checks)} checks gave an answer that could have been another, over {rows:,} rows of evidence. "
        f"{len(judged) - len(proven)} could not be judged or never met their situation; {len(verdict.checks) - len(judged)} do not apply."
    )
    said = [answered]
    if verdict.verdict is Verdict.VALID:
        said.append(
            "This is one run with one seed: a defect that shows in one run of twenty is missed by 19 single runs of 20. "
            "With n clean independent runs, a failure rate above 1 − 0.05^(1/n), about 3/n, is excluded at 95 %."
        )
    if verdict.verdict is Verdict.INVALID:
        said.append(
            "A finding stands on its witness alone: one violation is enough, however many operations were fine."
        )
    return tuple(said)
