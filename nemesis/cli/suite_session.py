"""A suite from the command line: one run after the other in one Spark session, recorded after each, summarised at the end."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from checker.verdict import RunVerdict, Verdict
from clusters.backends.backend import Place
from clusters.backends.leftovers import sweep
from nemesis import scenario as scenarios
from nemesis.cli.screen import Screen
from nemesis.cli.session import SPARK_PATIENCE_S, begin_spark, headline, live_through
from nemesis.exit_codes import ExitCode
from nemesis.judge import Judged, judge, prepare
from nemesis.life.begin import begin_run
from nemesis.life.plan import SHORT_TIMERS, RunOptions, named_timers, plan_run
from nemesis.life.run import Run
from nemesis.scenario import Scenario
from nemesis.store.layout import TABLES
from nemesis.store.manifest import read_manifest
from nemesis.suite.junit import write_junit
from nemesis.suite.plan import SuiteList, plan_suite, run_options
from nemesis.suite.record import JUNIT, RUNS, SUMMARY, SuiteRecord, SuiteRun, read_record, replaced, write_record
from nemesis.suite.weight import Weight, exit_code, meaning, weigh
from reports.load import read_verdict
from reports.suite import SuiteEntry, SuiteFacts, write_suite
from workloads.problem import Problem

_SUITES = "suites"


@dataclass(slots=True)
class SuiteUnderWay:
    """A suite, with what is done of it."""

    folder: Path
    record: SuiteRecord
    base: RunOptions


def begin_suite(found: SuiteList, candidates: Sequence[str], base: RunOptions, timers: str) -> SuiteUnderWay:
    """Plan all runs and make the suite's folder. Raises Problem (usage) before anything starts."""
    runs = plan_suite(found, candidates, base)
    now = datetime.now(UTC)
    folder = base.store.absolute() / _SUITES / found.name / f"{now.strftime('%Y%m%dT%H%M%S')}-{base.seed}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Problem(
            "store-unwritable", f"{folder} cannot be made: {error.strerror}.", "Name another --store DIR."
        ) from error
    options: dict[str, str | float | int | None] = {
        "cluster": base.cluster,
        "image": base.place.image,
        "inventory": None if base.place.inventory is None else str(base.place.inventory),
        "duration_s": base.duration_s,
        "observers": base.observers,
        "workload": base.workload,
        "to_version": base.to_version,
        "timers": timers,
        "master": base.master,
    }
    record = SuiteRecord(
        name=found.name,
        title=found.title,
        argv=base.argv,
        options=options,
        seed=base.seed,
        started_at=now.isoformat(timespec="seconds"),
        runs=runs,
    )
    write_record(folder, record)
    return SuiteUnderWay(folder, record, replace(base, store=folder / RUNS))


def resume_suite(folder: Path) -> SuiteUnderWay:
    """A stored suite, to go on with. What failed to run is tried again; what has a verdict is kept."""
    folder = folder.absolute()
    record = read_record(folder)
    stored: dict[str, Any] = record.options
    inventory = stored.get("inventory")
    base = RunOptions(
        scenario=Scenario("suite", "", ""),
        argv=record.argv,
        seed=record.seed,
        store=folder / RUNS,
        workload=stored["workload"],
        to_version=stored.get("to_version"),
        duration_s=stored["duration_s"],
        master=stored["master"],
        timers=named_timers(stored["timers"]),
        cluster=stored["cluster"],
        place=Place(image=stored["image"], inventory=None if inventory is None else Path(inventory)),
    )
    if stored["observers"] is not None:
        base = replace(base, observers=stored["observers"])
    runs = tuple(msgspec.structs.replace(run, failed="") for run in record.runs)
    return SuiteUnderWay(folder, msgspec.structs.replace(record, runs=runs, interrupted=False), base)


def go_on(suite: SuiteUnderWay, *, junit: Path | None, as_json: bool) -> ExitCode:
    """Run what is left, write the summary, print what came of it; returns the suite's exit code."""
    screen = Screen()
    for leftover in sweep(thorough=suite.base.cluster != "local"):
        screen.say(f"cleaned up after a run that was killed: {leftover}")
    screen.say(f"suite: {suite.folder}")
    interrupted = False
    for position, run in enumerate(suite.record.runs):
        if weigh(run) is not Weight.OPEN:
            continue
        screen.say(f"\n{position + 1} of {len(suite.record.runs)}: {run.scenario} on {run.candidate}")
        try:
            done, interrupted = _one(suite, position, run, screen)
        except KeyboardInterrupt:
            interrupted, done = True, suite.record.runs[position]
        suite.record = replaced(suite.record, position, done)
        write_record(suite.folder, suite.record)
        screen.say(_line(done))
        if interrupted:
            break
    suite.record = msgspec.structs.replace(suite.record, interrupted=interrupted)
    write_record(suite.folder, suite.record)
    return _conclude(suite, junit=junit, as_json=as_json)


def _one(suite: SuiteUnderWay, position: int, entry: SuiteRun, screen: Screen) -> tuple[SuiteRun, bool]:
    """One run, judged; or why there is no verdict. Says whether a person stopped it."""
    began = time.monotonic()
    run: Run | None = None
    try:
        finished = _finished_before(suite, entry)
        if finished is not None:
            judged, folder = _judge_again(finished, suite.base.master), finished
        else:
            plan = plan_run(_options(suite.base, entry))
            run = begin_run(plan, screen)
            folder = run.folder
            noted = msgspec.structs.replace(entry, run=str(folder.relative_to(suite.folder)))
            suite.record = replaced(suite.record, position, noted)
            write_record(suite.folder, suite.record)
            screen.say(headline(plan))
            judged = _live_and_judge(run, suite.base.master, screen)
    except Exception as error:
        if run is not None and run.stopping.is_set():
            return suite.record.runs[position], True
        if isinstance(error, Problem):
            return _failed(suite, position, f"{error.what} {error.remedy}".strip(), began), False
        traceback.print_exc()
        return _failed(suite, position, f"{type(error).__name__}: {error}", began), False
    stopped = run is not None and run.stopping.is_set()
    verdict = judged.verdict
    if stopped and verdict.verdict is not Verdict.INVALID:
        # Half a run proves nothing of the whole: it stays in the store, and a resumed suite runs it again.
        return suite.record.runs[position], stopped
    return msgspec.structs.replace(
        entry,
        run=str(folder.relative_to(suite.folder)),
        verdict=verdict.verdict.value,
        sentence=verdict.sentence,
        known_hazard=verdict.known_hazard,
        seconds=round(time.monotonic() - began, 1),
    ), stopped


def _live_and_judge(run: Run, master: str | None, screen: Screen) -> Judged:
    spark = begin_spark(run, master)
    asyncio.run(live_through(run, screen))
    screen.phase("check", "judging what was recorded, on Spark")
    session = spark.session.result(SPARK_PATIENCE_S)
    (judged,) = judge(session, [run.folder], spark.prepared.result(SPARK_PATIENCE_S))
    return judged


def _options(base: RunOptions, entry: SuiteRun) -> RunOptions:
    wanted = run_options(base, scenarios.load(entry.scenario), entry.candidate, entry.seed)
    argv = ["run", entry.scenario, "--duration", f"{base.duration_s:g}", "--seed", str(entry.seed)]
    for flag, value in (
        ("--candidate", wanted.candidate),
        ("--version", wanted.version),
        ("--to-version", wanted.to_version),
        ("--quorum", wanted.quorum),
        ("--workload", wanted.workload),
        ("--timers", "short" if wanted.timers == SHORT_TIMERS else None),
        ("--cluster", None if wanted.cluster == "local" else wanted.cluster),
        ("--image", wanted.place.image),
        ("--inventory", wanted.place.inventory),
        ("--observers", wanted.observers),
    ):
        argv += [] if value is None else [flag, str(value)]
    for defect in wanted.defects:
        argv += ["--defect", defect]
    return replace(wanted, argv=tuple(argv))


def _finished_before(suite: SuiteUnderWay, entry: SuiteRun) -> Path | None:
    """A run that came to its end and was not judged: the suite was stopped in between."""
    if entry.run is None:
        return None
    folder = suite.folder / entry.run
    try:
        manifest = read_manifest(folder)
    except Problem:
        return None
    whole = manifest.finished and not manifest.interrupted and (folder / TABLES).is_dir()
    return folder if whole else None


def _judge_again(folder: Path, master: str | None) -> Judged:
    from checker.session import start_session

    prepare(folder)
    (judged,) = judge(start_session(master), [folder])
    return judged


def _failed(suite: SuiteUnderWay, position: int, why: str, began: float) -> SuiteRun:
    return msgspec.structs.replace(suite.record.runs[position], failed=why, seconds=round(time.monotonic() - began, 1))


def _told(run: SuiteRun) -> str:
    """Verdict and weight; the weight alone where there is no verdict."""
    weight = meaning(run)
    if run.verdict is None:
        return weight
    return f"{run.verdict} ({weight})" if weight else run.verdict


def _line(run: SuiteRun) -> str:
    told = _told(run)
    return f"{told.upper() if run.verdict else told}: {run.failed or run.sentence or run.skipped or run.scenario}"


def _conclude(suite: SuiteUnderWay, *, junit: Path | None, as_json: bool) -> ExitCode:
    record = suite.record
    code = exit_code(record.runs, interrupted=record.interrupted)
    verdicts = [(run, _verdict(suite.folder, run)) for run in record.runs]
    left = any(weigh(run) in (Weight.OPEN, Weight.FAILED) for run in record.runs)
    resume = f"bin/nemesis suite --resume {shlex.quote(str(suite.folder))}" if left else ""
    command = _repeat(record)
    facts = SuiteFacts(
        record.name, record.title, record.started_at, record.seed, command, resume, int(code), record.interrupted
    )
    entries = [_entry(suite.folder, run) for run in record.runs]
    summary = write_suite(suite.folder / SUMMARY, facts, entries)
    xml = write_junit(suite.folder / JUNIT, record.name, verdicts)
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        write_junit(junit, record.name, verdicts)
    if as_json:
        print(json.dumps(_document(suite, code, summary, xml)))
        return code
    print()
    for run in record.runs:
        print(f"  {_told(run):<34} {run.scenario} on {run.candidate}")
    for what, value in (("summary", summary), ("junit", junit or xml), ("repeat", command), ("resume", resume)):
        if value:
            print(f"  {what + ':':<9}{value}")
    return code


def _repeat(record: SuiteRecord) -> str:
    arguments = [each for each in record.argv if each != "--json"]
    if "--seed" not in arguments and not any(each.startswith("--seed=") for each in arguments):
        arguments += ["--seed", str(record.seed)]
    return shlex.join(["bin/nemesis", *arguments])


def _entry(folder: Path, run: SuiteRun) -> SuiteEntry:
    name = Path(run.scenario).stem if run.scenario.endswith(".toml") else run.scenario
    return SuiteEntry(
        scenario=name,
        title=run.title,
        group=run.group,
        candidate=run.candidate,
        seed=run.seed,
        verdict=run.verdict,
        weight=weigh(run).value,
        meaning="" if weigh(run) is Weight.OPEN else meaning(run),
        said=run.failed or run.skipped or run.sentence or "The suite was stopped before it.",
        hazard=run.known_hazard,
        run=None if run.run is None else folder / run.run,
        seconds=run.seconds,
    )


def _verdict(folder: Path, run: SuiteRun) -> RunVerdict | None:
    if run.run is None or run.verdict is None:
        return None
    try:
        return read_verdict(folder / run.run)
    except Problem as problem:
        print(f"nemesis: {problem.what}", file=sys.stderr)
        return None


def _document(suite: SuiteUnderWay, code: ExitCode, summary: Path, junit: Path) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "suite": suite.record.name,
        "seed": suite.record.seed,
        "exit_code": int(code),
        "interrupted": suite.record.interrupted,
        "summary": str(summary),
        "junit": str(junit),
        "runs": [
            {
                "scenario": run.scenario,
                "candidate": run.candidate,
                "seed": run.seed,
                "verdict": run.verdict,
                "expected": run.expect,
                "weight": weigh(run).value,
                "said": run.failed or run.skipped or run.sentence,
                "known_hazard": run.known_hazard,
                "run": None if run.run is None else str(suite.folder / run.run),
            }
            for run in suite.record.runs
        ],
    }
