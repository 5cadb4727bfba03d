"""Numbers operations, stamps them with the run's clock, and hands them to the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from workloads.history.operation import Completion, Invocation, Phase

Clock = Callable[[], int]
"""nanoseconds since the start of the run"""


class OperationLog(Protocol):
    """Where operations are kept; :class:`workloads.journal.Journal` is one."""

    def invoked(
        self,
        op_id: int,
        process: int,
        node: str | None,
        pinned: bool,
        invocation: Invocation,
        *,
        phase: Phase,
        at_ns: int,
    ) -> None:
        """Keep an invocation."""
        ...

    def completed(self, op_id: int, completion: Completion, at_ns: int) -> None:
        """Keep a completion."""
        ...


class Recorder:
    """The one recorder of a run: operations of all phases are numbered through."""

    def __init__(self, log: OperationLog, now_ns: Clock) -> None:
        self.now_ns = now_ns
        self._log = log
        self._next_id = 0

    def invoked(self, process: int, node: str, pinned: bool, invocation: Invocation, phase: Phase) -> int:
        """Record that an operation is about to be sent, before it is; returns its op_id."""
        op_id = self._next_id
        self._next_id = op_id + 1
        self._log.invoked(op_id, process, node, pinned, invocation, phase=phase, at_ns=self.now_ns())
        return op_id

    def completed(self, op_id: int, completion: Completion) -> None:
        """Record how it ended, after the answer was read."""
        self._log.completed(op_id, completion, self.now_ns())
