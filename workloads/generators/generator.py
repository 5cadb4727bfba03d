"""What a workload asks for next: the contract of all generators, and the draws they may make.

A generator is deterministic: its invocations depend on its stream, on the processes that ask and on the completions it was
told, and on nothing else. It knows no clock and no network, so that a test needs neither, and the same seed asks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from workloads.history.operation import Completion, Invocation

_T = TypeVar("_T")


class Stream(Protocol):
    """One named stream of randomness; ``random.Random`` is one."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return a whole number in [0, stop)."""
        ...

    def choice(self, seq: Sequence[_T], /) -> _T:
        """Return one of a non-empty sequence."""
        ...


class Generator(Protocol):
    """Makes invocations for processes that ask, one at a time, and may learn from how they ended."""

    def next(self, process: int) -> Invocation | None:
        """Return what ``process`` shall do now, or None when there is nothing more to do for anybody."""
        ...

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:
        """Learn how an invocation of ``process`` ended. Info means: the process will not ask again."""
        ...
