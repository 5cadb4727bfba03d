"""An event loop whose clock jumps to the next timer: tests of seconds take milliseconds, and no machine is too slow for them."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")
_SPINS_MAX = 100


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for a timer it moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.idle_spins = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            self.idle_spins += 1
            assert self.idle_spins < _SPINS_MAX, "everything waits for something that no timer will bring"
        else:
            self.idle_spins = 0
            self.now_s += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = _JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now_s

    def now_ns(self) -> int:
        return round(self.selector.now_s * 1e9)

    def stall(self, seconds: float) -> None:
        """The whole process stands still: the clock goes on and nothing runs."""
        self.selector.now_s += seconds


def run_virtual(main: Coroutine[Any, Any, _T], loop: VirtualTimeLoop) -> _T:
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
