"""Several stored runs on one page: a row a run with its verdict and its report, and each check over all of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from checker.verdict import CheckResult, RunVerdict, Verdict, merge
from reports.checklist import STATUS_ORDER, status
from reports.compose import EXIT_MEANING, without_word
from reports.html import REPORT, render, write_page
from reports.load import read_manifest, read_verdict
from reports.page import Banner
from workloads.history.manifest import Manifest
from workloads.problem import Problem

NOT_CHECKED = "unknown"


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run of the summary."""

    status: str
    scenario: str
    candidate: str
    seed: str
    operations: str
    faults: str
    leader_changes: str
    said: str
    violated: tuple[str, ...]
    href: str | None
    """relative to the summary, None where no report was written"""
    run_id: str


@dataclass(frozen=True, slots=True)
class CheckTotals:
    """One check over all runs."""

    name: str
    kind: str
    title: str
    counts: tuple[int, ...]
    """runs by status, in the order of ``STATUS_ORDER``"""
    exercised: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The page of several runs."""

    banner: Banner
    counts: tuple[tuple[str, int], ...]
    runs: tuple[RunLine, ...]
    checks: tuple[CheckTotals, ...]
    statuses: tuple[str, ...]
    sureness: str


def write_summary(runs: Sequence[Path], out: Path) -> Path:
    """Write the summary of several stored runs to ``out``, with links to their reports, and return ``out``.

    A run that was not checked has a row that says so and makes the whole unknown. Raises
    :class:`workloads.problem.Problem` when a folder holds no run.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_page(out, render("summary.html", page=summarise(runs, out.parent)))


def summarise(runs: Sequence[Path], beside: Path) -> Summary:
    """What the summary says; links are relative to the folder ``beside``."""
    judged: list[RunVerdict] = []
    lines: list[RunLine] = []
    for run in runs:
        manifest = read_manifest(run)
        try:
            verdict = read_verdict(run)
        except Problem as problem:
            lines.append(_line(run, manifest, None, problem.what, beside))
            continue
        judged.append(verdict)
        lines.append(_line(run, manifest, verdict, without_word(verdict), beside))
    whole = merge([*(verdict.verdict for verdict in judged), *([Verdict.UNKNOWN] if len(judged) < len(runs) else [])])
    counts = Counter(line.status for line in lines)
    order = {word: i for i, word in enumerate(STATUS_ORDER)}
    return Summary(
        banner=Banner(whole.value, _sentence(counts, len(runs)), EXIT_MEANING[whole]),
        counts=tuple(sorted(counts.items(), key=lambda count: order[count[0]])),
        runs=tuple(sorted(lines, key=lambda line: (order[line.status], line.scenario, line.run_id))),
        checks=check_totals(judged),
        statuses=STATUS_ORDER,
        sureness=sureness_of(counts.get(Verdict.VALID.value, 0), len(runs)),
    )


def _line(run: Path, manifest: Manifest, verdict: RunVerdict | None, said: str, beside: Path) -> RunLine:
    report = run / REPORT
    href = quote(os.path.relpath(report, beside)) if report.exists() else None
    violated = () if verdict is None else tuple(r.check for r in verdict.checks if r.verdict is Verdict.INVALID)
    defects = "".join(f" with {defect}" for defect in manifest.candidate.defects)
    return RunLine(
        status=NOT_CHECKED if verdict is None else verdict.verdict.value,
        scenario=manifest.scenario,
        candidate=f"{manifest.candidate.name} {manifest.candidate.version}{defects}",
        seed=str(manifest.seed),
        operations="–" if verdict is None else f"{sum(verdict.operations.values()):,}",
        faults="–" if verdict is None else f"{verdict.faults:,}",
        leader_changes="–" if verdict is None else f"{verdict.leader_changes:,}",
        said=said,
        violated=violated,
        href=href,
        run_id=manifest.run_id,
    )


def _sentence(counts: Counter[str], total: int) -> str:
    told = ", ".join(
        f"{counts[word.value]} {word.value}"
        for word in (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VALID)
        if counts[word.value]
    )
    return f"Of {total} run{'' if total == 1 else 's'}: {told or 'none was judged'}."


def sureness_of(clean: int, total: int) -> str:
    """What so many clean runs exclude, in words."""
    if clean < total or not clean:
        return "A finding in one run is a finding, however many others were clean."
    bound = 1 - 0.05 ** (1 / clean)
    return (
        f"All {clean} runs are clean. If they are independent, a failure that shows in more than {bound:.0%} of runs "
        "is excluded at 95 % (1 − 0.05^(1/n)); a rarer one is not."
    )


def check_totals(verdicts: Iterable[RunVerdict]) -> tuple[CheckTotals, ...]:
    """Each check over all runs: how many gave which answer, and how often it could have failed."""
    results: dict[str, list[CheckResult]] = {}
    for verdict in verdicts:
        for result in verdict.checks:
            results.setdefault(result.check, []).append(result)
    totals = []
    for name, found in results.items():
        counts = Counter(status(result) for result in found)
        numbers = tuple(counts[word] for word in STATUS_ORDER)
        totals.append(CheckTotals(name, found[0].kind.value, found[0].title, numbers, sum(r.exercised for r in found)))
    return tuple(totals)
