"""In which phase a run is, by what `nemesis run` has told on stderr so far."""

from __future__ import annotations

PHASES = ("deploy", "start", "setup", "load", "heal", "recovery", "final", "stop", "check")


def last_phase(told: str) -> str | None:
    """The last phase that was told, None before the first."""
    seen = [word for line in told.splitlines() for word in line.split()[2:3] if word in PHASES]
    return seen[-1] if seen else None
