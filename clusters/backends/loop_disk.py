"""A file system of its own in a file: made, mounted through a loop device, shut down as by a power cut, mounted again. Needs root.

A power cut is ``FS_IOC_SHUTDOWN`` without a flush of the journal: what was written and not synced is gone, what was synced is there
when the journal has been replayed by the next mount. The loop device goes with the mount (autoclear). ext4 is mounted with
``noauto_da_alloc``, since by default it syncs a file that is rewritten or renamed over, and hides a sync that is missing.

The standard library only, and system calls rather than ``mount(8)``: nothing depends on what lies in /dev but the loop control.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

FILESYSTEMS = ("ext4", "xfs")
SIZE_BYTES = 512 << 20
"""of an image, which is sparse; mkfs.xfs wants 300 MiB at least"""

_LOOP_CONTROL = "/dev/loop-control"
_LOOP_MAJOR = 7
_LOOP_SET_FD, _LOOP_CLR_FD, _LOOP_SET_STATUS64, _LOOP_GET_FREE = 0x4C00, 0x4C01, 0x4C04, 0x4C82
_LOOP_INFO = struct.Struct("=QQQQQIIII64s64s32s2Q")
_AUTOCLEAR = 4
_SHUTDOWN = 0x8004_587D
_FLUSH_LOG, _NO_FLUSH = 1, 2
_MS_REMOUNT = 0x20
_MNT_DETACH = 2
_OPTIONS = {"ext4": "noauto_da_alloc", "xfs": ""}
_MKFS = {"ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1"), "xfs": ("mkfs.xfs", "-q", "-f")}
_TRIES = 64
_BUSY_PATIENCE_S, _BUSY_POLL_S = 5.0, 0.02
_MKFS_LIMIT_S = 60.0

_libc = ctypes.CDLL(None, use_errno=True)


def make_image(image: Path, filesystem: str, size_bytes: int = SIZE_BYTES) -> None:
    """Make an empty file system in a new, sparse file. Raises OSError, also for what mkfs says."""
    with image.open("xb") as file:
        file.truncate(size_bytes)
    program, *options = _MKFS[filesystem]
    found = find_program(program)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, f"no {program} on this machine", program)
    done = subprocess.run(
        [found, *options, str(image)], stdin=subprocess.DEVNULL, capture_output=True, timeout=_MKFS_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise OSError(errno.EIO, f"{program} fails: {done.stderr.decode(errors='replace').strip()}", str(image))


def find_program(name: str) -> str | None:
    """Where a program of mkfs is, also for a user whose PATH lacks the system's directories."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def mount_image(image: Path, target: Path, filesystem: str) -> None:
    """Mount the file system of an image on a directory, in this thread's mount namespace; a journal is replayed. Raises OSError."""
    with _loop_device(image) as device:
        options = _OPTIONS[filesystem].encode() or None
        _call("mount", target, _libc.mount(os.fsencode(device), os.fsencode(target), filesystem.encode(), 0, options))


def unmount(target: Path, *, lazily: bool = False) -> None:
    """Unmount; waits a moment for whoever has a file open there. Raises OSError (EBUSY, EINVAL where nothing is mounted)."""
    deadline = time.monotonic() + _BUSY_PATIENCE_S
    while True:
        try:
            _call("umount", target, _libc.umount2(os.fsencode(target), _MNT_DETACH if lazily else 0))
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_BUSY_POLL_S)


def cut_power(target: Path) -> None:
    """The file system stops at once, its journal is not flushed: from here on every access fails, until it is mounted anew."""
    _shut_down(target, _NO_FLUSH)


def fail_device(target: Path) -> None:
    """As a disk that fails: what was written until now is on it, and every access from here on fails with EIO."""
    _shut_down(target, _FLUSH_LOG)


def forbid_writes(target: Path) -> None:
    """ext4 only: abort the journal, after which the file system is read-only, for files that are open too."""
    flags = ctypes.c_ulong(_MS_REMOUNT)
    _call("mount", target, _libc.mount(None, os.fsencode(target), None, flags, b"abort"))


def sync(target: Path) -> None:
    """Bring everything of the file system that holds ``target`` to its disk."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _call("syncfs", target, _libc.syncfs(descriptor))
    finally:
        os.close(descriptor)


def mounts_below(directory: Path) -> list[Path]:
    """Where something is mounted below a directory, in this process's mount namespace, innermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = Path(line.split()[4].encode().decode("unicode_escape").encode("latin-1").decode())
        if place.is_relative_to(directory):
            found.append(place)
    return found[::-1]


def unmount_below(directory: Path) -> str | None:
    """Unmount everything below a directory, in this process's mount namespace; returns what went wrong."""
    for place in mounts_below(directory):
        try:
            unmount(place)
        except OSError as error:
            return f"{place} is not unmounted: {error.strerror}"
    return None


def obstacle(filesystem: str) -> str:
    """Why such disks cannot be made here; empty when one was made, mounted, cut and mounted again."""
    try:
        with tempfile.TemporaryDirectory(prefix="nemesis-disk-") as folder:
            image, target = Path(folder, "image"), Path(folder, "mounted")
            target.mkdir()
            make_image(image, filesystem)
            mount_image(image, target, filesystem)
            try:
                cut_power(target)
            finally:
                unmount(target)
            mount_image(image, target, filesystem)
            unmount(target)
    except OSError as error:
        return f"no disk with {filesystem} can be made here: {error.strerror} ({error.filename})"
    return ""


def _shut_down(target: Path, how: int) -> None:
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", how))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _loop_device(image: Path) -> Iterator[str]:
    """A loop device on the image; it is cleared when the last one who has it open, or its mount, is gone."""
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            control = os.open(_LOOP_CONTROL, os.O_RDWR | os.O_CLOEXEC)
            try:
                number = fcntl.ioctl(control, _LOOP_GET_FREE)
            finally:
                os.close(control)
            with _device_node(number, image.parent) as path:
                device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    try:
                        fcntl.ioctl(device, _LOOP_SET_FD, backing)
                    except OSError as error:
                        if error.errno == errno.EBUSY:  # somebody else was quicker
                            continue
                        raise
                    _set_autoclear(device, image)
                    yield path
                    return
                finally:
                    os.close(device)
        raise OSError(errno.EBUSY, "no loop device becomes free", _LOOP_CONTROL)
    finally:
        os.close(backing)


def _set_autoclear(device: int, image: Path) -> None:
    name = os.fsencode(image)[-63:]
    try:
        fcntl.ioctl(
            device, _LOOP_SET_STATUS64, _LOOP_INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, _AUTOCLEAR, name, b"", b"", 0, 0)
        )
    except OSError:
        fcntl.ioctl(device, _LOOP_CLR_FD)
        raise


@contextlib.contextmanager
def _device_node(number: int, folder: Path) -> Iterator[str]:
    """The device's node in /dev, or one of our own where nobody made it (no udev)."""
    usual = f"/dev/loop{number}"
    if os.path.exists(usual):
        yield usual
        return
    own = folder / f".loop{number}"
    own.unlink(missing_ok=True)
    os.mknod(own, stat.S_IFBLK | 0o600, os.makedev(_LOOP_MAJOR, number))
    try:
        yield str(own)
    finally:
        own.unlink()


def _call(name: str, target: Path, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", str(target))
