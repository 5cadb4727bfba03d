"""Faults of a node's own wall clock, never the host's."""

from __future__ import annotations

from nemesis.faults.kinds.kind import ENDED, Capability, FaultKind, targets
from nemesis.faults.parameters import Parameter

_NEEDS = frozenset({Capability.PRELOAD})
_SHIM = "clock"
_HOW = "a preloaded library answers clock_gettime, gettimeofday and time by a page that the controller writes; monotonic clocks are true"
_TOLD = "what the library told the node's process when it asked for the time"
_DAY_MS = 86_400_000

CLOCK_FAULTS = (
    FaultKind(
        "clock-jump",
        "clock",
        "the wall clock jumps forward or back; at the end it jumps to the true time",
        _HOW,
        f"{_TOLD}: off by as much, after the jump and at the end",
        _NEEDS,
        (
            targets("follower"),
            Parameter(
                "offset_ms",
                "count",
                5000,
                "how far, negative: back",
                unit="ms",
                least=-_DAY_MS,
                most=_DAY_MS,
            ),
        ),
        out_of_service=False,
        shim=_SHIM,
    ),
    FaultKind(
        "clock-drift",
        "clock",
        "the wall clock goes faster or slower; at the end it jumps to the true time",
        _HOW,
        f"{_TOLD}: at least half the drift that was asked for",
        _NEEDS,
        (
            targets("follower"),
            Parameter("rate", "number", 1.5, "how fast it goes, 1 being right", least=0.01, most=100),
        ),
        out_of_service=False,
        shim=_SHIM,
    ),
    FaultKind(
        "clock-strobe",
        "clock",
        "the wall clock jumps to and fro, every period",
        _HOW,
        f"{_TOLD}: the true time and the other one, each at least three times",
        _NEEDS,
        (
            targets("follower"),
            Parameter("offset_ms", "count", 2000, "how far, negative: back", unit="ms", least=-_DAY_MS, most=_DAY_MS),
            Parameter("period_ms", "count", 200, "between two jumps", unit="ms", least=1, most=60_000),
        ),
        out_of_service=False,
        shim=_SHIM,
    ),
    FaultKind(
        "clock-back-without-leader",
        "clock",
        "the clock of a follower jumps back, and the leader and others are killed at once: every majority needs that node",
        f"{_HOW}; SIGKILL",
        f"{_TOLD}; {ENDED}",
        _NEEDS | {Capability.PROCESSES},
        (Parameter("offset_ms", "count", 5000, "how far back", unit="ms", least=0, most=_DAY_MS),),
        shim=_SHIM,
    ),
)
