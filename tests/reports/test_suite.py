"""A suite's page: scenarios against candidates, what must be looked at first, and what was not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from reports.html import write_report
from reports.suite import SuiteEntry, SuiteFacts, compose_suite, write_suite
from tests.reports import stored_runs
from tests.reports.reading import read
from tests.reports.witnesses import convicted

FACTS = SuiteFacts(
    "process", "Process faults", "2026-11-21T15:40:00+00:00", 7, "bin/nemesis suite process --seed 7", "", 1, False
)


def entries(folder: Path) -> list[SuiteEntry]:
    good = stored_runs.store(folder / "runs" / "a run", run_verdict=stored_runs.verdict())
    bad = convicted(folder / "runs" / "b")
    for run in (good, bad):
        write_report(run)
    entry = SuiteEntry(
        "kill-leader",
        "Kill the leader",
        "process",
        "reference",
        7,
        "valid",
        "good",
        "",
        "Nothing found.",
        "",
        good,
        31.4,
    )
    return [
        entry,
        replace(entry, candidate="kafka:4.1.2", verdict="invalid", weight="bad", said="<b>Two</b> led.", run=bad),
        replace(
            entry,
            scenario="kill-all",
            verdict="invalid",
            weight="hazard",
            meaning="under a known hazard",
            hazard="H.",
            run=bad,
        ),
        replace(
            entry, scenario="kill-all", candidate="kafka:4.1.2", verdict=None, weight="failed", said="no Java", run=None
        ),
        replace(entry, scenario="cpu", verdict=None, weight="skipped", said="not on ssh", run=None, seconds=None),
        replace(
            entry,
            scenario="cpu",
            candidate="kafka:4.1.2",
            verdict=None,
            weight="open",
            said="stopped",
            run=None,
            seconds=None,
        ),
    ]


def test_every_run_is_a_square_and_the_worst_are_told_first(tmp_path: Path) -> None:
    page = compose_suite(FACTS, entries(tmp_path), tmp_path)
    assert page.candidates == ("reference", "kafka:4.1.2")
    squares = {row.scenario: [cell.word if cell else None for cell in row.cells] for row in page.groups[0].rows}
    assert squares == {
        "kill-leader": ["valid", "invalid"],
        "kill-all": ["invalid", "failed"],
        "cpu": ["not run", "not reached"],
    }
    assert [told.where for told in page.told] == [
        "kill-leader on kafka:4.1.2",
        "kill-all on kafka:4.1.2",
        "kill-all on reference",
    ]
    assert [gap.where for gap in page.gaps] == ["cpu on kafka:4.1.2", "cpu on reference"]
    assert page.banner.word == "invalid"
    assert page.banner.sentence.startswith("Of 6 runs: 1 broke a promise, or an expectation; 1 failed to run")
    assert "one-leader-per-epoch" in page.told[0].violated


def test_the_banner_is_never_better_than_the_exit_code(tmp_path: Path) -> None:
    for code, word in ((0, "valid"), (1, "invalid"), (2, "unknown"), (130, "unknown"), (255, "unknown")):
        page = compose_suite(replace(FACTS, code=code), entries(tmp_path / str(code)), tmp_path)
        assert page.banner.word == word
        assert page.banner.meaning.startswith(f"Exit code {code}:")


def test_links_lead_to_the_reports_and_nothing_of_a_candidate_becomes_markup(tmp_path: Path) -> None:
    out = write_suite(tmp_path / "suite" / "summary.html", FACTS, entries(tmp_path))
    text = out.read_text(encoding="utf-8")
    assert "<b>Two</b>" not in text
    page = read(text)
    outside = {unquote(address) for address in page.addresses if not address.startswith(("#", "data:"))}
    assert {(out.parent / address).resolve() for address in outside} == {
        tmp_path / "runs" / "a run" / "report.html",
        tmp_path / "runs" / "b" / "report.html",
    }


def test_a_suite_without_anything_to_look_at_says_so_by_silence(tmp_path: Path) -> None:
    page = compose_suite(replace(FACTS, code=0), entries(tmp_path)[:1], tmp_path)
    assert (page.told, page.gaps) == ((), ())
    assert "excluded at 95 %" in page.sureness
