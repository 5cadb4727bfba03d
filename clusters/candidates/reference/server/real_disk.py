"""The machine's disk: files of a data directory, with fsync where it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from clusters.candidates.reference.server.environment import File


class OsFile:
    """:class:`.environment.File` on a file descriptor."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, data: bytes) -> None:
        """Write all of it; the kernel may take it in parts."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        """Content and size; times may be lost."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """The descriptor appends, so the next write goes to the new end."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class OsDisk:
    """:class:`.environment.Disk` below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        """Read a whole file."""
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        """List a directory."""
        try:
            return sorted(os.listdir(self._root / directory))
        except FileNotFoundError:
            return []

    def make_directory(self, directory: str) -> None:
        """Make a directory and sync the one above it."""
        path = self._root / directory
        if not path.is_dir():
            path.mkdir()
            _sync_directory(path.parent)

    def open(self, path: str) -> File:
        """Open or make a file; the name of a new one is synced."""
        target = self._root / path
        is_new = not target.exists()
        opened = OsFile(target)
        if is_new:
            _sync_directory(target.parent)
        return opened

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Write ``<path>.tmp`` and rename it."""
        target = self._root / path
        beside = target.with_name(target.name + ".tmp")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, target)
        if sync:
            _sync_directory(target.parent)

    def remove(self, path: str) -> None:
        """Unlink and sync the directory."""
        target = self._root / path
        target.unlink()
        _sync_directory(target.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
