"""Prints what came of one or several runs: for people, or as one JSON document whose shape is stable for scripts."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from checker.verdict import CheckResult, Verdict, merge
from nemesis.exit_codes import ExitCode, of_several, of_verdict
from nemesis.judge import Judged

_JSON_VERSION = 1
_SHOWN_ANOMALIES = 5


def print_outcomes(judged: Sequence[Judged], *, as_json: bool) -> ExitCode:
    """Print the verdicts and return the exit code of all of them together."""
    codes = [of_verdict(each.verdict.verdict, interrupted=False) for each in judged]
    if as_json:
        if len(judged) == 1:
            document = as_document(judged[0])
        else:
            runs = [as_document(each) for each in judged]
            document = {
                "schema_version": _JSON_VERSION,
                "verdict": merge(each.verdict.verdict for each in judged),
                "runs": runs,
            }
        print(json.dumps(document))
    else:
        for each in judged:
            print_outcome(each)
    return of_several(codes) if len(codes) > 1 else codes[0]


def print_outcome(judged: Judged) -> None:
    """Print one verdict: the sentence, the findings, the report's path; on stdout."""
    verdict = judged.verdict
    counts = verdict.operations
    print()
    print(f"{verdict.verdict.value.upper()}: {verdict.sentence}")
    for check in verdict.checks:
        if check.verdict is Verdict.VALID or check.verdict is None:
            continue
        print(f"  {check.verdict.value:<8}{check.check} ({check.requirement}): {_why(check)}")
    if verdict.known_hazard:
        print(f"  known hazard of this set-up: {verdict.known_hazard}")
    print(
        f"  operations: {counts.get('ok', 0)} ok, {counts.get('fail', 0)} fail, {counts.get('info', 0)} info; "
        f"{verdict.faults} faults, {verdict.leader_changes} leader changes"
    )
    print(f"  run:    {judged.run}")
    print(f"  report: {judged.report}")
    print(f"  repeat: {repeat_command(judged)}")


def repeat_command(judged: Judged) -> str:
    """The command that repeats the run: the same arguments with the seed fixed."""
    arguments = [a for a in judged.manifest.argv if a != "--json"]
    if "--seed" not in arguments and not any(a.startswith("--seed=") for a in arguments):
        arguments += ["--seed", str(judged.manifest.seed)]
    return shlex.join(["bin/nemesis", *arguments])


def as_document(judged: Judged) -> dict[str, Any]:
    """One run as ``--json`` prints it."""
    verdict = judged.verdict
    return {
        "schema_version": _JSON_VERSION,
        "verdict": verdict.verdict.value,
        "sentence": verdict.sentence,
        "run": str(judged.run),
        "report": str(judged.report),
        "seed": judged.manifest.seed,
        "operations": {name: verdict.operations.get(name, 0) for name in ("ok", "fail", "info")},
        "faults": verdict.faults,
        "leader_changes": verdict.leader_changes,
        "checks": [
            {
                "name": check.check,
                "kind": check.kind.value,
                "requirement": check.requirement,
                "verdict": check.verdict.value if check.verdict is not None else None,
                "evidence_rows": check.evidence_rows,
                "exercised": check.exercised,
                "reason": check.reason,
            }
            for check in verdict.checks
        ],
        "anomalies": [
            {"check": anomaly.check, "message": anomaly.message, "witness": [dict(row) for row in anomaly.witness]}
            for check in verdict.checks
            for anomaly in check.anomalies
        ],
    }


def _why(check: CheckResult) -> str:
    if not check.anomalies:
        return check.reason
    lines = [anomaly.message for anomaly in check.anomalies[:_SHOWN_ANOMALIES]]
    more = check.anomaly_count - len(lines)
    return "\n            ".join(lines + ([f"… and {more} more"] if more > 0 else []))


def say_first_steps(judged: Judged) -> None:
    """After a green run of the embedded reference: how to see a red one."""
    if judged.verdict.verdict is Verdict.VALID and judged.manifest.candidate.name == "reference":
        print(
            "  now break it: bin/nemesis run partition-leader --defect no-check-quorum",
            file=sys.stdout,
        )
