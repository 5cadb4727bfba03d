"""Files of a run on this machine: listed, read, written. Paths are relative to the run's directory and never lead out of it.

What a node left is not trusted: every part of a path is opened without following symbolic links, and what is no regular file is
told and not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from typing import Any

CHUNK_BYTES = 1 << 20
ENTRIES_MAX = 100_000
_DEPTH_MAX = 32
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FilesError(Exception):
    """A path that leads elsewhere, or something that is no regular file where one is wanted."""


class Files:
    """Below ``root``, which exists. What is written belongs to ``uid`` and ``gid``."""

    def __init__(self, root: str, uid: int, gid: int) -> None:
        self.root = root
        self._uid, self._gid = uid, gid

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; nothing happens to one that is there."""
        with self._directory(_parts(path), make=True):
            pass

    def entries(self, path: str) -> list[list[Any]]:
        """All that is below a directory, as [relative path, kind, size, bytes of data, mtime in ns]; kind: file, directory, other.

        Empty when there is no such directory.
        """
        found: list[list[Any]] = []
        try:
            with self._directory(_parts(path)) as top:
                self._walk(top, "", found, 0)
        except FileNotFoundError:
            return []
        return found

    def _walk(self, directory: int, above: str, found: list[list[Any]], depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise FilesError(f"{above} is more than {_DEPTH_MAX} directories deep")
        for name in sorted(os.listdir(directory)):
            status = os.lstat(name, dir_fd=directory)
            kind = "file" if stat.S_ISREG(status.st_mode) else "directory" if stat.S_ISDIR(status.st_mode) else "other"
            found.append([above + name, kind, status.st_size, 512 * status.st_blocks, status.st_mtime_ns])
            if len(found) > ENTRIES_MAX:
                raise FilesError(f"there are more than {ENTRIES_MAX} files")
            if kind == "directory":
                inner = os.open(name, _DIRECTORY, dir_fd=directory)
                try:
                    self._walk(inner, f"{above}{name}/", found, depth + 1)
                finally:
                    os.close(inner)

    def read(self, path: str, offset: int) -> tuple[dict[str, Any], bytes]:
        """The next piece of data at or behind ``offset``: ({"at", "size", "mtime_ns"}, bytes); no bytes when only a hole is left."""
        parts = _parts(path)
        with self._directory(parts[:-1]) as directory:
            descriptor = os.open(parts[-1], _FILE, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FilesError(f"{path} is no regular file")
            told = {"at": status.st_size, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
            try:
                begin = os.lseek(descriptor, offset, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return told, b""
                raise
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            return {**told, "at": begin}, os.pread(descriptor, min(end - begin, CHUNK_BYTES), begin)
        finally:
            os.close(descriptor)

    def write(self, path: str, offset: int, data: bytes, size: int, mode: int) -> None:
        """Write a piece of a file; the first piece (``offset`` −1: none) makes it anew with ``size`` bytes of holes."""
        parts = _parts(path)
        with self._directory(parts[:-1], make=True) as directory:
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_CREAT
            descriptor = os.open(parts[-1], flags, mode, dir_fd=directory)
        try:
            if offset < 0:
                os.ftruncate(descriptor, 0)
                os.ftruncate(descriptor, size)
                os.fchown(descriptor, self._uid, self._gid)
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], offset + written)
        finally:
            os.close(descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename within one directory. Raises FilesError when the new name is taken."""
        before, after = _parts(old), _parts(new)
        if before[:-1] != after[:-1]:
            raise FilesError(f"{old} and {new} are in different directories")
        with self._directory(before[:-1]) as directory:
            with contextlib.suppress(FileNotFoundError):
                os.lstat(after[-1], dir_fd=directory)
                raise FilesError(f"{new} is there already")
            os.rename(before[-1], after[-1], src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; nothing happens when it is not there."""
        parts = _parts(path)
        with contextlib.suppress(FileNotFoundError), self._directory(parts[:-1]) as directory:
            if stat.S_ISDIR(os.lstat(parts[-1], dir_fd=directory).st_mode):
                shutil.rmtree(os.path.join(f"/proc/self/fd/{directory}", parts[-1]))
            else:
                os.unlink(parts[-1], dir_fd=directory)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link to a place of ours outside of the run; one that is there is replaced."""
        parts = _parts(path)
        with self._directory(parts[:-1], make=True) as directory:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=directory)
            os.symlink(target, parts[-1], dir_fd=directory)

    def open_output(self, path: str) -> int:
        """A descriptor that appends to a file, which is made when it is missing; the caller closes it."""
        parts = _parts(path)
        with self._directory(parts[:-1], make=True) as directory:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(parts[-1], flags, 0o644, dir_fd=directory)
        os.fchown(descriptor, self._uid, self._gid)
        return descriptor

    @contextlib.contextmanager
    def _directory(self, parts: list[str], *, make: bool = False) -> Iterator[int]:
        descriptor = os.open(self.root, _DIRECTORY)
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=descriptor)
                        os.chown(part, self._uid, self._gid, dir_fd=descriptor, follow_symlinks=False)
                inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FilesError(f"{path!r} is no path below the run's directory")
    return parts
