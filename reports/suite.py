"""A suite on one page: scenarios against candidates, what was found, what was not judged, and the command that repeats it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from checker.verdict import RunVerdict, Verdict
from reports.checklist import STATUS_ORDER
from reports.html import REPORT, render, write_page
from reports.load import read_verdict
from reports.page import Banner
from reports.summary import CheckTotals, check_totals, sureness_of
from workloads.problem import Problem


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """One scenario on one candidate, as the page is told of it."""

    scenario: str
    title: str
    group: str
    candidate: str
    seed: int
    verdict: str | None
    """valid, invalid or unknown; None where there is none"""
    weight: str
    """what it means for the suite: good, hazard, bad, unsure, failed, skipped, open"""
    meaning: str
    """the same in a few words, e.g. "as expected"; empty where the verdict says all"""
    said: str
    """the run's sentence, or why there is no verdict"""
    hazard: str
    run: Path | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class SuiteFacts:
    """What the page says of the whole."""

    name: str
    title: str
    started_at: str
    seed: int
    command: str
    """repeats the suite"""
    resume: str
    """goes on with it, empty when nothing is left"""
    code: int
    interrupted: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One square of the matrix."""

    status: str
    word: str
    meaning: str
    href: str | None
    about: str
    """seconds and seed"""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario."""

    scenario: str
    title: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The scenarios of one group."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """One run that somebody must look at."""

    status: str
    word: str
    where: str
    meaning: str
    said: str
    violated: tuple[str, ...]
    hazard: str
    href: str | None


@dataclass(frozen=True, slots=True)
class SuitePage:
    """The page."""

    banner: Banner
    facts: SuiteFacts
    candidates: tuple[str, ...]
    groups: tuple[Group, ...]
    counts: tuple[tuple[str, int, str], ...]
    """(status, number, words)"""
    told: tuple[Told, ...]
    gaps: tuple[Told, ...]
    checks: tuple[CheckTotals, ...]
    statuses: tuple[str, ...]
    sureness: str


_WORDS = {
    "bad": ("invalid", "broke a promise, or an expectation"),
    "failed": ("unknown", "failed to run: no verdict"),
    "unsure": ("unknown", "could not be judged"),
    "hazard": ("invalid", "invalid under a known hazard"),
    "good": ("valid", "valid, or as expected"),
    "open": ("not-reached", "not reached"),
    "skipped": ("not-applicable", "cannot be run here"),
}
"""weight → (shape, words), those first that somebody must look at"""

_MEANING = {
    0: "Exit code 0: every run that could be run is valid, what its scenario expects, or invalid under a hazard that it declares.",
    1: "Exit code 1: a promise was broken, or a verdict is not the expected one.",
    2: "Exit code 2: nothing was proven wrong, and something could not be judged.",
    130: "Exit code 130: stopped by a person without a finding; what was done is kept.",
    255: "Exit code 255: a run failed by itself, which says nothing of the candidate.",
}


def write_suite(out: Path, facts: SuiteFacts, entries: Sequence[SuiteEntry]) -> Path:
    """Write the page to ``out``, with links to the runs' reports, and return ``out``."""
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_page(out, render("suite.html", page=compose_suite(facts, entries, out.parent)))


def compose_suite(facts: SuiteFacts, entries: Sequence[SuiteEntry], beside: Path) -> SuitePage:
    """What the page says; links are relative to the folder ``beside``."""
    verdicts = {id(entry): _verdict(entry) for entry in entries}
    weights = Counter(entry.weight for entry in entries)
    candidates = tuple(dict.fromkeys(entry.candidate for entry in entries))
    word = {0: Verdict.VALID.value, 1: Verdict.INVALID.value}.get(facts.code, Verdict.UNKNOWN.value)
    looked = [entry for weight in ("bad", "failed", "unsure", "hazard") for entry in entries if entry.weight == weight]
    gaps = [entry for weight in ("open", "skipped") for entry in entries if entry.weight == weight]
    judged = [verdict for verdict in verdicts.values() if verdict is not None]
    return SuitePage(
        banner=Banner(
            word,
            _sentence(weights, len(entries)),
            _MEANING[facts.code],
            (("interrupted", "Stopped before its end"),) if facts.interrupted else (),
        ),
        facts=facts,
        candidates=candidates,
        groups=tuple(_groups(entries, candidates, beside)),
        counts=tuple((_WORDS[w][0], weights[w], _WORDS[w][1]) for w in _WORDS if weights[w]),
        told=tuple(_told(entry, verdicts[id(entry)], beside) for entry in looked),
        gaps=tuple(_told(entry, None, beside) for entry in gaps),
        checks=check_totals(judged),
        statuses=STATUS_ORDER,
        sureness=sureness_of(sum(v.verdict is Verdict.VALID for v in judged), len(entries)),
    )


def _verdict(entry: SuiteEntry) -> RunVerdict | None:
    if entry.run is None or entry.verdict is None:
        return None
    try:
        return read_verdict(entry.run)
    except Problem:
        return None


def _sentence(weights: Counter[str], total: int) -> str:
    told = [f"{weights[weight]} {words}" for weight, (_, words) in _WORDS.items() if weights[weight]]
    return f"Of {total} run{'' if total == 1 else 's'}: {'; '.join(told)}."


def _groups(entries: Sequence[SuiteEntry], candidates: Sequence[str], beside: Path) -> list[Group]:
    cells = {(entry.scenario, entry.candidate): _cell(entry, beside) for entry in entries}
    titles = {entry.scenario: entry.title for entry in entries}
    by_group: dict[str, list[str]] = {}
    for entry in entries:
        rows = by_group.setdefault(entry.group or "no group", [])
        if entry.scenario not in rows:
            rows.append(entry.scenario)
    return [
        Group(
            name,
            tuple(
                Row(scenario, titles[scenario], tuple(cells.get((scenario, candidate)) for candidate in candidates))
                for scenario in rows
            ),
        )
        for name, rows in by_group.items()
    ]


def _cell(entry: SuiteEntry, beside: Path) -> Cell:
    status, word = _shown(entry)
    seconds = "" if entry.seconds is None else f"{entry.seconds:.0f} s, "
    return Cell(status, word, entry.meaning, _href(entry, beside), f"{seconds}seed {entry.seed}")


def _shown(entry: SuiteEntry) -> tuple[str, str]:
    """(shape, word): the verdict where there is one."""
    if entry.verdict is not None and entry.weight != "failed":
        return entry.verdict, entry.verdict
    shape = _WORDS[entry.weight][0]
    return shape, {"failed": "failed", "open": "not reached", "skipped": "not run"}[entry.weight]


def _told(entry: SuiteEntry, verdict: RunVerdict | None, beside: Path) -> Told:
    status, word = _shown(entry)
    violated = () if verdict is None else tuple(r.check for r in verdict.checks if r.verdict is Verdict.INVALID)
    return Told(
        status,
        word,
        f"{entry.scenario} on {entry.candidate}",
        entry.meaning,
        entry.said,
        violated,
        entry.hazard,
        _href(entry, beside),
    )


def _href(entry: SuiteEntry, beside: Path) -> str | None:
    if entry.run is None or not (entry.run / REPORT).exists():
        return None
    return quote(os.path.relpath(entry.run / REPORT, beside))
