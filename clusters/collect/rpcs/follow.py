"""Reads the captures of a run while they grow: packets in, rows out, in a process of its own and of low priority.

What is left to do when the run ends is the last second of it, so that a verdict waits for no decoding.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from clusters.collect.rpcs.conversation import Conversations
from clusters.collect.rpcs.packets import PacketFile
from clusters.collect.rpcs.rows import RAW, Rows
from clusters.wire.problems import WireError

_INTERVAL_S = 1.0
_ROWS = 4000
_READ_BYTES = 1 << 22


class Listener(msgspec.Struct, frozen=True):
    """One node: its address, and its capture's file, which need not exist."""

    node: str
    address: str
    file: str


class Job(msgspec.Struct, frozen=True):
    """What to read; ``target`` is an Arrow stream of :data:`.rows.RAW`, written beside and moved into place at the end."""

    port: int
    listeners: tuple[Listener, ...]
    target: str


class Ending(msgspec.Struct, frozen=True):
    """Sent when the files are whole: nodes whose captures lost packets."""

    lossy: tuple[str, ...] = ()


class _Reader:
    """Takes what the files have gained."""

    def __init__(self, port: int, listeners: Sequence[Listener]) -> None:
        names = {_address(each.address): each.node for each in listeners}
        self._files = {each.node: (Path(each.file), PacketFile()) for each in listeners}
        captured = frozenset(node for node, (path, _) in self._files.items() if path.exists())
        self._read_bytes = dict.fromkeys(self._files, 0)
        self._broken: set[str] = set()
        self._conversations = Conversations(port, names, captured)
        self.rows = Rows()

    def read(self) -> None:
        """Read all files to their ends."""
        for node in self._files:
            while node not in self._broken and (data := self._more(node)):
                self._see(node, data)
        self.rows.add(self._conversations.settled())

    def finish(self, lossy: Iterable[str]) -> None:
        """All files are whole."""
        self.read()
        self.rows.add(self._conversations.finish(frozenset(lossy) | self._broken))

    def _more(self, node: str) -> bytes:
        path, _ = self._files[node]
        try:
            with path.open("rb") as file:
                file.seek(self._read_bytes[node])
                data = file.read(_READ_BYTES)
        except FileNotFoundError:
            return b""
        self._read_bytes[node] += len(data)
        return data

    def _see(self, node: str, data: bytes) -> None:
        try:
            for segment in self._files[node][1].feed(data):
                self._conversations.see(node, segment)
        except WireError:
            self._broken.add(node)


def _address(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


def read_captures(port: int, listeners: Sequence[Listener], lossy: Iterable[str]) -> pa.Table:
    """All at once: the messages of captures that are whole, as a table of :data:`.rows.RAW`."""
    reader = _Reader(port, listeners)
    reader.finish(lossy)
    return reader.rows.take()


def follow(job: Job) -> bool:
    """Read until standard input says that the captures are whole; False when it ends without a word: nobody waits any more."""
    target = Path(job.target)
    fresh = target.with_name(target.name + ".new")
    reader = _Reader(job.port, job.listeners)
    with pa.OSFile(str(fresh), "wb") as file, pa.ipc.new_stream(file, RAW) as stream:
        while (ending := _told(_INTERVAL_S)) is None:
            reader.read()
            if len(reader.rows) >= _ROWS:
                stream.write_table(reader.rows.take())
        if not ending:
            fresh.unlink()
            return False
        reader.finish(msgspec.json.decode(ending, type=Ending).lossy)
        stream.write_table(reader.rows.take())
    fresh.rename(target)
    return True


def read_target(path: Path) -> pa.Table:
    """What :func:`follow` wrote. Raises OSError or pyarrow's errors for what is none."""
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as stream:
        return stream.read_all().cast(RAW)


def _told(timeout_s: float) -> bytes | None:
    """What standard input says: None for nothing yet, nothing at its end."""
    ready, _, _ = select.select([0], [], [], timeout_s)
    return os.read(0, 1 << 16) if ready else None


def main(argument: str) -> int:
    """The process: ``python -m clusters.collect.rpcs JOB``; its exit status."""
    os.nice(10)
    return 0 if follow(msgspec.json.decode(argument.encode(), type=Job)) else 1


def command(job: Job) -> Mapping[str, Sequence[str] | dict[str, str]]:
    """How to start it: ``args`` and ``env`` of :class:`subprocess.Popen`."""
    root = str(Path(__file__).parents[3])
    search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {
        "args": [sys.executable, "-m", "clusters.collect.rpcs", msgspec.json.encode(job).decode()],
        "env": {**os.environ, "PYTHONPATH": search},
    }
