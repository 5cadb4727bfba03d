"""One run from the command line: clean up after others, plan, run, judge, print, exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from checker.session import Begun, begin_session
from clusters.backends.leftovers import sweep
from nemesis.cli.outcome import print_outcomes, say_first_steps
from nemesis.cli.screen import Screen
from nemesis.exit_codes import ExitCode, of_verdict
from nemesis.judge import judge
from nemesis.life.begin import begin_run
from nemesis.life.controller import control
from nemesis.life.plan import RunOptions, RunPlan, plan_run
from nemesis.life.run import Run
from nemesis.store.manifest import write_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_PATIENCE_S = 600.0


def run_and_judge(options: RunOptions, *, as_json: bool) -> ExitCode:
    """Run, judge and print. Raises Problem when the set-up or the framework failed."""
    plan = plan_run(options)
    screen = Screen()
    for leftover in sweep(thorough=options.cluster != "local"):
        screen.say(f"cleaned up after a run that was killed: {leftover}")
    run = begin_run(plan, screen)
    screen.say(headline(plan))
    screen.say(f"run: {run.folder}")
    spark = begin_spark(run, options.master)
    asyncio.run(live_through(run, screen))
    screen.phase("check", "judging what was recorded, on Spark")
    session, prepared = spark.wait(SPARK_PATIENCE_S)
    judged = judge(session, [run.folder], prepared)
    print_outcomes(judged, as_json=as_json)
    if not as_json:
        say_first_steps(judged[0])
    return of_verdict(judged[0].verdict.verdict, interrupted=run.manifest.interrupted)


async def live_through(run: Run, screen: Screen) -> None:
    """Live through a run; the first Ctrl-C or SIGTERM stops it in good order, the second leaves at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if run.stopping.is_set():
            print("nemesis: left at once; the next command or `nemesis clean` cleans up", file=sys.stderr)
            sys.stderr.flush()
            os._exit(ExitCode.INTERRUPTED)
        screen.say("stopping: healing, stopping the nodes, then checking what was recorded; once more leaves at once")
        run.stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    ticking = asyncio.create_task(_tick(screen))
    try:
        await control(run)
    finally:
        ticking.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _tick(screen: Screen) -> None:
    while True:
        await asyncio.sleep(1.0)
        screen.tick()


def begin_spark(run: Run, master: str | None) -> Begun:
    """Start Spark, or go on with the session that runs, in the background before the first fault; drawn in the timeline."""
    run.manifest = msgspec.structs.replace(run.manifest, spark_started_ns=run.now_ns())
    write_manifest(run.folder, run.manifest)
    begun = begin_session(master, run=run.folder)

    def ready(_: Future[SparkSession]) -> None:
        run.spark_ready_ns = run.now_ns()

    begun.session.add_done_callback(ready)
    return begun


def headline(plan: RunPlan) -> str:
    """What is about to be done, in four lines."""
    options, timers = plan.options, plan.options.timers
    defects = f" with {', '.join(options.defects)}" if options.defects else ""
    faults = f"{len(plan.schedule)} faults" if plan.schedule else "no faults"
    releases = " and ".join(each.version for each in (plan.candidate, plan.other) if each is not None)
    return (
        f"seed {options.seed}: {options.scenario.title}\n"
        f"{options.candidate} {releases}{defects}, {plan.voters} voters, {plan.observers} observers, "
        f"{plan.kind} quorum; workload {plan.workload.name}, {plan.pace.rate:g}/s by {plan.pace.concurrency} processes, "
        f"{options.duration_s:g} s, {faults}\n"
        f"timers: election {timers.election_timeout_ms} ms, fetch {timers.fetch_timeout_ms} ms, "
        f"check-quorum {timers.check_quorum_ms} ms"
    )
