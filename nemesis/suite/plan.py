"""From what a person typed to the runs of a suite: scenarios by name, group or file, times candidates; seeds from one seed."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nemesis import scenario as scenarios
from nemesis.faults.catalogue import GROUPS
from nemesis.life.plan import RunOptions, plan_run
from nemesis.scenario import Scenario
from nemesis.seeds import SEED_LIMIT, stream
from nemesis.suite.record import SuiteRun
from nemesis.toml_lines import decode_error, line_of, lines_of
from workloads.problem import Problem

ALL = "all"
_KEYS = ("title", "scenarios", "candidates")


@dataclass(frozen=True, slots=True)
class SuiteList:
    """What a name or a file stands for."""

    name: str
    title: str
    scenarios: tuple[str, ...]
    candidates: tuple[str, ...] = ()
    strict: bool = False
    """a person wrote this list: what cannot be run is a mistake, not a gap"""


def find_suite(name: str) -> SuiteList:
    """A group, ``all``, one scenario's name, or a file. Raises Problem (usage)."""
    if name.endswith(".toml"):
        return _read_list(Path(name))
    shipped = {each: scenarios.load(each) for each in scenarios.names()}
    if name == ALL:
        return SuiteList(ALL, "All scenarios", tuple(shipped))
    found = tuple(each for each, scenario in shipped.items() if scenario.group == name)
    if found:
        return SuiteList(name, f"All scenarios of the group {name}", found)
    if name in shipped:
        return SuiteList(name, shipped[name].title, (name,), strict=True)
    groups = [group for group in GROUPS if any(scenario.group == group for scenario in shipped.values())]
    raise Problem(
        "suite-unknown",
        f"There is no suite {name!r}.",
        f"There are {', '.join([ALL, *groups])}, each scenario's name, and files that end in .toml.",
        usage=True,
    )


def _read_list(path: Path) -> SuiteList:
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except OSError as error:
        raise Problem(
            "suite-unreadable", f"{path} cannot be read: {error.strerror}.", "Name a TOML file.", usage=True
        ) from error
    except tomllib.TOMLDecodeError as error:
        what, line = decode_error(str(error))
        raise _wrong(path, line or len(text.splitlines()), f"this is no TOML: {what}") from error
    lines = lines_of(text)
    for key, value in raw.items():
        if key not in _KEYS:
            raise _wrong(path, line_of(lines, (key,)), f"unknown key {key!r}; there are {', '.join(_KEYS)}")
        if key != "title" and not _is_texts(value):
            raise _wrong(path, line_of(lines, (key,)), f"{key} must be a list of texts")
    if not raw.get("scenarios"):
        raise _wrong(path, 1, 'scenarios is missing: scenarios = ["partition-leader", "mine.toml"]')
    named, tested = (_beside(path, raw.get(key, ())) for key in ("scenarios", "candidates"))
    return SuiteList(path.stem, str(raw.get("title", path.stem)), named, tested, strict=True)


def _beside(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Names, and files as seen from the directory of the list."""
    return tuple(
        str(path.parent / each) if each.endswith(".toml") and not Path(each).is_absolute() else each for each in names
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _wrong(path: Path, line: int, what: str) -> Problem:
    return Problem(
        "suite-malformed", f"{path}:{line}: {what}.", "`nemesis suite --help` shows what a list holds.", usage=True
    )


def candidate_options(text: str) -> dict[str, Any]:
    """``name[:version[:quorum]][+defect…]``, or the file that describes one, as options of a run. Raises Problem (usage)."""
    if text.endswith(".toml"):
        return {"candidate": text}
    base, *defects = text.split("+")
    name, *rest = base.split(":")
    if not name or len(rest) > 2 or not all(rest) or not all(defects):
        raise Problem(
            "candidate-malformed",
            f"{text!r} names no candidate.",
            "Write reference, reference+no-pre-vote, kafka:4.1.2, kafka:3.9.2:static or my-kraft.toml.",
            usage=True,
        )
    return {
        "candidate": name,
        "version": rest[0] if rest else None,
        "quorum": rest[1] if len(rest) > 1 else None,
        "defects": tuple(defects),
    }


def run_options(base: RunOptions, scenario: Scenario, candidate: str, seed: int) -> RunOptions:
    """What one run of a suite is asked for; the other release only where nodes are started under it. Raises Problem (usage)."""
    to_version = base.to_version if scenario.changes_release else None
    return replace(base, scenario=scenario, seed=seed, to_version=to_version, **candidate_options(candidate))


def plan_suite(found: SuiteList, candidates: Sequence[str], base: RunOptions) -> tuple[SuiteRun, ...]:
    """All runs, scenario by scenario, each planned once to see that it can be: what cannot is skipped with its reason.

    The seed of a run depends on the suite's seed and the scenario only, so that candidates meet the same plan of faults.
    Raises Problem (usage) when nothing can be run, when no scenario has a use for the other release that was named, and for
    anything that cannot be run in a list that a person wrote.
    """
    loaded = [scenarios.load(name) for name in found.scenarios]
    if base.to_version is not None and not any(scenario.changes_release for scenario in loaded):
        raise Problem(
            "release-unused",
            f"No scenario of {found.name} starts nodes under another release than their first.",
            "Leave out --to-version, or name a suite with rolling-upgrade.",
            usage=True,
        )
    runs = []
    for name, scenario in zip(found.scenarios, loaded, strict=True):
        seed = stream(base.seed, "suite", scenario.name).randrange(SEED_LIMIT)
        runs += [_plan_one(found, name, scenario, candidate, seed, base) for candidate in candidates]
    if all(run.skipped for run in runs):
        raise Problem("suite-empty", f"Nothing of {found.name} can be run: {runs[0].skipped}", usage=True)
    return tuple(runs)


def _plan_one(  # noqa: PLR0917
    found: SuiteList, name: str, scenario: Scenario, candidate: str, seed: int, base: RunOptions
) -> SuiteRun:
    skipped, hazard = "", ""
    try:
        plan = plan_run(run_options(base, scenario, candidate, seed))
        hazard = plan.known_hazard
    except Problem as problem:
        if found.strict or not problem.usage or problem.slug.startswith("candidate-"):
            raise
        skipped = f"{problem.what} {problem.remedy}".strip()
    return SuiteRun(
        scenario=name,
        title=scenario.title,
        group=scenario.group,
        candidate=candidate,
        seed=seed,
        expect=scenario.expect,
        known_hazard=hazard,
        skipped=skipped,
    )
