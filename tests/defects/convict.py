"""Performs the matrix once: every real run, every script, their twins without a defect, and one check of them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from checker.verdict import Anomaly, RunVerdict, Verdict
from clusters.candidates.reference.core.defects import DEFECTS
from clusters.candidates.reference.script.run import run_script
from clusters.candidates.reference.script.scripts import script
from nemesis import scenario
from nemesis.life.plan import SHORT_TIMERS
from tests.defects.matrix import REAL_RUNS, SCRIPTED, RealRun, Scripted
from tests.runs import perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD_S = 8.0
RATE = 150.0
"""operations a second: enough for every fault to meet some, and a third of the rows that the usual rate leaves to be judged"""
_AT_ONCE = 3

Row = RealRun | Scripted
Performing = Mapping[tuple[str, str], Future[Path]]
"""the folder of each run, by defect (none: a twin) and scenario or script"""


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts of the matrix: by row for the defects, by (scenario or script) for the twins."""

    convicted: dict[tuple[str, str], RunVerdict]
    twins: dict[str, RunVerdict]


def how(row: Row) -> str:
    """The scenario or script of a row."""
    return row.scenario if isinstance(row, RealRun) else row.script


@contextmanager
def performing(store: Path) -> Iterator[Performing]:
    """Begin everything, several runs at a time, since most of a run is waiting: other tests go on meanwhile."""
    rows = [(row.defect, row) for row in (*REAL_RUNS, *SCRIPTED)] + [("", row) for row in _twins()]
    # Not forked: this process may have threads of Spark's.
    with ProcessPoolExecutor(_AT_ONCE, mp_context=get_context("spawn")) as performers:
        yield {
            (defect, how(row)): performers.submit(_perform, store, row, defect)
            for defect, row in sorted(rows, key=lambda each: _turn(each[1]))
        }
        # Those that nobody waited for.
        performers.shutdown(cancel_futures=True)


def judge_all(begun: Performing, session: SparkSession) -> Judged:
    """Wait for all runs and judge them in one job."""
    from checker.run import check_runs

    folders = {key: run.result() for key, run in begun.items()}
    verdicts = dict(zip(folders, check_runs(session, list(folders.values())), strict=True))
    return Judged(
        {key: verdict for key, verdict in verdicts.items() if key[0]},
        {key[1]: verdict for key, verdict in verdicts.items() if not key[0]},
    )


def _turn(row: Row) -> int:
    """The longest first, so that nobody waits for one alone: those whose disks fail may never serve again; scripts take no time."""
    if isinstance(row, Scripted):
        return 2
    return 0 if scenario.load(row.scenario).group == "disk" else 1


def _perform(store: Path, row: Row, defect: str) -> Path:
    defects = (defect,) if defect else ()
    if isinstance(row, RealRun):
        # One store for all: it tells runs of one scenario and second apart.
        return perform(
            store,
            row.scenario,
            row.seed,
            duration_s=LOAD_S,
            rate=RATE,
            timers=SHORT_TIMERS,
            defects=defects,
            **row.options,
        )
    entry = script(row.script)
    folder = store / (defect or "twins") / f"script-{row.script}"
    run_script(entry.name, entry.play, seed=row.seed, defects=defects, stage=entry.stage, run=folder)
    return folder


def _twins() -> list[Row]:
    """One row of each scenario and script."""
    return list({how(row): row for row in (*REAL_RUNS, *SCRIPTED)}.values())


def convictions(verdict: RunVerdict) -> dict[str, Anomaly]:
    """Check → its first anomaly, of the checks that say invalid."""
    return {check.check: check.anomalies[0] for check in verdict.checks if check.verdict is Verdict.INVALID}


def page(judged: Judged) -> str:
    """The table as a Markdown page: defect, scenario or script, check that convicted it, witness."""
    numbers = {known.name: known for known in DEFECTS}
    order = {known.name: position for position, known in enumerate(DEFECTS)}
    lines = [
        "# Defects and what convicted them",
        "",
        "Generated from one pass of the matrix (`UPDATE_DEFECTS=1 bin/test tests/defects`). Each row is a run of the reference with one",
        "defect switched on: real processes under at most 8 s of load, or the same server played by script in virtual time. The same",
        "scenario or script without the defect is valid.",
        "",
        "| defect | what is wrong | shown by | convicted by | witness |",
        "|---|---|---|---|---|",
    ]
    for row in sorted((*REAL_RUNS, *SCRIPTED), key=lambda row: (order[row.defect], isinstance(row, Scripted))):
        found = convictions(judged.convicted[(row.defect, how(row))])
        kind = "scenario" if isinstance(row, RealRun) else "script"
        known = numbers[row.defect]
        for check in row.checks:
            witness = found[check].message.replace("|", "\\|") if check in found else "not convicted"
            lines.append(
                f"| {known.number} {known.name} | {known.sentence} | {kind} `{how(row)}` | {check} | {witness} |"
            )
    return "\n".join(lines) + "\n"
