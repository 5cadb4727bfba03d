"""What a person sees while a run goes on. The controller tells; the command line draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from workloads.history.operation import FaultRow


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a running load."""

    elapsed_s: float
    duration_s: float
    ok: int
    fail: int
    info: int
    per_second: float
    leader: str | None
    epoch: int | None
    fault: FaultRow | None


class Progress(Protocol):
    """Shows a run; calls come from the controller's event loop."""

    def phase(self, name: str, text: str) -> None:
        """A phase begins."""
        ...

    def say(self, text: str) -> None:
        """Something that stays on the screen."""
        ...

    def watch(self, look: Callable[[], Look] | None) -> None:
        """Show this until told otherwise."""
        ...
