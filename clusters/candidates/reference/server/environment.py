"""What a server needs from the world, as small interfaces: clock, network, disk, chance.

The process gives real ones (:mod:`.real_clock`, :mod:`.real_network`, :mod:`.real_disk`), a simulation or a test its own.
Everything is driven by callbacks from one thread: no coroutine, no lock, and no order but the one in which callbacks are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Never call it; harmless when it was called."""
        ...


class Clock(Protocol):
    """Time, and callbacks at times."""

    def now_ns(self) -> int:
        """A monotonic clock, the one that traces are stamped with."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for records' timestamps only."""
        ...

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back after everything that is ready now."""
        ...

    def at_ms(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back when ``now_ns`` has reached so many milliseconds, not before."""
        ...


class Connection(Protocol):
    """One side of a byte stream."""

    def send(self, data: bytes) -> None:
        """Send, or keep until it is connected. What is sent on a lost connection is lost."""
        ...

    def close(self) -> None:
        """Drop the connection at once, with what is not sent yet; ``closed`` is not called back."""
        ...


class Handler(Protocol):
    """Who owns one side of a connection."""

    def received(self, data: bytes) -> None:
        """Bytes arrived."""
        ...

    def closed(self) -> None:
        """The connection was refused, lost or closed by the other side. Nothing comes after that."""
        ...


class Network(Protocol):
    """Connections by address."""

    def listen(self, host: str, port: int, accept: Callable[[Connection], Handler]) -> None:
        """Accept connections. Raises OSError when the address cannot be had."""
        ...

    def connect(self, host: str, port: int, handler: Handler) -> Connection:
        """Begin to connect; a failure is told by ``closed``, never from inside this call."""
        ...


class File(Protocol):
    """A file that is written at its end."""

    def append(self, data: bytes) -> None:
        """Write at the end. Raises OSError; then what is there is unknown."""
        ...

    def sync(self) -> None:
        """Everything written so far survives a power cut. Raises OSError."""
        ...

    def truncate(self, size: int) -> None:
        """Cut to a size; the next ``append`` goes there."""
        ...

    def close(self) -> None:
        """Give the file back."""
        ...


class Disk(Protocol):
    """A node's data directory; paths are relative to it, with ``/``. Every call may raise OSError."""

    def read(self, path: str) -> bytes | None:
        """The content of a file, None when there is none."""
        ...

    def names(self, directory: str) -> list[str]:
        """Names of the files in a directory, sorted; empty when there is no directory."""
        ...

    def make_directory(self, directory: str) -> None:
        """Make it, durably, unless it is there."""
        ...

    def open(self, path: str) -> File:
        """Open for appending; a new file's name is durable when this returns."""
        ...

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Put a file in the place of another: write beside it, sync, rename, sync the directory; without ``sync`` neither sync."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, durably."""
        ...
