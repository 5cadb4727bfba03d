"""How far a machine's clocks are ahead of the controller's, from round trips: the machine's answer lies between question and answer.

Each round trip gives an interval that holds the offset for certain; the narrowest of each window are kept over the whole run, so that
clocks that drift apart widen the bound instead of being wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusters.cluster import Clock

_WINDOW = 16
"""round trips of which the fastest counts"""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One question: the controller's monotonic clock before and after it and its wall clock after it, the machine's clocks between (ns)."""

    asked_ns: int
    answered_ns: int
    answered_wall_ns: int
    there_ns: int
    there_wall_ns: int

    @property
    def took_ns(self) -> int:
        """How long it took: the offset is known to half of it."""
        return self.answered_ns - self.asked_ns


class Offset:
    """Takes round trips, says the offset."""

    def __init__(self) -> None:
        self._window: list[RoundTrip] = []
        self._low = self._high = 0
        self._wall: list[int] = []
        self._known = False

    def take(self, trip: RoundTrip) -> None:
        """One more round trip."""
        self._window.append(trip)
        if len(self._window) == _WINDOW:
            self._close()

    def clock(self) -> Clock:
        """Offset and bound over all that was taken. Raises ValueError before the first round trip."""
        if self._window:
            self._close()
        if not self._known:
            raise ValueError("no round trip was taken")
        middle = (self._low + self._high) // 2
        return Clock(
            ahead_ns=middle,
            error_ns=(self._high - self._low + 1) // 2,
            wall_ahead_ns=sum(self._wall) // len(self._wall),
        )

    def _close(self) -> None:
        best = min(self._window, key=lambda trip: trip.took_ns)
        self._window = []
        low, high = best.there_ns - best.answered_ns, best.there_ns - best.asked_ns
        self._low, self._high = (min(self._low, low), max(self._high, high)) if self._known else (low, high)
        middle_wall_ns = best.answered_wall_ns - best.took_ns // 2
        self._wall.append(best.there_wall_ns - middle_wall_ns)
        self._known = True
