"""False alarms and leaks: many runs in a row of candidates that are right, each with another seed; then one check of them all.

    PYTHONPATH=. .venv/bin/python benchmarks/false_alarms.py --runs 20 [--candidate kafka --version 4.1.2] [--hogs 2] [--duration 20]

Prints a line a run (verdict, operations, faults, leader changes, what it left behind) and how many were not valid. ``--hogs`` starts
processes that burn CPU beside the runs. Scenarios that the candidate or this machine cannot run, and those that declare a hazard,
are skipped, with the reason. Exits 1 when a run was invalid or something was left behind.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])

from checker.run import check_runs
from checker.session import start_session
from checker.verdict import Verdict
from clusters.backends.leftovers import pending
from nemesis import scenario
from nemesis.life.plan import RunOptions, plan_run
from tests.runs import perform
from workloads.problem import Problem


def burn() -> None:
    """Burn CPU until terminated."""
    while True:
        pass


def lab_processes() -> int:
    """How many processes of labs are alive on this machine."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += b"NEMESIS_LAB=" in (entry / "environ").read_bytes()
            except OSError:
                continue
    return count


def main() -> int:
    options = parse()
    hogs = [multiprocessing.Process(target=burn, daemon=True) for _ in range(options.hogs)]
    for hog in hogs:
        hog.start()
    chosen: dict[str, Any] = (
        {} if options.candidate == "reference" else {"candidate": options.candidate, "version": options.version}
    )
    names = possible(options, chosen)
    folders: list[Path] = []
    leaks = 0
    before = lab_processes()
    for number in range(options.runs):
        name = names[number % len(names)]
        began = time.monotonic()
        folders.append(perform(options.store, name, options.seed + number, duration_s=options.duration, **chosen))
        left = lab_processes() - before
        leaks += left
        print(
            f"{name:28} seed {options.seed + number:6} {time.monotonic() - began:5.1f} s  left behind: {left}",
            flush=True,
        )
    for hog in hogs:
        hog.terminate()
    verdicts = check_runs(start_session(None), folders)
    for verdict in verdicts:
        print(f"{verdict.verdict.value:8} {verdict.run_id}: {verdict.sentence[:160]}")
    counts = Counter(verdict.verdict.value for verdict in verdicts)
    print(f"{options.runs} runs: {dict(counts)}; left behind: {leaks} processes, {len(pending())} ledger entries")
    return int(any(v.verdict is Verdict.INVALID for v in verdicts) or leaks > 0 or bool(pending()))


def possible(options: argparse.Namespace, chosen: dict[str, Any]) -> list[str]:
    """The scenarios that can be run here; why others cannot is printed. Raises Problem when the one that was asked for cannot."""
    names = [options.scenario] if options.scenario else scenario.names()
    found: list[str] = []
    for name in names:
        asked = RunOptions(
            scenario=scenario.load(name),
            argv=(),
            seed=options.seed,
            store=options.store,
            duration_s=options.duration,
            **chosen,
        )
        try:
            reason = plan_run(asked).known_hazard
        except Problem as problem:
            if options.scenario or not problem.usage:
                raise
            reason = problem.what
        if reason and not options.scenario:
            print(f"{name:28} skipped: {reason}", flush=True)
        else:
            found.append(name)
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--candidate", default="reference")
    parser.add_argument("--version")
    parser.add_argument("--scenario", help="one scenario instead of all in turn")
    parser.add_argument("--duration", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--hogs", type=int, default=0)
    parser.add_argument("--store", type=Path, default=Path("runs/false-alarms"))
    return parser.parse_args()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
