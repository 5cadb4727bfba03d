"""Deadlines of many short waits with one timer for all: nothing is scheduled for an answer that comes in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

TICK_S = 0.005
"""how late a deadline may be noticed"""


class Deadlines:
    """Calls back when what was armed is not disarmed in time. Belongs to the event loop that arms it first."""

    def __init__(self) -> None:
        self._armed: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticking = False

    def arm(self, key: Hashable, timeout_s: float, expire: Callable[[], None]) -> None:
        """Call ``expire`` in ``timeout_s`` seconds unless :meth:`disarm` comes first. One deadline for a key."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._armed[key] = (loop.time() + timeout_s, expire)
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_S, self._tick, loop)

    def disarm(self, key: Hashable) -> None:
        """Forget the deadline of ``key``, if it is still there."""
        self._armed.pop(key, None)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._armed:
            self._ticking = False
            return
        now = loop.time()
        for key in [key for key, (at, _) in self._armed.items() if at <= now]:
            late = self._armed.pop(key, None)
            if late is not None:
                late[1]()
        loop.call_later(TICK_S, self._tick, loop)
