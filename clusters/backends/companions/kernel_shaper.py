"""Shapes links by the kernel's own queues, where :mod:`.netem` says that they can do it and the kernel has them.

Of the queues of a link nothing stays when nothing is shaped. Queues that somebody has made there are left alone: then the kernel shapes
nothing, and :mod:`.shaper` does it in userspace. When a shape ends, new packets go past its queue at once; those that wait in it leave
when they are due, within :data:`_LINGER_NS`, and only then is the queue removed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from clusters.backends.companions.netem import Netem, Pipe, in_kernel
from clusters.backends.companions.rtnetlink import Routes
from clusters.backends.companions.shape import Counts, Shape
from clusters.backends.companions.traffic_control import BANDS, Leaf, TrafficControl

_LINGER_NS = 5_000_000_000
_LOOK_NS = 50_000_000
_NO_LEAF = Leaf(0, 0, 0, 0, 0, 0)


@dataclass
class Trips:
    """Round trips that are measured on one link while it is shaped."""

    due_ns: int
    asked: int = 0
    took_ms: list[float] = field(default_factory=list)
    waiting: int = 0
    """the most packets, measurements among them, that were seen waiting in the kernel's queue"""

    def told(self) -> dict[str, Any]:
        """As an answer."""
        return {"echo_ms": [round(each, 3) for each in self.took_ms], "echoes": self.asked, "waiting": self.waiting}


@dataclass(frozen=True)
class _Band:
    """Queues at one link, and whose packets enter them."""

    index: int
    number: int
    does: Netem | Pipe
    trips: dict[str, Trips]
    """by address; they are measured where packets are late"""
    before: dict[str, int]
    """how many packets of ours had gone to each address"""


class KernelShaper:
    """The trees of queues of this namespace; single-threaded."""

    def __init__(self, routes: Routes, device: int, measured: Mapping[str, int]) -> None:
        """``device``: an interface of ours that carries nothing, to try it at; ``measured``: address → measurements sent so far."""
        self._routes = routes
        self._measured = measured
        self._queues = TrafficControl()
        self._works: dict[str, list[_Band]] = {}
        self._ending: list[tuple[_Band, int]] = []
        self.unable = ""
        """why the kernel shapes nothing here; empty where it can"""
        try:
            self._queues.sweep()
            self._queues.try_all(device)
        except OSError as error:
            self.unable = f"this kernel has no netem that could be used ({os.strerror(error.errno or errno.EINVAL)})"

    def shape(self, key: str, towards: list[str], shape: Shape, now_ns: int) -> str:
        """Begin; why not, where it cannot be: then nothing is shaped by this key."""
        if self.unable:
            return self.unable
        does = in_kernel(shape)
        if isinstance(does, str):
            return does
        taken = {address for bands in self._works.values() for band in bands for address in band.trips}
        if taken.intersection(towards):
            return "the kernel's queues for that link do another fault's work"
        self._works[key] = []
        try:
            self._begin(self._works[key], towards, does, now_ns)
        except OSError as error:
            self.clear(key)
            if error.errno == errno.EEXIST:
                return "the link has queues that somebody else has made"
            return f"the kernel refused its queues ({os.strerror(error.errno or errno.EINVAL)})"
        return ""

    def counts(self, key: str) -> dict[str, dict[str, Any]]:
        """What the kernel counted for a key, by address."""
        told: dict[str, dict[str, Any]] = {}
        for band in self._works.get(key, []):
            leaf = self._queues.leaves(band.index).get(band.number, _NO_LEAF)
            marked = self._queues.marked(band.index) if _copies(band.does) else {}
            for address, trips in band.trips.items():
                ours = self._measured.get(address, 0) - band.before[address]
                counts = _counts(band.does, leaf, ours, *marked.get(address, (0, 0)))
                told[address] = {**counts.told(), **trips.told(), "moments": 0, "device_dropped": 0}
        return told

    def clear(self, key: str) -> dict[str, dict[str, Any]]:
        """End what a key does; the last counts. What still waits is counted as sent: it will be."""
        told = self.counts(key)
        for band in self._works.pop(key, []):
            with suppress(OSError):  # its link may have gone, and its queues with it
                self._queues.undirect(band.index, band.number)
                if isinstance(band.does, Pipe):
                    self._queues.open(band.index, band.number, band.does.queue_bytes, self._routes.mtu(band.index))
            self._ending.append((band, time.monotonic_ns() + _LINGER_NS))
        self.wait(time.monotonic_ns())
        return told

    def keys(self) -> list[str]:
        """Those that shape anything."""
        return list(self._works)

    def trips(self) -> list[tuple[str, Trips]]:
        """Where round trips shall be measured."""
        return [each for band in self._late_bands() for each in band.trips.items()]

    def look(self) -> None:
        """See whether packets wait where they shall: just after measurements were sent they do."""
        for band in self._late_bands():
            with suppress(OSError):
                leaf = self._queues.leaves(band.index).get(band.number, _NO_LEAF)
                for trips in band.trips.values():
                    trips.waiting = max(trips.waiting, leaf.waiting)

    def wait(self, now_ns: int) -> int | None:
        """Remove queues that are empty or whose time is over; when to look again."""
        left = []
        for band, until_ns in self._ending:
            with suppress(OSError):
                leaf = self._queues.leaves(band.index).get(band.number, _NO_LEAF)
                if leaf.waiting and now_ns < until_ns:
                    left.append((band, until_ns))
                else:
                    self._queues.remove(band.index, band.number)
        ended = {band.index for band, _ in self._ending} - {band.index for band, _ in left}
        self._ending = left
        for index in ended - {band.index for bands in self._works.values() for band in bands}:
            with suppress(OSError):
                self._queues.uproot(index)
        return now_ns + _LOOK_NS if left else None

    def close(self) -> None:
        """Remove every queue of ours, whatever waits there."""
        self._works.clear()
        self._ending.clear()
        with suppress(OSError):
            self._queues.sweep()

    def _late_bands(self) -> list[_Band]:
        return [band for bands in self._works.values() for band in bands if _late(band.does)]

    def _begin(self, made: list[_Band], towards: list[str], does: Netem | Pipe, now_ns: int) -> None:
        links: dict[int, list[str]] = {}
        for address in towards:
            links.setdefault(self._routes.way_to(address), []).append(address)
        for index, addresses in links.items():
            # The kernel takes one netem that copies, and none beside it: links of one fault share it, for they share no state.
            shares = [addresses] if _copies(does) else [[address] for address in addresses]
            for share in shares:
                trips = {address: Trips(now_ns) for address in share}
                before = {address: self._measured.get(address, 0) for address in share}
                band = _Band(index, self._free(index), does, trips, before)
                made.append(band)
                mtu = self._routes.mtu(index)
                self._queues.add(index, band.number, does, mtu)
                for address in share:
                    self._queues.direct(index, band.number, address, copies=_copies(does))

    def _free(self, index: int) -> int:
        """A band that has no queues; the tree is made for the first one. Raises OSError."""
        working = [band for bands in self._works.values() for band in bands]
        used = {band.number for band in [*working, *(each for each, _ in self._ending)] if band.index == index}
        if not used:
            self._queues.plant(index)
        free = [number for number in BANDS if number not in used]
        if not free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return free[0]


def _late(does: Netem | Pipe) -> bool:
    return isinstance(does, Netem) and not does.at_once and (does.delay_ns > 0 or does.jitter_ns > 0)


def _copies(does: Netem | Pipe) -> bool:
    return isinstance(does, Netem) and does.copies > 0


def _counts(does: Netem | Pipe, leaf: Leaf, ours: int, marked: int, copies: int) -> Counts:
    """In the words of the userspace mechanism. ``ours``: how many of the packets were measurements."""
    entered = marked if _copies(does) else leaf.sent + leaf.waiting + leaf.dropped
    left = marked + copies if _copies(does) else leaf.sent + leaf.waiting
    seen, sent = max(0, entered - ours), max(0, left - ours)
    counts = Counts(seen=seen, sent=sent, duplicated=copies, seen_bytes=leaf.sent_bytes)
    if isinstance(does, Pipe):
        counts.delayed, counts.overflowed = min(leaf.waited, sent), leaf.dropped
    else:
        loses = does.loss > 0 or does.run is not None
        counts.lost, counts.overflowed = (leaf.dropped, 0) if loses else (0, leaf.dropped)
        counts.delayed = sent if _late(does) else 0
        counts.reordered = max(0, sent - leaf.at_once) if does.at_once else 0
    return counts
