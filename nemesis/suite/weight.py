"""What a run of a suite weighs: its verdict against what was declared of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from checker.verdict import Verdict
from nemesis.exit_codes import ExitCode, of_several
from nemesis.suite.record import SuiteRun


class Weight(StrEnum):
    """What a run means for the suite."""

    GOOD = "good"
    """valid, or what the scenario expects"""
    HAZARD = "hazard"
    """invalid under a hazard that the scenario declares: shown, and no candidate promises better"""
    BAD = "bad"
    """invalid, or another verdict than the scenario expects"""
    UNSURE = "unsure"
    """unknown, or expected to be something that could not be judged"""
    FAILED = "failed"
    """no verdict: the set-up or the framework failed"""
    SKIPPED = "skipped"
    """cannot be run here; weighs nothing"""
    OPEN = "open"
    """not reached"""


_CODES = {
    Weight.GOOD: ExitCode.VALID,
    Weight.HAZARD: ExitCode.VALID,
    Weight.BAD: ExitCode.INVALID,
    Weight.UNSURE: ExitCode.UNKNOWN,
    Weight.FAILED: ExitCode.FRAMEWORK,
    Weight.OPEN: ExitCode.UNKNOWN,
}


def weigh(run: SuiteRun) -> Weight:  # noqa: PLR0911 - one return a rule reads best
    """The weight of one run: an expectation that is met is good whatever it is; unknown never passes for another verdict."""
    if run.skipped:
        return Weight.SKIPPED
    if run.failed:
        return Weight.FAILED
    if run.verdict is None:
        return Weight.OPEN
    if run.expect is not None and run.verdict == run.expect:
        return Weight.GOOD
    if run.verdict == Verdict.UNKNOWN:
        return Weight.UNSURE
    if run.expect is not None:
        return Weight.BAD
    if run.verdict == Verdict.INVALID:
        return Weight.HAZARD if run.known_hazard else Weight.BAD
    return Weight.GOOD


def exit_code(runs: Iterable[SuiteRun], *, interrupted: bool) -> ExitCode:
    """The code of the suite: 255 > 1 > 130 > 2 > 0; runs that cannot be run here weigh nothing."""
    codes = [_CODES[weight] for run in runs if (weight := weigh(run)) is not Weight.SKIPPED]
    worst = of_several(codes)
    if interrupted and worst not in (ExitCode.INVALID, ExitCode.FRAMEWORK):
        return ExitCode.INTERRUPTED
    return worst


def meaning(run: SuiteRun) -> str:
    """The weight in a few words, beside the verdict."""
    match weigh(run):
        case Weight.GOOD:
            return "as expected" if run.expect else ""
        case Weight.HAZARD:
            return "under a known hazard"
        case Weight.BAD | Weight.UNSURE:
            return f"{run.expect} was expected" if run.expect else ""
        case Weight.FAILED:
            return "no verdict"
        case Weight.SKIPPED:
            return "cannot be run here"
    return "not reached"
