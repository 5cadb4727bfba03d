"""Real runs for tests: the controller without a screen and without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nemesis import scenario
from nemesis.faults.schedule import PlannedFault
from nemesis.life.begin import begin_run
from nemesis.life.controller import control
from nemesis.life.plan import RunOptions, plan_run
from nemesis.life.progress import Look


class Quiet:
    """A progress that keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, name: str, text: str) -> None:
        self.said.append(f"{name}: {text}")

    def say(self, text: str) -> None:
        self.said.append(text)

    def watch(self, look: Callable[[], Look] | None) -> None:
        pass


def perform(
    store: Path, name: str, seed: int, *, schedule: Sequence[PlannedFault] | None = None, **options: object
) -> Path:
    """Live through one run and return its folder; the tables are written, nothing is judged. ``schedule`` replaces what was drawn."""
    asked = RunOptions(scenario=scenario.load(name), argv=("run", name), seed=seed, store=store, **options)  # type: ignore[arg-type]
    plan = plan_run(asked)
    run = begin_run(plan if schedule is None else replace(plan, schedule=tuple(schedule)), Quiet())
    asyncio.run(control(run))
    return run.folder
