"""What happens to the packets of one directed link: delay, loss, repetition, other order, a narrow pipe. Pure: times come in, times go out.

The model is that of a path of routers. A packet is lost or not (in bursts, after Gilbert, 1960); what is left passes a pipe of a given
rate with a bounded queue; then it is under way for a while. Packets keep their order, as in a queue, whatever the jitter: those that
shall be overtaken are held back on purpose, and are counted when they were.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

_NS_PER_MS = 1_000_000
_HELD_MAX = 20_000
_BURST_BYTES = 3_028
"""two packets may come at once through a pipe of any rate"""
_PARETO = 3.0
_TAIL_MAX = 50.0


@dataclass(frozen=True)
class Shape:
    """What is asked for; the fields that are 0 do nothing."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: str = "uniform"
    """``uniform``: delay ± jitter; ``normal``: jitter is the standard deviation; ``pareto``: the delay is the least, the jitter the mean of
    what a heavy tail (shape 3) adds"""
    loss_percent: float = 0.0
    loss_run: float = 1.0
    """how many packets are lost in a row, on average; 1: each for itself"""
    duplicate_percent: float = 0.0
    reorder_percent: float = 0.0
    reorder_ms: float = 0.0
    """for how much longer those packets are held back that others shall overtake"""
    rate_kbit: float = 0.0
    queue_kib: float = 256.0
    """what waits for the pipe; more is dropped"""
    reset_every_ms: float = 0.0
    """connections are reset when a packet of theirs is seen, once in each such interval"""


@dataclass
class Counts:
    """What was done to the packets of one link."""

    seen: int = 0
    lost: int = 0
    overflowed: int = 0
    """dropped because a queue was full"""
    duplicated: int = 0
    delayed: int = 0
    """sent on later than they came"""
    reordered: int = 0
    """sent on after a packet that had come later"""
    sent: int = 0
    refused: int = 0
    """that this machine did not send on: its own packet filter, a full buffer"""
    reset: int = 0
    """connections"""
    seen_bytes: int = 0
    held_ns: int = 0
    """how long all those that were sent on were held, together"""

    def told(self) -> dict[str, int]:
        """As an answer."""
        return asdict(self)


@dataclass
class Stage:
    """One shape at work on one directed link."""

    shape: Shape
    chance: random.Random
    began_ns: int
    counts: Counts = field(default_factory=Counts)
    held: int = 0
    """packets that are under way in it"""
    _losing: bool = False
    _pipe_free_ns: int = 0
    _last_due_ns: int = 0
    _arrivals: int = 0
    _newest_left: int = 0

    def offer(self, now_ns: int, size: int, *, counted: bool = True) -> list[tuple[int, int]]:
        """A packet of ``size`` bytes comes: (when it leaves, its number) of each copy; empty when it is lost.

        ``counted`` is false for packets of our own.
        """
        counts = self.counts if counted else Counts()
        counts.seen += 1
        counts.seen_bytes += size
        if self._loses():
            counts.lost += 1
            return []
        through_ns = self._through_pipe(now_ns, size)
        if through_ns is None or self.held >= _HELD_MAX:
            counts.overflowed += 1
            return []
        self._arrivals += 1
        number = self._arrivals
        due_ns = through_ns + self._way_ns()
        if self._happens(self.shape.reorder_percent):
            due_ns += int(self.shape.reorder_ms * _NS_PER_MS)
        else:
            due_ns = self._last_due_ns = max(due_ns, self._last_due_ns)
        copies = [(due_ns, number)]
        if self._happens(self.shape.duplicate_percent):
            counts.duplicated += 1
            copies.append((due_ns, number))
        self.held += len(copies)
        return copies

    def left(self, now_ns: int, came_ns: int, number: int, *, counted: bool = True) -> None:
        """A copy leaves."""
        self.held -= 1
        counts = self.counts if counted else Counts()
        counts.sent += 1
        counts.held_ns += now_ns - came_ns
        counts.delayed += now_ns - came_ns >= _NS_PER_MS // 2
        if number < self._newest_left:
            counts.reordered += 1
        self._newest_left = max(self._newest_left, number)

    def _loses(self) -> bool:
        """Gilbert's model: the share that is lost is right, and so is the mean length of a run."""
        share = self.shape.loss_percent / 100
        if share <= 0:
            return False
        if share >= 1:
            return True
        leave = 1 / max(1.0, self.shape.loss_run)
        if leave == 1:
            return self.chance.random() < share
        enter = min(1.0, leave * share / (1 - share))
        self._losing = self.chance.random() < (1 - leave if self._losing else enter)
        return self._losing

    def _happens(self, percent: float) -> bool:
        return percent > 0 and self.chance.random() * 100 < percent

    def _through_pipe(self, now_ns: int, size: int) -> int | None:
        """When a packet has passed the pipe (a token bucket); None when its queue is full."""
        rate = self.shape.rate_kbit
        if rate <= 0:
            return now_ns
        ns_per_byte = 8 * _NS_PER_MS / rate
        free_ns = max(self._pipe_free_ns, now_ns - int(_BURST_BYTES * ns_per_byte))
        if (free_ns - now_ns) / ns_per_byte > self.shape.queue_kib * 1024:
            return None
        self._pipe_free_ns = free_ns + int(size * ns_per_byte)
        return max(now_ns, self._pipe_free_ns)

    def _way_ns(self) -> int:
        shape, jitter_ms = self.shape, self.shape.jitter_ms
        delay_ms = shape.delay_ms
        if jitter_ms > 0:
            if shape.distribution == "normal":
                delay_ms += self.chance.gauss(0.0, jitter_ms)
            elif shape.distribution == "pareto":
                delay_ms += jitter_ms * min(_TAIL_MAX, 2 * (self.chance.paretovariate(_PARETO) - 1))
            else:
                delay_ms += self.chance.uniform(-jitter_ms, jitter_ms)
        return max(0, int(delay_ms * _NS_PER_MS))


def new_stage(told: dict[str, Any], seed: str, now_ns: int) -> Stage:
    """The stage of a request's settings; chance comes from ``seed`` alone."""
    return Stage(Shape(**told), random.Random(seed), now_ns)
