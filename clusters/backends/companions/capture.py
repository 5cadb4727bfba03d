"""``capture``: keeps what the nodes send each other, as their own kernels saw it, until the controller takes it.

It runs beside a node, in its network namespace, and sees each segment that the node sends (before its own packet filter's output
is left) or that arrives (before the filter's input: what arrives may still be dropped; only an acknowledgement says that it was
not). Times are the kernel's own stamps, of the wall clock, brought to CLOCK_MONOTONIC by the distance of the two clocks, which is
measured again at each reading: a step of the wall clock moves nothing.

Operations (a settings object or fields each, JSON):

``begin``  ``port``, ``addresses`` (of all nodes), ``keep_bytes`` (what may wait here; more is counted as lost): starts.
``take``   ``last`` (wait for what is still under way in the ring, and stop): ``data`` (base64 of the next gzip members of a pcap file of
           raw IPv4 packets with times in ns of CLOCK_MONOTONIC), ``left`` (bytes that wait), ``packets``, ``lost`` (both in all).

Standard library only: it also runs on machines of a run.
"""

from __future__ import annotations

import base64
import gzip
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from clusters.backends.companions.packet_ring import RETIRE_MS, PacketRing
from clusters.backends.companions.requests import Requests
from workloads.problem import Problem

KEEP_BYTES = 64 << 20
PCAP_HEAD = struct.pack("<IHHiIII", 0xA1B2_3C4D, 2, 4, 0, 0, 1 << 18, 101)
"""of a pcap file with nanoseconds and packets that begin with their IP header (LINKTYPE_RAW)"""

_PCAP_PACKET = struct.Struct("<IIII")
_NS_PER_S = 1_000_000_000
_STEP_NS = 1_000_000
_WAIT_S = 0.25
_PART_BYTES = 1 << 18
_MEMBER_BYTES = 90_000
"""with base64 it stays within a companion's longest answer"""


class WallClock:
    """Wall clock stamps to CLOCK_MONOTONIC, right also for stamps taken before a step that happened since the last reading."""

    def __init__(self, monotonic_ns: int, wall_ns: int) -> None:
        self._before = self._ahead = monotonic_ns - wall_ns
        self._read_ns = self._previous_ns = monotonic_ns

    def read(self, monotonic_ns: int, wall_ns: int) -> None:
        """Both clocks were read at one moment, after all stamps that are asked about until the next reading."""
        self._previous_ns, self._read_ns = self._read_ns, monotonic_ns
        self._before, self._ahead = self._ahead, monotonic_ns - wall_ns

    def monotonic_ns(self, stamp_ns: int) -> int:
        """When a packet was stamped."""
        after, before = stamp_ns + self._ahead, stamp_ns + self._before
        if abs(after - before) < _STEP_NS or self._fits(after):
            return min(after, self._read_ns)
        if self._fits(before):
            return before
        return min(max(after, self._previous_ns), self._read_ns)

    def _fits(self, moment_ns: int) -> bool:
        return self._previous_ns - RETIRE_MS * 2_000_000 <= moment_ns <= self._read_ns


class Capture:
    """One capture of one node; a thread of its own empties the kernel's ring."""

    def __init__(self) -> None:
        self._ring: PacketRing | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._kept = bytearray(PCAP_HEAD)
        self._keep_bytes = KEEP_BYTES
        self._packets = self._lost = 0
        self._ending = threading.Event()
        self._failed = ""

    def begin(self, port: int, addresses: Sequence[str], keep_bytes: int = KEEP_BYTES) -> dict[str, Any]:
        """Start. Raises Problem ``capture-refused``."""
        try:
            self._ring = PacketRing(port, addresses)
        except OSError as error:
            raise Problem(
                "capture-refused",
                f"What the nodes send each other cannot be captured here: {error}.",
                "Run as root, or with CAP_NET_RAW in the node's namespace, on a kernel with CONFIG_PACKET.",
            ) from error
        self._keep_bytes = keep_bytes
        self._thread = threading.Thread(target=self._live, args=(self._ring,), name="capture", daemon=True)
        self._thread.start()
        return {"monotonic_ns": time.monotonic_ns()}

    def take(self, last: bool = False) -> dict[str, Any]:
        """Hand out the oldest bytes. Raises Problem ``capture-failed`` when the capture ended by itself."""
        if last and self._thread is not None:
            time.sleep(2 * RETIRE_MS / 1000)
            self._ending.set()
            self._thread.join()
        with self._lock:
            if self._failed:
                raise Problem("capture-failed", f"The capture ended: {self._failed}.", "See the node's machine.")
            part, data = _member(self._kept)
            del self._kept[:part]
            left, packets, lost = len(self._kept), self._packets, self._lost
        return {"data": base64.b64encode(data).decode(), "left": left, "packets": packets, "lost": lost}

    def end(self) -> None:
        """Stop; what was not taken is gone."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def _live(self, ring: PacketRing) -> None:
        clock = WallClock(*_clocks())
        try:
            while True:
                ending = self._ending.is_set()
                if not ending:
                    ring.wait(_WAIT_S)
                self._keep(ring, clock)
                if ending:
                    return
        except Exception as error:  # whatever ends the capture is told, and never taken for silence
            with self._lock:
                self._failed = f"{type(error).__name__}: {error}"

    def _keep(self, ring: PacketRing, clock: WallClock) -> None:
        found = list(ring.read())
        clock.read(*_clocks())
        records = []
        for stamp_ns, packet, size in found:
            seconds, ns = divmod(clock.monotonic_ns(stamp_ns), _NS_PER_S)
            total = int.from_bytes(packet[2:4], "big") or len(packet)
            kept = packet[:total]
            records.append(_PCAP_PACKET.pack(seconds, ns, len(kept), max(len(kept), min(size, total))))
            records.append(kept)
        data = b"".join(records)
        lost = ring.lost()
        with self._lock:
            self._packets += len(found)
            self._lost += lost
            if len(self._kept) + len(data) > self._keep_bytes:
                self._lost += len(found)
            else:
                self._kept += data


def serve(requests: Requests) -> None:
    """Be the companion until the end of the requests."""
    capture = Capture()
    operations: dict[str, Callable[..., Any]] = {"begin": capture.begin, "take": capture.take}
    try:
        for request in requests:
            op = request.pop("op")
            try:
                if op not in operations:
                    raise Problem("capture-asked", f"A capture cannot {op!r}.", "Report this defect of ours.")
                requests.answer(operations[op](**request))
            except Problem as problem:
                requests.refuse(problem)
    finally:
        capture.end()


def _member(kept: bytearray) -> tuple[int, bytes]:
    """The longest beginning that an answer can carry: (its bytes, compressed)."""
    part = min(len(kept), _PART_BYTES)
    while part:
        data = gzip.compress(kept[:part], 1)
        if len(data) <= _MEMBER_BYTES:
            return part, data
        part //= 2
    return 0, b""


def _clocks() -> tuple[int, int]:
    """(CLOCK_MONOTONIC, wall clock) in ns at one moment: of a few readings the one that was interrupted least."""
    best: tuple[int, int, int] | None = None
    for _ in range(3):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, wall)
    assert best is not None
    return best[1], best[2]
