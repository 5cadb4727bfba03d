"""Notices when the controller itself did not run: then neither its clock nor its patience says anything about the candidate."""

from __future__ import annotations

import asyncio

from workloads.recorder import Clock

INTERVAL_S = 0.02
STALL_NS = 100_000_000
"""the event loop came back so much later than asked"""


class StallWatch:
    """Keeps the windows (from ns, to ns) in which the event loop did not come round."""

    def __init__(self, now_ns: Clock) -> None:
        self._now_ns = now_ns
        self._due_ns = 0
        self._handle: asyncio.TimerHandle | None = None
        self.stalls: list[tuple[int, int]] = []

    def start(self) -> None:
        """Watch from now on."""
        self._due_ns = self._now_ns()
        self._look()

    def stop(self) -> None:
        """Look once more and stop."""
        if self._handle is not None:
            self._look()
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        now = self._now_ns()
        if now - self._due_ns > STALL_NS:
            self.stalls.append((self._due_ns, now))
        self._due_ns = now + int(INTERVAL_S * 1e9)
        if self._handle is not None:
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_later(INTERVAL_S, self._look)
