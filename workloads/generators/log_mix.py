"""Appends of unique values to one log, and polls of it (checker.md §1: an append that returns its offset has a known
position, so that checking is linear and needs no search).

Each process polls on from where its last answer ended: a sequence of polls reads the log without gaps. Now and then a
poll goes back a little, so that the same offsets are read again at other nodes and times, and a new process starts
close to the end that it heard of. A log that only grows is never polled from its beginning under load: that is the
final reads' work.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.generators.generator import Stream
from workloads.generators.register_mix import UniqueValues
from workloads.history.operation import Completion, Consistency, Invocation, Status


@dataclass(frozen=True, slots=True)
class LogShares:
    """How often the log is polled instead of appended to, and how."""

    poll: float
    back: float = 0.1
    """of the polls: how many go back"""
    back_records: int = 20
    """by at most so many records"""
    consistency: Consistency = Consistency.LINEARIZABLE

    def __post_init__(self) -> None:
        if not (0 <= self.poll <= 1 and 0 <= self.back <= 1 and self.back_records >= 1):
            raise ValueError(f"shares lie between 0 and 1, and a poll goes back by at least one record: {self}")


class LogMix:
    """The generator of the log workload."""

    def __init__(self, stream: Stream, shares: LogShares, values: UniqueValues) -> None:
        self._stream = stream
        self._shares = shares
        self._values = values
        self._positions: dict[int, int] = {}
        self._end = 0

    def next(self, process: int) -> Invocation:
        """Draw an append or a poll."""
        if self._stream.random() >= self._shares.poll:
            return Invocation("append", None, (self._values.take(),))
        position = self._positions.setdefault(process, max(0, self._end - self._shares.back_records))
        if self._stream.random() < self._shares.back:
            position = max(0, position - 1 - self._stream.randrange(self._shares.back_records))
        return Invocation("poll", None, (position,), self._shares.consistency)

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:
        """Move the process's position behind what it read."""
        if completion.status is Status.INFO:
            self._positions.pop(process, None)
            return
        if completion.status is Status.FAIL:
            return
        if invocation.f == "append":
            if completion.offset is not None:
                self._end = max(self._end, completion.offset + 1)
            return
        position = next_position(invocation, completion)
        self._end = max(self._end, position)
        self._positions[process] = max(self._positions.get(process, 0), position)


class LogToEnd:
    """Polls the log from its beginning to its high watermark: one process's final read of everything."""

    def __init__(self, consistency: Consistency) -> None:
        self._consistency = consistency
        self._position = 0
        self._done = False

    def next(self, process: int) -> Invocation | None:  # noqa: ARG002 - one process asks
        """Return the next poll, or None when the end was reached."""
        return None if self._done else Invocation("poll", None, (self._position,), self._consistency)

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:  # noqa: ARG002 - see next
        """Go on behind what was read; an answer that brings nothing and has no higher high watermark is the end."""
        if completion.status is not Status.OK:
            return
        after = next_position(invocation, completion)
        self._done = after == self._position
        self._position = after


def next_position(invocation: Invocation, completion: Completion) -> int:
    """Return the offset from which the next poll reads on.

    Records that are not data (a leader's change of epoch) have offsets and are in no answer: an answer without records is
    read through to its high watermark.
    """
    if completion.output:
        return completion.output[-2] + 1
    return max(invocation.input[0], completion.offset or 0)
