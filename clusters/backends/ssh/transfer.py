"""Files between the controller and a machine, through its agent, in pieces; holes stay holes.

What a node left is not trusted: the agent follows no symbolic link, and here every path is built from names that were checked,
sizes are bounded before anything is read, and what matches and is no regular file is a Problem.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clusters.backends.files import LIMITS, Limits
from clusters.backends.ssh.agent.frames import BLOB_BYTES_MAX
from clusters.backends.ssh.channel import AgentChannel
from workloads.problem import Problem


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing on a machine, as its agent lists it."""

    path: PurePosixPath
    kind: str
    size: int
    data_bytes: int
    mtime_ns: int


def list_files(channel: AgentChannel, directory: str) -> list[Entry]:
    """All that is below a directory of the run on the machine. Raises Problem ``evidence-foreign`` for a name that leads elsewhere."""
    found = []
    for path, kind, size, data_bytes, mtime_ns in channel.call("list", path=directory):
        entry = Entry(PurePosixPath(path), kind, size, data_bytes, mtime_ns)
        if entry.path.is_absolute() or ".." in entry.path.parts or not entry.path.parts:
            raise _foreign(channel, f"{directory}/{path}", "its name leads elsewhere")
        found.append(entry)
    return found


def pull_matching(
    channel: AgentChannel, directory: str, patterns: Sequence[str], target: Path, limits: Limits = LIMITS
) -> None:
    """Copy the files below ``directory`` that match a pattern (``*`` and ``?`` stand for parts of one name) into ``target``.

    Raises Problem ``evidence-foreign`` or ``evidence-too-large``.
    """
    wanted = [PurePosixPath(pattern).parts for pattern in patterns]
    files = []
    for entry in list_files(channel, directory):
        match = _match(entry.path.parts, wanted)
        if entry.kind == "other" and match is not None:
            raise _foreign(channel, f"{directory}/{entry.path}", "it is neither a file nor a directory")
        if match == "whole":
            if entry.kind != "file":
                raise _foreign(channel, f"{directory}/{entry.path}", "it is no regular file")
            files.append(entry)
    _bound(channel, files, limits)
    for entry in files:
        pull_file(channel, f"{directory}/{entry.path}", target.joinpath(*entry.path.parts), limits=limits)


def pull_tree(channel: AgentChannel, directory: str, target: Path, limits: Limits = LIMITS) -> None:
    """Copy all regular files below a directory; nothing else is copied. Raises Problem ``evidence-too-large``."""
    files = [entry for entry in list_files(channel, directory) if entry.kind == "file"]
    _bound(channel, files, limits)
    target.mkdir(parents=True, exist_ok=True)
    for entry in files:
        pull_file(channel, f"{directory}/{entry.path}", target.joinpath(*entry.path.parts), limits=limits)


def pull_file(channel: AgentChannel, path: str, target: Path, begin: int = 0, limits: Limits = LIMITS) -> None:
    """Copy a file of the run on the machine, from the byte ``begin`` on (what is before is in ``target`` already).

    Raises Problem ``evidence-foreign`` or ``evidence-too-large``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    taken, offset, size, mtime_ns = 0, begin, begin, 0
    with target.open("r+b" if begin else "wb") as copy:
        while True:
            told, data = channel.exchange("read", path=path, offset=offset)
            size, mtime_ns = told["size"], told["mtime_ns"]
            if not data:
                break
            taken += len(data)
            if taken > limits.size_bytes:
                raise Problem(
                    "evidence-too-large",
                    f"{path} on {channel.machine} has more than {limits.size_bytes >> 20} MiB.",
                    "Shorten the run (--duration, --rate).",
                )
            copy.seek(told["at"])
            copy.write(data)
            offset = told["at"] + len(data)
        copy.truncate(size)
    os.utime(target, ns=(mtime_ns, mtime_ns))


def read_small(channel: AgentChannel, path: str) -> bytes:
    """The whole of a file of the run on the machine, of at most one piece; holes are zeros."""
    told, data = channel.exchange("read", path=path, offset=0)
    return (bytes(min(int(told["at"]), int(told["size"]))) + data).ljust(int(told["size"]), b"\0")


def push_directory(channel: AgentChannel, source: Path, directory: str) -> None:
    """Copy a directory of the controller's to the machine; symbolic links in it are not followed and not copied."""
    channel.call("make", path=directory)
    for path in sorted(source.rglob("*")):
        there = f"{directory}/{path.relative_to(source).as_posix()}"
        if path.is_symlink():
            continue
        if path.is_dir():
            channel.call("make", path=there)
        else:
            push_file(channel, path, there)


def push_file(channel: AgentChannel, source: Path, path: str) -> None:
    """Copy a file of the controller's to the machine; it is there whole or not at all only when the caller renames it."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        mode = stat.S_IMODE(status.st_mode)
        channel.call("write", path=path, offset=-1, size=status.st_size, mode=mode)
        for begin, data in _pieces(descriptor, status.st_size):
            channel.exchange("write", data, path=path, offset=begin, size=status.st_size, mode=mode)
    finally:
        os.close(descriptor)


def _bound(channel: AgentChannel, files: Sequence[Entry], limits: Limits) -> None:
    if sum(entry.data_bytes for entry in files) > limits.size_bytes or len(files) > limits.files:
        raise Problem(
            "evidence-too-large",
            f"The evidence on {channel.machine} is more than {limits.size_bytes >> 20} MiB or {limits.files} files.",
            "Shorten the run (--duration, --rate); half a log would be taken for a lost one.",
        )


def _pieces(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of what is no hole."""
    offset = 0
    while offset < size:
        try:
            offset = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(descriptor, offset, os.SEEK_HOLE)
        data = os.pread(descriptor, min(end - offset, BLOB_BYTES_MAX), offset)
        if not data:
            return
        yield offset, data
        offset += len(data)


def _match(parts: Sequence[str], wanted: Sequence[Sequence[str]]) -> str | None:
    """``whole``, or ``way`` to something that might match, or None."""
    found = None
    for pattern in wanted:
        if len(parts) <= len(pattern) and all(map(fnmatch.fnmatchcase, parts, pattern)):
            if len(parts) == len(pattern):
                return "whole"
            found = "way"
    return found


def _foreign(channel: AgentChannel, path: str, why: str) -> Problem:
    return Problem(
        "evidence-foreign",
        f"{path} on {channel.machine} cannot be taken as evidence: {why}.",
        "A candidate leaves regular files in real directories; links and devices are not followed.",
    )
