"""``suite.json``: what a suite runs and what came of each run so far. It is written after each step, so a suite can be resumed."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from workloads.problem import Problem

SUITE = "suite.json"
SUITE_VERSION = 1
SUMMARY = "summary.html"
JUNIT = "junit.xml"
RUNS = "runs"


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario on one candidate."""

    scenario: str
    """a shipped name, or the path of a file"""
    title: str
    group: str
    candidate: str
    """as a person types it, e.g. ``kafka:3.9.2:static``"""
    seed: int
    expect: str | None = None
    known_hazard: str = ""
    run: str | None = None
    """its folder, relative to the suite's"""
    verdict: str | None = None
    sentence: str = ""
    failed: str = ""
    """why there is no verdict: the set-up or the framework failed"""
    skipped: str = ""
    """why it cannot be run at all"""
    seconds: float | None = None


class SuiteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A suite."""

    suite_version: int = SUITE_VERSION
    name: str
    title: str
    argv: tuple[str, ...]
    options: dict[str, str | float | int | None]
    seed: int
    started_at: str
    runs: tuple[SuiteRun, ...]
    interrupted: bool = False


def write_record(folder: Path, record: SuiteRecord) -> None:
    """Replace ``suite.json`` in one step."""
    fresh = folder / (SUITE + ".new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    os.replace(fresh, folder / SUITE)


def read_record(folder: Path) -> SuiteRecord:
    """Read ``suite.json``. Raises Problem (usage) for a folder that is no suite of this release."""
    try:
        record = msgspec.json.decode((folder / SUITE).read_bytes(), type=SuiteRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise Problem(
            "suite-unreadable",
            f"{folder} is no suite of this release: {error}.",
            f"Name a folder with a {SUITE}.",
            usage=True,
        ) from error
    if record.suite_version != SUITE_VERSION:
        raise Problem(
            "suite-unreadable", f"{folder} was written by another release.", "Run the suite again.", usage=True
        )
    return record


def replaced(record: SuiteRecord, position: int, run: SuiteRun) -> SuiteRecord:
    """The record with another run at a position."""
    runs = (*record.runs[:position], run, *record.runs[position + 1 :])
    return msgspec.structs.replace(record, runs=runs)
