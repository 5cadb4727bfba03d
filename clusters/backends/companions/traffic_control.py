"""Queues of the kernel at one of this namespace's links: what goes to chosen addresses waits in queues of its own, everything else as ever.

The tree is a ``prio`` whose first three bands are those that a link has without it; each further band is a token bucket, which cuts
what the sender's offload left together into real packets, and in it a netem, or only the queue of a narrow pipe. Filters choose by
destination. Copies that netem makes enter at the top again: there they are known by the mark that their original got. Messages are
those of linux/pkt_sched.h and linux/pkt_cls.h; all handles carry a number of ours, by which a tree is found whose maker was killed.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from clusters.backends.companions.netem import Netem, Pipe
from clusters.backends.companions.netlink import CREATE, DUMP, EXCLUSIVE, Netlink, attribute, attributes, number

BANDS = range(4, 17)
"""those that can be had"""

_ROOT, _BUCKET, _NETEM = 0x4E4D, 0x4E00, 0x4E20
"""majors of handles; a band's number is added to the latter two"""
_TOP = 0xFFFF_FFFF
_COPY = 0x4E45_4D43
"""the mark of what a netem has copied, or may copy"""
_PRIORITIES = bytes([1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
"""the kernel's own bands: PFIFO_FAST's"""
_NEW_QUEUE, _DELETE_QUEUE, _GET_QUEUE = 36, 37, 38
_NEW_FILTER, _DELETE_FILTER, _GET_FILTER = 44, 45, 46
_IPV4 = socket.htons(0x0800)
_DESTINATION_OFFSET = 16
_BURST_BYTES, _FRAME_BYTES = 3_028, 18
_UNBOUND = 100_000_000_000
"""bytes a second: no packet waits for that"""
_ORDERED = (1 << 32) - 1
"""a netem that has a rate keeps the order of packets, whatever their jitter; at this one each takes a nanosecond"""
_PACKETS_MOST = 20_000
_ETHERNET = 1
_TICK_NS = 64
"""kernels before 4.16 take times in these; others go by the attributes in nanoseconds"""


@dataclass(frozen=True)
class Leaf:
    """What a band's last queue counts."""

    sent: int
    sent_bytes: int
    waiting: int
    dropped: int
    at_once: int
    """that skipped a netem's delay"""
    waited: int
    """how often a packet had to wait for a pipe"""


class TrafficControl:
    """Speaks of the links of the namespace that this thread was in when it was made. Every method raises OSError."""

    def __init__(self) -> None:
        self._netlink = Netlink()

    def try_all(self, index: int) -> None:
        """Make one of each queue at a link that carries nothing, and remove them."""
        self.plant(index)
        try:
            self.add(index, BANDS[0], Netem(delay_ns=1, jitter_ns=1, table=(0, 1), run=(1, 1)), 1500)
            self.direct(index, BANDS[0], "192.0.2.1", copies=False)
        finally:
            self.uproot(index)

    def plant(self, index: int) -> None:
        """Begin a tree. ``EEXIST`` where somebody has made queues of their own at this link."""
        options = struct.pack("=i", BANDS[-1]) + _PRIORITIES
        self._queue(index, _ROOT << 16, _TOP, "prio", options)

    def uproot(self, index: int) -> None:
        """Remove the tree; the kernel's own queue is back, and what waits in ours is lost."""
        self._netlink.ask(_DELETE_QUEUE, 0, _head(index, _ROOT << 16, _TOP, 0))

    def add(self, index: int, band: int, does: Netem | Pipe, mtu: int) -> None:
        """Give a band its queues; nothing enters them yet."""
        rate, queue_bytes = (does.rate, does.queue_bytes) if isinstance(does, Pipe) else (_UNBOUND, 1 << 24)
        bucket = _bucket(rate, queue_bytes, mtu)
        self._queue(index, _BUCKET + band << 16, _band(band), "tbf", bucket)
        if isinstance(does, Netem):
            parent = (_BUCKET + band << 16) + 1
            self._queue(index, _NETEM + band << 16, parent, "netem", _netem(does))

    def open(self, index: int, band: int, queue_bytes: int, mtu: int) -> None:
        """Let what waits for a pipe pass at once."""
        self._queue(index, _BUCKET + band << 16, _band(band), "tbf", _bucket(_UNBOUND, queue_bytes, mtu), flags=0)

    def remove(self, index: int, band: int) -> None:
        """Take a band's queues away; what waits in them is lost."""
        self._netlink.ask(_DELETE_QUEUE, 0, _head(index, _BUCKET + band << 16, _band(band), 0))

    def direct(self, index: int, band: int, address: str, *, copies: bool) -> None:
        """From now on what goes to an address enters a band; ``copies``: where they are made, they are told apart and counted."""
        if copies:
            self._filter(index, band, _choice(address, band) + _marked() + _mark(), first=True)
        self._filter(index, band, _choice(address, band) + (_mark() if copies else b""), first=False)

    def undirect(self, index: int, band: int) -> None:
        """From now on nothing enters a band."""
        for first in (False, True):
            with _may_be_gone():
                self._netlink.ask(_DELETE_FILTER, 0, _head(index, 0, _ROOT << 16, _rank(band, first=first)))

    def leaves(self, index: int) -> dict[int, Leaf]:
        """What was counted, by band."""
        found: dict[int, Leaf] = {}
        for major, body in sorted(self._queues(index)):
            for first in (_BUCKET, _NETEM):  # where there is both, the netem's counts
                if major - first in BANDS:
                    found[major - first] = _leaf(attributes(body[20:])[7])
        return found

    def marked(self, index: int) -> dict[str, tuple[int, int]]:
        """Address → how many packets got the mark, and how many came with it: copies."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for kind, body in self._netlink.ask(_GET_FILTER, DUMP, _head(index, 0, _ROOT << 16, 0)):
            options = attributes(attributes(body[20:]).get(2, b""))
            if kind == _NEW_FILTER and 7 in options and 5 in options:
                action = attributes(attributes(options[7])[1])
                (count,) = struct.unpack_from("=I", attributes(action[4])[1], 8)
                found[socket.inet_ntoa(options[5][20:24])][10 in options] += count
        return {address: (seen, copies) for address, (seen, copies) in found.items()}

    def sweep(self) -> int:
        """Remove every tree of ours, whoever made it; returns how many."""
        try:
            ours = [struct.unpack_from("=i", body, 4)[0] for major, body in self._queues(0) if major == _ROOT]
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # a kernel without traffic control
                return 0
            raise
        for index in ours:
            with _may_be_gone():  # somebody else was faster
                self.uproot(index)
        return len(ours)

    def close(self) -> None:
        """Close the socket; what was made stays."""
        self._netlink.close()

    def _queues(self, index: int) -> Iterator[tuple[int, bytes]]:
        """(major, message) of a link's queues, of every link's where it is 0."""
        for kind, body in self._netlink.ask(_GET_QUEUE, DUMP, _head(index, 0, 0, 0)):
            found, handle = struct.unpack_from("=iI", body, 4)
            if kind == _NEW_QUEUE and index in (0, found):
                yield handle >> 16, body

    def _queue(
        self, index: int, handle: int, parent: int, name: str, options: bytes, *, flags: int = CREATE | EXCLUSIVE
    ) -> None:
        told = attribute(1, name.encode() + b"\0") + attribute(2, options)
        self._netlink.ask(_NEW_QUEUE, flags, _head(index, handle, parent, 0) + told)

    def _filter(self, index: int, band: int, options: bytes, *, first: bool) -> None:
        head = _head(index, 0, _ROOT << 16, _rank(band, first=first))
        self._netlink.ask(_NEW_FILTER, CREATE | EXCLUSIVE, head + attribute(1, b"u32\0") + attribute(2, options))


def _head(index: int, handle: int, parent: int, info: int) -> bytes:
    return struct.pack("=BxHiIII", 0, 0, index, handle, parent, info)


def _band(band: int) -> int:
    return (_ROOT << 16) + band


def _rank(band: int, *, first: bool) -> int:
    return (2 * band + (not first) << 16) + _IPV4


def _choice(address: str, band: int) -> bytes:
    key = struct.pack("=4s4sii", b"\xff" * 4, socket.inet_aton(address), _DESTINATION_OFFSET, 0)
    return number(1, _band(band)) + attribute(5, struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + key)


def _marked() -> bytes:
    return attribute(10, struct.pack("=III", _COPY, _TOP, 0))


def _mark() -> bytes:
    parameters = attribute(2, struct.pack("=IIiii", 0, 0, 0, 0, 0)) + number(5, _COPY)
    return attribute(7, attribute(1, attribute(1, b"skbedit\0") + attribute(2, parameters)))


def _bucket(rate: int, queue_bytes: int, mtu: int) -> bytes:
    burst = max(_BURST_BYTES, mtu + _FRAME_BYTES)
    spec = struct.pack("=BBHhHI", 0, _ETHERNET, 0, 0, 0, min(rate, _TOP))
    told = attribute(1, spec + bytes(12) + struct.pack("=III", max(queue_bytes, burst), 0, 0)) + number(6, burst)
    return told + (attribute(4, struct.pack("=Q", rate)) if rate > _TOP else b"")


def _netem(does: Netem) -> bytes:
    gap = int(does.at_once > 0)
    ticks = (min(_TOP, does.delay_ns // _TICK_NS), min(_TOP, does.jitter_ns // _TICK_NS))
    told = struct.pack("=IIIIII", ticks[0], _PACKETS_MOST, does.loss, gap, does.copies, ticks[1])
    told += attribute(10, struct.pack("=q", does.delay_ns)) + attribute(11, struct.pack("=q", does.jitter_ns))
    if gap:
        told += attribute(3, struct.pack("=II", does.at_once, 0))
    if does.jitter_ns:
        told += attribute(6, struct.pack("=IiIi", _ORDERED, 0, 0, 0))
    if does.table:
        told += attribute(2, struct.pack(f"={len(does.table)}h", *does.table))
    if does.run:
        told += attribute(5, attribute(2, struct.pack("=IIII", *does.run, 0, 0)))
    return told


def _leaf(statistics: bytes) -> Leaf:
    told = attributes(statistics)
    sent_bytes, sent = struct.unpack_from("=QI", told[1])
    waiting, _, dropped, requeued, over = struct.unpack_from("=5I", told[3])
    return Leaf(sent, sent_bytes, waiting, dropped, requeued, over)


@contextlib.contextmanager
def _may_be_gone() -> Iterator[None]:
    """The kernel says so in two ways."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise
