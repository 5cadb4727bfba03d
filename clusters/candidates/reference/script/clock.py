"""Virtual time: one heap of events, and the clock that servers are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

WALL_MS = 1_700_000_000_000
"""when virtual time begins, for records' timestamps only"""


@dataclass(slots=True)
class VirtualTime:
    """Moves from event to event; events of one moment happen in the order in which they were planned."""

    now_ms: int = 0
    _last_ns: int = -1
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _order: int = 0

    def now_ns(self) -> int:
        """Virtual nanoseconds: every call gives a later one, so that what happened first also reads so."""
        self._last_ns = max(self._last_ns + 1, self.now_ms * 1_000_000)
        return self._last_ns

    def at(self, when_ms: int, event: Callable[[], None]) -> None:
        """Let something happen at a time, or now when that is over."""
        self._order += 1
        heappush(self._events, (max(when_ms, self.now_ms), self._order, event))

    def step(self, until_ms: int) -> bool:
        """Let the next event happen, if there is one until then; else move the clock there and return False."""
        if not self._events or self._events[0][0] > until_ms:
            self.now_ms = max(self.now_ms, until_ms)
            return False
        self.now_ms, _, event = heappop(self._events)
        event()
        return True


@dataclass(slots=True)
class SimulatedTimer:
    """A callback that is due later: :class:`..server.environment.Timer`."""

    callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Never call it."""
        self.callback = None

    def fire(self) -> None:
        """Call it, once."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


@dataclass(slots=True)
class SimulatedClock:
    """A server's clock: :class:`..server.environment.Clock`. ``run`` calls back as the server's process, if it lives."""

    time: VirtualTime
    run: Callable[[Callable[[], None]], None]

    def now_ns(self) -> int:
        """The one clock of all nodes."""
        return self.time.now_ns()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return WALL_MS + self.time.now_ms

    def soon(self, callback: Callable[[], None]) -> None:
        """After everything that is ready now."""
        self.time.at(self.time.now_ms, lambda: self.run(callback))

    def at_ms(self, when_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        """At a time, not before."""
        timer = SimulatedTimer(callback)
        if when_ms <= self.time.now_ms + LONGEST_MS:
            self.time.at(when_ms, lambda: self.run(timer.fire))
        return timer


LONGEST_MS = 1 << 40
"""a timer that is further away never comes"""
