"""Keeps the node from writing the cache, even as root: a mount of its own, read-only but while files are brought."""

from __future__ import annotations

import contextlib
import ctypes
import os

_MS_RDONLY, _MS_REMOUNT, _MS_BIND = 0x1, 0x20, 0x1000
_libc = ctypes.CDLL(None, use_errno=True)


class Shelf:
    """The directory ``top``, in this process's private mount namespace."""

    def __init__(self, top: str) -> None:
        self._top = top
        _mount(top, top, _MS_BIND)

    def open(self) -> None:
        """Let files be brought."""
        _mount("none", self._top, _MS_REMOUNT | _MS_BIND)

    def close(self) -> None:
        """Nothing below can be changed from here on."""
        with contextlib.suppress(OSError):  # some containers refuse; the files themselves are read-only too
            _mount("none", self._top, _MS_REMOUNT | _MS_BIND | _MS_RDONLY)


def _mount(source: str, target: str, flags: int) -> None:
    if _libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
