"""What the exit code of a command means. One place maps outcomes to codes; only ``nemesis.cli.main`` exits."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from checker.verdict import Verdict


class ExitCode(IntEnum):
    """Exit codes, stable for scripts."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    GATE_NOT_MET = 3
    INTERRUPTED = 130
    USAGE = 254
    FRAMEWORK = 255


_OF_VERDICT = {Verdict.VALID: ExitCode.VALID, Verdict.INVALID: ExitCode.INVALID, Verdict.UNKNOWN: ExitCode.UNKNOWN}
_WORST_FIRST = (ExitCode.FRAMEWORK, ExitCode.INVALID, ExitCode.UNKNOWN, ExitCode.VALID)


def of_verdict(verdict: Verdict, *, interrupted: bool = False) -> ExitCode:
    """The code of one run; a violation found before Ctrl-C still exits 1."""
    if interrupted and verdict is not Verdict.INVALID:
        return ExitCode.INTERRUPTED
    return _OF_VERDICT[verdict]


def of_several(codes: Iterable[ExitCode]) -> ExitCode:
    """The code of several runs: 255 > 1 > 2 > 0."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), ExitCode.UNKNOWN)
