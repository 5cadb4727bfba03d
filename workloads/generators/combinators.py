"""Generators made of steps: only what the workloads use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workloads.history.operation import Completion, Invocation, Status


class UntilOk:
    """Each of a list of steps, asked again as a new operation until it is answered ok.

    A step is a function that makes the invocation afresh for each attempt: an attempt that ended with info may still take
    effect, so a write must not be repeated with the same value. For one process at a time: it waits for each answer.
    """

    def __init__(self, steps: Iterable[Callable[[], Invocation]]) -> None:
        self._steps = iter(steps)
        self._step = next(self._steps, None)

    def next(self, process: int) -> Invocation | None:  # noqa: ARG002 - whoever asks gets the step that is due
        """Return a fresh attempt at the step that is due."""
        return None if self._step is None else self._step()

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:  # noqa: ARG002 - see next
        """Go on to the next step when this one was answered ok."""
        if completion.status is Status.OK:
            self._step = next(self._steps, None)
