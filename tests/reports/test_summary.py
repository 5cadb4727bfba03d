"""Several runs on one page: worst first, each with a link that resolves, and one that was not checked is not forgotten."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from checker.verdict import Verdict
from reports.html import write_report
from reports.summary import summarise, write_summary
from tests.reports import stored_runs
from tests.reports.reading import read
from tests.reports.witnesses import convicted
from workloads.problem import Problem


def test_runs_are_listed_worst_first_and_merged(tmp_path: Path) -> None:
    good = stored_runs.store(tmp_path / "a run", run_verdict=stored_runs.verdict())
    unsure = stored_runs.store(tmp_path / "b", run_verdict=stored_runs.verdict(Verdict.UNKNOWN, "Nobody can tell."))
    bad = convicted(tmp_path / "c")
    page = summarise([good, unsure, bad], tmp_path)
    assert [line.status for line in page.runs] == ["invalid", "unknown", "valid"]
    assert page.banner.word == "invalid"
    assert page.banner.sentence == "Of 3 runs: 1 invalid, 1 unknown, 1 valid."
    assert page.runs[0].violated[:2] == ("one-leader-per-epoch", "one-vote-per-epoch")
    matching = next(check for check in page.checks if check.name == "log-matching")
    assert dict(zip(page.statuses, matching.counts, strict=True))["invalid"] == 1
    assert matching.exercised == 120


def test_links_lead_to_the_reports(tmp_path: Path) -> None:
    good = stored_runs.store(tmp_path / "runs" / "a run", run_verdict=stored_runs.verdict())
    write_report(good)
    out = write_summary([good], tmp_path / "out" / "summary.html")
    page = read(out.read_text(encoding="utf-8"))
    outside = [address for address in page.addresses if not address.startswith(("#", "data:"))]
    assert len(outside) == 1
    assert (out.parent / unquote(outside[0])).resolve() == good / "report.html"


def test_a_run_that_was_not_checked_makes_the_whole_unknown(tmp_path: Path) -> None:
    good = stored_runs.store(tmp_path / "a", run_verdict=stored_runs.verdict())
    unchecked = stored_runs.store(tmp_path / "b")
    page = summarise([good, unchecked], tmp_path)
    assert page.banner.word == "unknown"
    assert [(line.status, line.href) for line in page.runs] == [("unknown", None), ("valid", None)]
    assert "verdict.json cannot be read" in page.runs[0].said


def test_clean_runs_tell_what_they_exclude(tmp_path: Path) -> None:
    run = stored_runs.store(tmp_path / "a", run_verdict=stored_runs.verdict())
    assert "more than 14% of runs" in summarise([run] * 20, tmp_path).sureness


def test_a_folder_without_a_run_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"run\.json"):
        write_summary([tmp_path], tmp_path / "summary.html")
