"""Nodes' disks as file systems of their own, each an image in the node's directory, mounted where the node has its disk.

They are mounted in one mount namespace, by one thread that is in it: the lab's (then nobody else sees them, and they end with the
lab, however it ends), or this process's own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from clusters.backends import files, loop_disk
from clusters.cluster import NodeSpec
from clusters.disks import PowerCut
from workloads.problem import Problem

P = ParamSpec("P")
T = TypeVar("T")

FOLDER = "disk"
"""in a node's directory: the images"""
_CLONE_FS, _CLONE_NEWNS = 0x200, 0x0002_0000
_FILLER, _CANARY = ".nemesis-filler", ".nemesis-unsynced"
_CANARY_BYTES = 1 << 16
_FILL_MOST_BYTES, _FILL_LEAST_BYTES = 64 << 20, 4096
_LOG = ".log"

_libc = ctypes.CDLL(None, use_errno=True)


class Room:
    """One thread in a mount namespace: ``pid``'s, or this process's own. Calls are carried out one after the other."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid
        self._thread = ThreadPoolExecutor(1, "disks", self._enter)

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something there, and wait for it."""
        return self._thread.submit(work, *args, **kwargs).result()

    def close(self) -> None:
        """Leave; a namespace that nobody else is in is gone then, and what is mounted in it."""
        self._thread.shutdown()

    def _enter(self) -> None:
        if self._pid is None:
            return
        namespace = os.open(f"/proc/{self._pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # A thread can change its mount namespace only when it shares root and working directory with no other.
            if _libc.unshare(_CLONE_FS) or _libc.setns(namespace, _CLONE_NEWNS):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), f"/proc/{self._pid}/ns/mnt")
        finally:
            os.close(namespace)


@dataclass(slots=True)
class _State:
    mounted: bool = False
    broken: str = ""


class ImageDisks:
    """The disks of a cluster's nodes. ``filesystem`` is one of :data:`.loop_disk.FILESYSTEMS`. Safe to call from any thread."""

    def __init__(self, nodes: Sequence[NodeSpec], filesystem: str, room: Room) -> None:
        self._directories = {node.name: node.directory.absolute() for node in nodes}
        self._states = {node.name: _State() for node in nodes}
        self._filesystem = filesystem
        self._room = room

    def place(self, node: str) -> None:
        """Make an image, mount it at ``data``, and bring there what the controller has formatted in ``data``."""
        self._do(self._place, node)

    def wipe(self, node: str, aside: str) -> None:
        """Unmount, and put the image aside; an empty directory says so."""
        self._do(self._put_aside, node, aside)

    def put_back(self, node: str, aside: str) -> None:
        """Mount the image that was put aside under this name; there must be no other disk."""
        self._do(self._take_back, node, aside)

    def fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        """Copy evidence; see :func:`clusters.backends.files.copy_matching`. A disk that fails is given its power back before."""
        self._do(self._fetch, node, patterns, target.absolute())

    def cut_power(self, node: str, torn: float | None) -> PowerCut:
        """See :class:`clusters.disks.Disks`."""
        return self._do(self._cut_power, node, torn)

    def break_disk(self, node: str, how: str) -> str:
        """See :class:`clusters.disks.Disks`; on xfs not ``read-only``. Raises Problem ``disk-unable``."""
        if how not in ("full", "failing") and (how, self._filesystem) != ("read-only", "ext4"):
            raise Problem(
                "disk-unable",
                f"A disk with {self._filesystem} on a loop device cannot be made {how}.",
                "Run it with --filesystem ext4.",
                usage=True,
            )
        return self._do(self._break, node, how)

    def mend_disk(self, node: str) -> None:
        """See :class:`clusters.disks.Disks`."""
        self._do(self._mend, node)

    def close(self) -> None:
        """Unmount everything and remove the images: what is evidence has been copied."""
        for node, state in self._states.items():
            if state.mounted:
                with suppress(OSError):
                    self._room.run(loop_disk.unmount, self._data(node))
                state.mounted = False
            shutil.rmtree(self._directories[node] / FOLDER, ignore_errors=True)
        self._room.close()

    def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._room.run(work, *args, **kwargs)
        except OSError as error:
            raise Problem(
                "disk-not-made",
                f"The disk of {args[0]} cannot be handled: {error.strerror} ({error.filename}).",
                "`nemesis list faults` says what this machine can do; --filesystem names another kind of disk.",
            ) from error

    def _data(self, node: str) -> Path:
        return self._directories[node] / "data"

    def _image(self, node: str, name: str = "data") -> Path:
        return self._directories[node] / FOLDER / f"{name}.img"

    def _place(self, node: str) -> None:
        data, formatted = self._data(node), self._directories[node] / FOLDER / "formatted"
        formatted.parent.mkdir(exist_ok=True)
        data.rename(formatted)
        data.mkdir()
        loop_disk.make_image(self._image(node), self._filesystem)
        self._mount(node)
        with suppress(FileNotFoundError):
            (data / "lost+found").rmdir()
        shutil.copytree(formatted, data, dirs_exist_ok=True)
        loop_disk.sync(data)
        shutil.rmtree(formatted)

    def _put_aside(self, node: str, aside: str) -> None:
        if self._states[node].broken in ("", "full"):
            # Another mount namespace may hold a copy of the mount: it must not write any more when the image is mounted again.
            loop_disk.sync(self._data(node))
            loop_disk.fail_device(self._data(node))
        self._unmount(node)
        self._image(node).rename(self._image(node, aside))
        self._data(node).rmdir()
        (self._directories[node] / aside).mkdir()

    def _take_back(self, node: str, aside: str) -> None:
        self._image(node, aside).rename(self._image(node))
        (self._directories[node] / aside).rmdir()
        self._data(node).mkdir()
        self._mount(node)

    def _fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        if self._states[node].broken == "failing":
            self._mend(node)
        files.copy_matching(self._data(node), patterns, target)

    def _cut_power(self, node: str, torn: float | None) -> PowerCut:
        data = self._data(node)
        before = contents(data)
        canary = os.urandom(_CANARY_BYTES)
        (data / _CANARY).write_bytes(canary)
        loop_disk.cut_power(data)
        self._unmount(node)
        self._mount(node)
        survived = (data / _CANARY).exists() and (data / _CANARY).read_bytes() == canary
        (data / _CANARY).unlink(missing_ok=True)
        after = contents(data)
        return PowerCut(
            not survived, lost_bytes(before, after), {} if torn is None else tear(data, before, after, torn)
        )

    def _break(self, node: str, how: str) -> str:
        data = self._data(node)
        if how == "full":
            _fill(data / _FILLER)
        elif how == "failing":
            loop_disk.fail_device(data)
        else:
            loop_disk.forbid_writes(data)
        self._states[node].broken = how
        return met(data)

    def _mend(self, node: str) -> None:
        how, self._states[node].broken = self._states[node].broken, ""
        if how == "full":
            (self._data(node) / _FILLER).unlink(missing_ok=True)
        elif how:
            self._unmount(node)
            self._mount(node)

    def _mount(self, node: str) -> None:
        loop_disk.mount_image(self._image(node), self._data(node), self._filesystem)
        self._states[node] = _State(mounted=True)

    def _unmount(self, node: str) -> None:
        if self._states[node].mounted:
            loop_disk.unmount(self._data(node))
            self._states[node] = _State()


def contents(data: Path) -> dict[str, bytes]:
    """Relative path → what is in it, of each regular file, as who reads it now is told (written and not synced included)."""
    found = {}
    for folder, _, names in os.walk(data):
        for name in names:
            path = Path(folder, name)
            if stat.S_ISREG(path.lstat().st_mode):
                found[path.relative_to(data).as_posix()] = path.read_bytes()
    return found


def lost_bytes(before: dict[str, bytes], after: dict[str, bytes]) -> dict[str, int]:
    """File → bytes of ``before``, from the first that is another one in ``after`` to its end; files that lost nothing are not listed."""
    lost = {name: len(data) - _in_common(data, after.get(name, b"")) for name, data in before.items()}
    return {name: count for name, count in sorted(lost.items()) if count}


def tear(data: Path, before: dict[str, bytes], after: dict[str, bytes], draw: float) -> dict[str, int]:
    """Give each log that lost its end a part of it back, of a drawn length: what a write in flight may leave. File → bytes."""
    torn = {}
    for name, written in before.items():
        durable = after.get(name)
        if not name.endswith(_LOG) or durable is None:
            continue
        common = _in_common(written, durable)
        missing = len(written) - common
        if missing == 0 or durable[common:].strip(b"\0"):
            continue  # nothing is missing, or what is there is no beginning of what was written
        length = 1 + int(draw * (missing - 1))
        with (data / name).open("r+b") as file:
            file.truncate(common)  # a file may have grown before its blocks were written: they are zeros then
            file.seek(common)
            file.write(written[common : common + length])
            file.flush()
            os.fsync(file.fileno())
        torn[name] = length
    return torn


def met(data: Path) -> str:
    """The name of the error that a synced write of two blocks to a new file meets; ``""`` when it succeeds."""
    probe = data / f"{_CANARY}-probe"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, bytes(8192))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    finally:
        with suppress(OSError):
            probe.unlink()
    return ""


def _fill(filler: Path) -> None:
    """Take every block that is free, in steps that become smaller."""
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end, step = 0, _FILL_MOST_BYTES
        while step >= _FILL_LEAST_BYTES:
            try:
                os.posix_fallocate(descriptor, end, step)
                end += step
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
    finally:
        os.close(descriptor)


def _in_common(one: bytes, other: bytes) -> int:
    """How many bytes they begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
