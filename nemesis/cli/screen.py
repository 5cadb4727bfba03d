"""Draws a run's progress on stderr: a live line on a terminal, one line a phase and one every 30 s elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nemesis.life.progress import Look

_PLAIN_INTERVAL_S = 30.0
_HINT = "Ctrl-C: heal, stop, check what was recorded"


class Screen:
    """Implements :class:`nemesis.life.progress.Progress` with rich."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._look: Callable[[], Look] | None = None
        self._phase = ""
        self._began = time.monotonic()
        self._said = 0.0
        self._lock = threading.Lock()

    def phase(self, name: str, text: str) -> None:
        """A phase begins."""
        self._phase = name
        self.say(f"{time.monotonic() - self._began:6.1f} s  {name:<9} {text}")

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._console.print(text, markup=False, soft_wrap=True)

    def watch(self, look: Callable[[], Look] | None) -> None:
        """Show a running load until called with None."""
        if look is None:
            if self._live is not None:
                self._live.stop()
                self._live = None
            self._look = None
            return
        self._look = look
        self._said = time.monotonic()
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def tick(self) -> None:
        """Where nothing is animated: a line every 30 s. Called from the controller's loop."""
        if self._look is None or self._live is not None or time.monotonic() - self._said < _PLAIN_INTERVAL_S:
            return
        self._said = time.monotonic()
        self.say("          " + _line(self._look()))

    def _render(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        look = self._look() if self._look is not None else None
        if look is not None:
            grid.add_row(Text(_line(look)))
            grid.add_row(Text(_fault(look), style="yellow" if look.fault else "dim"))
        grid.add_row(Text(_HINT, style="dim"))
        return grid


def _line(look: Look) -> str:
    leader = f"leader {look.leader} of epoch {look.epoch}" if look.leader else "no leader"
    return (
        f"{look.elapsed_s:5.1f} of {look.duration_s:g} s   {look.per_second:6.0f} operations/s   "
        f"ok {look.ok}  fail {look.fail}  info {look.info}   {leader}"
    )


def _fault(look: Look) -> str:
    if look.fault is None:
        return "no fault in force"
    cut = f", {len(look.fault.links)} links cut" if look.fault.links else ""
    return f"{look.fault.fault} on {', '.join(look.fault.targets)}{cut}"
