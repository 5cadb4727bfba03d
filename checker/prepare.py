"""Checks of a run that has not ended, planned while it goes on; what is left for afterwards is to run the plan.

A prepared plan is only a short cut: where it does not fit the run after all, or fails, the run is checked like any stored one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checker.check import Check
from checker.checks.registry import CHECKS
from checker.pending import open_pending, tables_due
from checker.plans import fit_to_size, plan_checks, unite
from checker.summary import SUMMARY
from checker.tables import SMALL_ROWS, StoredRun, open_tables
from checker.views import define_views
from workloads.history.manifest import decode_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TURN = threading.Lock()
"""views have names in the session, so one set of runs at a time"""

WANTED = threading.Event()
"""somebody waits for verdicts: no time to rehearse"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The united plan of all checks that may apply to the run in ``directory``; running it gives what ``check_runs`` collects."""

    directory: Path
    checks: frozenset[str]
    tables: frozenset[str]
    """those that it reads; it takes the others for empty"""
    answers: DataFrame

    def fits(self, runs: Sequence[StoredRun], useful: Sequence[Check]) -> bool:
        """Whether it answers these checks of these runs: this run alone, of a size that one task a table is right for."""
        return (
            len(runs) == 1
            and runs[0].directory == self.directory
            and sum(runs[0].rows.values()) <= SMALL_ROWS
            and {name for name, rows in runs[0].rows.items() if rows} <= self.tables
            and all(check.name in self.checks for check in useful)
        )


def prepare(session: SparkSession, directory: Path, checks: Sequence[Check] = CHECKS) -> Prepared:
    """Plan checks of a run by its manifest so far. Raises what Spark raises, or OSError or msgspec's errors without a manifest."""
    manifest = decode_manifest((directory / "run.json").read_bytes())
    promises = manifest.candidate.promises
    # Before the candidate is installed nobody knows what it promises.
    useful = [check for check in checks if not promises or set(check.promises) <= set(promises)]
    with TURN:
        fit_to_size(session, 0)
        tables = open_pending(session, StoredRun(directory, manifest, {}))
        define_views(tables)
        plans = plan_checks(tables, [*useful, SUMMARY])
        answers = unite(session, plans.frames, small=True)
        answers._jdf.queryExecution().executedPlan()
    planned = frozenset(check.name for check in useful) - frozenset(plans.errors)
    return Prepared(directory, planned, tables_due(manifest), answers)


def rehearse(session: SparkSession) -> None:
    """Plan and run all checks over no run, so that the first real check finds a warm machine.

    Ends early, between two checks, as soon as somebody waits for verdicts.
    """
    with TURN:
        fit_to_size(session, 0)
        tables = open_tables(session, ())
        define_views(tables)
        for check in (*CHECKS, SUMMARY):
            if WANTED.is_set():
                return
            check.find(tables).collect()
