"""The verdict of a run in one sentence, as it heads a report and ends a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checker.gate import NO_EVIDENCE
from checker.verdict import CheckResult, Kind, Verdict
from workloads.history.manifest import Manifest


def run_sentence(
    manifest: Manifest, verdict: Verdict, results: Sequence[CheckResult], operations: Mapping[str, int]
) -> str:
    """Say what was found; a liveness finding never says that data was lost."""
    tested = f"{manifest.candidate.name} {manifest.candidate.version} under {manifest.scenario}"
    if verdict is Verdict.INVALID:
        return _invalid(tested, results)
    if verdict is Verdict.UNKNOWN:
        unknown = [result for result in results if result.verdict is Verdict.UNKNOWN]
        first = unknown[0] if unknown else None
        why = "nothing was judged" if first is None else f"{first.check}: {_why(first)}"
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        return f"Nobody can tell whether {tested} is safe: {why}{more}."
    unmade = [result.check for result in results if result.verdict is None and NO_EVIDENCE in result.reason]
    without = f" Not checked, since it leaves no evidence for it: {', '.join(unmade)}." if unmade else ""
    judged = sum(result.verdict is not None for result in results)
    exercised = sum(result.verdict is not None and result.exercised > 0 for result in results)
    return (
        f"No violation was found in {tested}: {sum(operations.values())} operations passed {judged} checks, "
        f"{exercised} of which met a situation in which they could have failed.{without}"
    )


def _invalid(tested: str, results: Sequence[CheckResult]) -> str:
    bad = [result for result in results if result.verdict is Verdict.INVALID]
    worst = sorted(bad, key=lambda result: result.kind is not Kind.SAFETY)[0]
    kind = "breaks safety" if worst.kind is Kind.SAFETY else "breaks liveness"
    others = [result.check for result in bad if result is not worst]
    also = f" Also violated: {', '.join(others)}." if others else ""
    return f"{tested} {kind} ({worst.check}): {worst.anomalies[0].message}{also}"


def _why(result: CheckResult) -> str:
    said = result.reason or (result.anomalies[0].message if result.anomalies else "no reason was given")
    return said.rstrip(".")
