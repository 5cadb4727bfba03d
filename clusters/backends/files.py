"""Files of nodes that lie on the controller's own disk: a disk moved aside, evidence copied out.

What a node left is not trusted: symbolic links are never followed, not even in the middle of a path, what is no regular file is
refused, and a size is bounded before anything is read. Holes stay holes, since index files are mostly holes.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from workloads.problem import Problem

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 24
_DEPTH_MAX = 16
_SHARED_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one copy may hold; more is a Problem and no partial evidence, which could be taken for a loss."""

    size_bytes: int = 4 << 30
    """of data, holes not counted"""
    files: int = 20_000


LIMITS = Limits()


def move_aside(directory: Path, name: str, aside: str) -> None:
    """Rename ``directory/name`` to ``directory/aside``. Raises Problem ``disk-not-moved``."""
    try:
        if (directory / aside).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(directory / aside))
        (directory / name).rename(directory / aside)
    except OSError as error:
        raise Problem(
            "disk-not-moved",
            f"The disk {directory / name} cannot be moved aside: {error}.",
            "Look at what holds it; nothing was removed.",
        ) from error


def copy_matching(source: Path, patterns: Sequence[str], target: Path, limits: Limits = LIMITS) -> None:
    """Copy the files below ``source`` that match a pattern, with their relative paths.

    ``*`` and ``?`` in a pattern stand for parts of one name. Raises Problem ``evidence-foreign`` for what matches and is no
    regular file, ``evidence-too-large``, ``evidence-not-copied``.
    """
    wanted = [PurePosixPath(pattern).parts for pattern in patterns]
    size_bytes = files = 0
    try:
        root = os.open(source, _DIRECTORY)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _foreign(source, error) from error
    try:
        for directory, relative in _matching(root, source, (), wanted):
            with _opened(directory, relative[-1], source.joinpath(*relative)) as found:
                status = os.fstat(found.descriptor)
                size_bytes, files = size_bytes + 512 * status.st_blocks, files + 1
                if size_bytes > limits.size_bytes or files > limits.files:
                    raise Problem(
                        "evidence-too-large",
                        f"The evidence in {source} is more than {limits.size_bytes >> 20} MiB or {limits.files} files.",
                        "Shorten the run (--duration, --rate); half a log would be taken for a lost one.",
                    )
                _copy(found.descriptor, status, target.joinpath(*relative))
    except OSError as error:
        raise Problem(
            "evidence-not-copied", f"The evidence in {source} cannot be copied: {error}.", "Look at that disk."
        ) from error
    finally:
        os.close(root)


def check_regular(path: Path) -> None:
    """Raises Problem ``evidence-foreign`` when there is something that is no regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise _foreign(path, "it is no regular file")


def write_shared(path: Path, offset: int, data: bytes) -> None:
    """Write over a part of a file that a node maps; see :class:`clusters.shared.Sharing`. Raises Problem ``shared-file``."""
    with _shared(path, os.O_RDWR) as file:
        os.pwrite(file.descriptor, data, offset)


def read_shared(path: Path) -> bytes:
    """A small file that a node maps, as it is now. Raises Problem ``shared-file``."""
    with _shared(path, os.O_RDONLY) as file:
        return os.pread(file.descriptor, _SHARED_BYTES_MAX, 0)


def file_size(path: Path) -> int:
    """How long a file is; 0 when it is not there."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _shared(path: Path, access: int) -> _Opened:
    try:
        descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise shared_problem(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise shared_problem(path, "it is no regular file")
    return _Opened(descriptor)


def shared_problem(path: Path, why: str) -> Problem:
    """A file that controller and node share cannot be used."""
    return Problem("shared-file", f"{path}, shared with the node, cannot be used: {why}.", "Look at what the node did.")


@dataclass(frozen=True, slots=True)
class _Opened:
    descriptor: int

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


def _matching(
    directory: int, source: Path, above: tuple[str, ...], wanted: Sequence[tuple[str, ...]]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(descriptor of its directory, relative path) of each match, directories opened on the way and closed after."""
    level = len(above)
    if level >= _DEPTH_MAX:
        return
    for name in sorted(os.listdir(directory)):
        here = [parts for parts in wanted if len(parts) > level and fnmatch.fnmatchcase(name, parts[level])]
        if any(len(parts) == level + 1 for parts in here):
            yield directory, (*above, name)
        deeper = [parts for parts in here if len(parts) > level + 1]
        if not deeper:
            continue
        kind = os.lstat(name, dir_fd=directory).st_mode
        if not stat.S_ISDIR(kind) and not stat.S_ISLNK(kind):
            continue
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=directory)
        except OSError as error:
            raise _foreign(source.joinpath(*above, name), error) from error
        try:
            yield from _matching(inner, source, (*above, name), deeper)
        finally:
            os.close(inner)


def _opened(directory: int, name: str, path: Path) -> _Opened:
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        raise _foreign(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _foreign(path, "it is no regular file")
    return _Opened(descriptor)


def _copy(source: int, status: os.stat_result, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as copy:
        copy.truncate(status.st_size)
        for begin, end in _extents(source, status.st_size):
            os.lseek(source, begin, os.SEEK_SET)
            copy.seek(begin)
            left = end - begin
            while left > 0:
                data = os.read(source, min(left, _CHUNK_BYTES))
                if not data:
                    break
                copy.write(data)
                left -= len(data)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file has data; a file system that does not know says: everywhere."""
    begin = 0
    while begin < size:
        try:
            begin = os.lseek(descriptor, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = min(size, os.lseek(descriptor, begin, os.SEEK_HOLE))
        yield begin, end
        begin = end


def _foreign(path: Path, why: object) -> Problem:
    return Problem(
        "evidence-foreign",
        f"{path} cannot be taken as evidence: {why}.",
        "A candidate leaves regular files in real directories; links and devices are not followed.",
    )
