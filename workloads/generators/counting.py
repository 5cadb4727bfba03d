"""Additions to one counter that answers with the value before each of them (fetch-and-add)."""

from __future__ import annotations

from workloads.history.operation import Completion, Invocation


class Additions:
    """The generator of the counter workload: every operation adds the same."""

    def __init__(self, delta: int) -> None:
        if delta < 1:
            raise ValueError(f"a counter is only added to, so its answers can be ordered: delta {delta}")
        self._invocation = Invocation("add", None, (delta,))

    def next(self, process: int) -> Invocation:  # noqa: ARG002 - everybody does the same
        """Return the addition."""
        return self._invocation

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:
        """Learn nothing: additions do not depend on answers."""
