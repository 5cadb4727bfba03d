"""From stored runs to verdicts and reports: any number of runs in one pass of the checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from checker.verdict import RunVerdict
from nemesis.candidates import stored_candidate
from nemesis.store.evidence import collect_leftovers, read_run_journal, write_tables
from nemesis.store.layout import JOURNAL, TABLES
from nemesis.store.manifest import read_manifest, write_manifest
from workloads.history.manifest import Manifest, PhaseEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checker.prepare import Prepared


@dataclass(frozen=True, slots=True)
class Judged:
    """One run with its verdict and its report."""

    run: Path
    manifest: Manifest
    verdict: RunVerdict
    report: Path


def prepare(run: Path) -> None:
    """Make the tables of a run whose controller did not come to do it: it was killed, or failed on the way."""
    manifest = read_manifest(run)
    if (run / TABLES).is_dir() or not (run / JOURNAL).is_dir():
        return
    journal = read_run_journal(run)
    candidate = stored_candidate(manifest, run)
    collect_leftovers(run, manifest, candidate, journal)
    notes = list(manifest.notes)
    if not journal.closed:
        notes.append(
            f"the controller ended before the run did; {journal.torn_bytes} bytes of the journal were torn off"
        )
    phases = [
        PhaseEntry(name=row["name"], started_ns=row["started_ns"], ended_ns=row["ended_ns"])
        for row in _phases(journal.tables["phases"].to_pylist())
    ]
    manifest = msgspec.structs.replace(
        manifest, phases=tuple(phases) or manifest.phases, notes=tuple(notes), interrupted=True
    )
    write_tables(run, manifest, candidate, journal)
    write_manifest(run, manifest)


def judge(session: SparkSession, runs: Sequence[Path], prepared: Prepared | None = None) -> list[Judged]:
    """Check the runs, write ``verdict.json`` and ``report.html`` of each; ``prepared`` is used where it fits."""
    from checker.run import check_runs
    from reports.html import write_report

    verdicts = check_runs(session, runs, prepared=prepared)
    return [
        Judged(run, read_manifest(run), verdict, write_report(run)) for run, verdict in zip(runs, verdicts, strict=True)
    ]


def _phases(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each phase."""
    return list({row["name"]: row for row in rows}.values())
