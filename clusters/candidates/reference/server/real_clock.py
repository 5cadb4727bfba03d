"""The machine's clock and asyncio's event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from clusters.candidates.reference.server.environment import Timer


class LoopClock:
    """:class:`.environment.Clock` on a running event loop, which counts in the same monotonic clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        """The wall clock."""
        return time.time_ns() // 1_000_000

    def soon(self, callback: Callable[[], None]) -> None:
        """At the loop's next turn: what was readable in this one comes first."""
        self._loop.call_soon(callback)

    def at_ms(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """By the loop's timer; a callback that comes early by rounding is planned anew by who gets it."""
        return self._loop.call_at(when_ms / 1000, callback)
