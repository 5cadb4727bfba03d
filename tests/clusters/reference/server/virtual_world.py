"""Clock, network and disk in memory, so that servers run in virtual time: one queue of callbacks, no waiting, no threads."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import PurePosixPath

from clusters.candidates.reference.server.environment import Connection, Handler

LATENCY_NS = 1_000_000


@dataclass
class Timer:
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


class Time:
    """The queue. Callbacks of one moment come in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = count()

    def at_ns(self, when: int, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), timer))
        return timer

    def run_until(self, reached: Callable[[], bool], limit_ms: int = 60_000, limit_events: int = 200_000) -> None:
        end = self.now + limit_ms * 1_000_000
        for _ in range(limit_events):
            if reached():
                return
            if not self._queue or self._queue[0][0] > end:
                break
            self.now, _, timer = heapq.heappop(self._queue)
            if timer.callback is not None:
                timer.callback()
        raise AssertionError(f"not reached within {limit_ms} ms of virtual time and {limit_events} events")

    def run_for(self, milliseconds: int) -> None:
        end = self.now + milliseconds * 1_000_000
        self.at_ns(end, lambda: None)
        self.run_until(lambda: self.now >= end, milliseconds + 1)


@dataclass
class VirtualClock:
    """A process's clock: its callbacks end with it."""

    time: Time
    alive: bool = True

    def now_ns(self) -> int:
        return self.time.now

    def wall_ms(self) -> int:
        return self.time.now // 1_000_000

    def soon(self, callback: Callable[[], None]) -> None:
        self.time.at_ns(self.time.now, self._mine(callback))

    def at_ms(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        return self.time.at_ns(when_ms * 1_000_000, self._mine(callback))

    def _mine(self, callback: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if self.alive:
                callback()

        return call


@dataclass
class End(Connection):
    """One end of a stream. Bytes to a cut-off host wait, as TCP's retransmissions do."""

    hub: Hub
    host: str
    owner: VirtualClock
    handler: Handler | None = None
    other: End | None = None
    is_open: bool = True
    inbox: list[bytes] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.hub.sent.append((self.host, data))
        other = self.other
        if self.is_open and other is not None:
            other.inbox.append(data)
            self.hub.time.at_ns(self.hub.time.now + LATENCY_NS, other.deliver)

    def deliver(self) -> None:
        if not self.is_open or not self.inbox or self.handler is None or not self.owner.alive:
            return
        assert self.other is not None
        if (self.other.host, self.host) in self.hub.cut:
            self.hub.time.at_ns(self.hub.time.now + 10 * LATENCY_NS, self.deliver)
            return
        self.handler.received(self.inbox.pop(0))

    def close(self) -> None:
        self.is_open = False
        if self.other is not None:
            self.hub.time.at_ns(self.hub.time.now + LATENCY_NS, self.other.lost)

    def lost(self) -> None:
        if self.is_open:
            self.is_open = False
            if self.owner.alive and self.handler is not None:
                self.handler.closed()


class Hub:
    """All hosts. ``cut`` has (from, to) pairs of hosts; ``connects`` and ``sent`` are what happened, in order."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.cut: set[tuple[str, str]] = set()
        self.listeners: dict[tuple[str, int], tuple[VirtualClock, Callable[[Connection], Handler]]] = {}
        self.connects: list[tuple[str, str]] = []
        self.sent: list[tuple[str, bytes]] = []
        self.ends: list[End] = []

    def kill(self, clock: VirtualClock) -> None:
        """A process ends: its connections are reset, its port is free."""
        clock.alive = False
        for end in self.ends:
            if end.owner is clock:
                end.close()
        self.listeners = {at: each for at, each in self.listeners.items() if each[0] is not clock}


@dataclass
class VirtualNetwork:
    """What one process sees of the hub."""

    hub: Hub
    host: str
    owner: VirtualClock

    def listen(self, host: str, port: int, accept: Callable[[Connection], Handler]) -> None:
        if (host, port) in self.hub.listeners:
            raise OSError("address in use")
        self.hub.listeners[host, port] = (self.owner, accept)

    def connect(self, host: str, port: int, handler: Handler) -> Connection:
        self.hub.connects.append((self.host, host))
        mine = End(self.hub, self.host, self.owner, handler)
        listener = self.hub.listeners.get((host, port))
        self.hub.ends.append(mine)
        if listener is None:
            self.hub.time.at_ns(self.hub.time.now + LATENCY_NS, mine.lost)
            return mine
        theirs = End(self.hub, host, listener[0], other=mine)
        theirs.handler = listener[1](theirs)
        mine.other = theirs
        self.hub.ends.append(theirs)
        return mine


@dataclass
class MemoryFile:
    disk: MemoryDisk
    path: str

    def append(self, data: bytes) -> None:
        self.disk.log.append(("append", self.path))
        self.disk.current[self.path] += data

    def sync(self) -> None:
        self.disk.log.append(("sync", self.path))
        self.disk.durable[self.path] = self.disk.current[self.path]

    def truncate(self, size: int) -> None:
        self.disk.log.append(("truncate", self.path))
        self.disk.current[self.path] = self.disk.current[self.path][:size]

    def close(self) -> None:
        pass


class MemoryDisk:
    """A disk that forgets at a power cut what was not synced. ``log`` has what was done to it, in order."""

    def __init__(self) -> None:
        self.current: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []

    def power_cut(self) -> None:
        self.current = dict(self.durable)

    def read(self, path: str) -> bytes | None:
        return self.current.get(path)

    def names(self, directory: str) -> list[str]:
        return sorted(PurePosixPath(path).name for path in self.current if str(PurePosixPath(path).parent) == directory)

    def make_directory(self, directory: str) -> None:
        self.log.append(("directory", directory))

    def open(self, path: str) -> MemoryFile:
        self.log.append(("open", path))
        self.current.setdefault(path, b"")
        self.durable.setdefault(path, b"")
        return MemoryFile(self, path)

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        self.log.append(("replace and sync" if sync else "replace", path))
        self.current[path] = data
        if sync:
            self.durable[path] = data

    def remove(self, path: str) -> None:
        self.log.append(("remove", path))
        self.current.pop(path)
        self.durable.pop(path, None)
