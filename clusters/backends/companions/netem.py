"""What of a shape the kernel's own queues do, and with which settings: netem, and for a narrow pipe the token bucket. Pure.

netem has another model than :mod:`.shape` in places. A shape is given to it only where both mean the same thing, and where the kernel
counts what it does; :func:`in_kernel` says of every other one why not. Settings are those of linux/pkt_sched.h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from clusters.backends.companions.shape import Shape

TABLE_SCALE = 8192
"""a value of a table is so many parts of the jitter"""

_TABLE_SIZE = 4096
_TABLE_MOST = 32767
_ALWAYS = (1 << 32) - 1
_NS_PER_MS = 1_000_000
_JITTER_MOST_NS = (1 << 31) - 1
_DELAY_MOST_MS = 2_000.0
"""what is on its way when a fault ends arrives when it is due: that must be soon"""
_TAIL_MEANS = 12.5
"""a table reaches four times the jitter that it is used with: with this one up to the tail's bound of 50 means"""
_PARETO = 3.0
_BYTES_PER_KBIT = 125


@dataclass(frozen=True)
class Netem:
    """Settings of a netem. Chances are parts of 2^32 - 1."""

    delay_ns: int = 0
    jitter_ns: int = 0
    table: tuple[int, ...] = ()
    """quantiles of the jitter, in its parts of :data:`TABLE_SCALE`; empty: uniform"""
    loss: int = 0
    run: tuple[int, int] | None = None
    """Gilbert's chances: to begin to lose, and to end it; loses everything in between"""
    copies: int = 0
    at_once: int = 0
    """with this chance a packet skips the delay"""


@dataclass(frozen=True)
class Pipe:
    """Settings of a token bucket."""

    rate: int
    """bytes a second"""
    queue_bytes: int


def in_kernel(shape: Shape) -> Netem | Pipe | str:
    """The settings that do the same; or, as text, why there are none."""
    if why := _misfit(shape):
        return why
    if shape.rate_kbit > 0:
        return Pipe(max(1, round(shape.rate_kbit * _BYTES_PER_KBIT)), round(shape.queue_kib * 1024))
    if shape.reorder_percent > 0:
        return Netem(delay_ns=_ns(shape.reorder_ms), at_once=_ALWAYS - _chance(shape.reorder_percent / 100))
    jitter_ns, table = _ns(shape.jitter_ms), _table(shape.distribution) if shape.jitter_ms > 0 else ()
    if table and shape.distribution == "pareto":
        jitter_ns = round(jitter_ns * _TAIL_MEANS)
    if jitter_ns > _JITTER_MOST_NS:
        return _TOO_LATE
    share, runs = shape.loss_percent / 100, 0 < shape.loss_percent < 100 and shape.loss_run > 1
    leave = 1 / max(1.0, shape.loss_run)
    return Netem(
        delay_ns=_ns(shape.delay_ms),
        jitter_ns=jitter_ns,
        table=table,
        loss=0 if runs else _chance(share),
        run=(_chance(leave * share / (1 - share)), _chance(leave)) if runs else None,
        copies=_chance(shape.duplicate_percent / 100),
    )


def _misfit(shape: Shape) -> str:
    """Why netem would do something else."""
    late = shape.delay_ms > 0 or shape.jitter_ms > 0
    wishes = late + (shape.loss_percent > 0) + (shape.duplicate_percent > 0) + (shape.reorder_percent > 0)
    if shape.reset_every_ms > 0:
        return "the kernel's queues reset no connection"
    if wishes > 0 and shape.rate_kbit > 0:
        return "netem bounds the queue of a pipe in packets, not in bytes, where it does something else too"
    if wishes > 1 and shape.duplicate_percent > 0:
        return "netem repeats packets before it loses or delays them, and each copy for itself"
    if wishes > 1 and shape.reorder_percent > 0:
        return "netem lets a packet overtake others only by sending it with no delay at all"
    held_ms = max(shape.delay_ms + shape.jitter_ms, shape.reorder_ms if shape.reorder_percent > 0 else 0)
    return _TOO_LATE if held_ms > _DELAY_MOST_MS else ""


_TOO_LATE = f"what is held for more than {_DELAY_MOST_MS:.0f} ms would still be in netem long after the fault"


def _table(distribution: str) -> tuple[int, ...]:
    """Quantiles, each as likely as the others; with the means of :mod:`.shape`."""
    if distribution == "uniform":
        return ()
    middles = [(index + 0.5) / _TABLE_SIZE for index in range(_TABLE_SIZE)]
    if distribution == "normal":
        values = [NormalDist().inv_cdf(each) for each in middles]
    else:
        values = [2 * ((1 - each) ** (-1 / _PARETO) - 1) / _TAIL_MEANS for each in middles]
    return tuple(max(-_TABLE_MOST - 1, min(_TABLE_MOST, math.floor(each * TABLE_SCALE + 0.5))) for each in values)


def _chance(share: float) -> int:
    return max(0, min(_ALWAYS, round(share * _ALWAYS)))


def _ns(milliseconds: float) -> int:
    return round(milliseconds * _NS_PER_MS)
