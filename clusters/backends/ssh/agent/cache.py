"""Files that runs share, by their content: ``<data>/cache/<SHA-256>``, a file, or the tree of a tar archive with that checksum.

What is there was whole and had its checksum when it came, and is checked again before each run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile

_NAME = re.compile(r"[0-9a-f]{64}")
_SUMS = ".sums"
_BLOCK_BYTES = 1 << 20


class CacheError(Exception):
    """A copy that did not arrive whole, or an archive that holds something else than files and directories."""


class Cache:
    """The directory ``top``. One agent at a time."""

    def __init__(self, top: str) -> None:
        self._top = top
        os.makedirs(top, exist_ok=True)

    def place(self, name: str) -> str:
        """Where the content with this checksum lies."""
        if not _NAME.fullmatch(name):
            raise CacheError(f"{name!r} is no checksum")
        return os.path.join(self._top, name)

    def missing(self, names: list[str]) -> list[str]:
        """Those that are not here, or not any more as they came; what is left of them is removed."""
        wanted = []
        for name in names:
            if not self._whole(name):
                self._forget(name)
                wanted.append(name)
        return wanted

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write a piece of content that is being brought; the first piece is at 0."""
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if offset == 0 else 0)
        descriptor = os.open(self.place(name) + ".part", flags, 0o444)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], offset + written)
        finally:
            os.close(descriptor)

    def commit(self, name: str, tree: bool) -> None:
        """Take what was written under its name, unpacked when it is a tree. Raises CacheError when its checksum is another one."""
        place = self.place(name)
        part = place + ".part"
        if _checksum(part) != name:
            os.unlink(part)
            raise CacheError(f"what arrived is not {name}")
        sums = {"": name}
        if tree:
            fresh = place + ".tree"
            shutil.rmtree(fresh, ignore_errors=True)
            sums = _unpack(part, fresh)
            os.rename(fresh, place)
            os.unlink(part)
        else:
            os.rename(part, place)
        with open(place + _SUMS, "w", encoding="utf-8") as told:
            json.dump(sums, told)

    def _whole(self, name: str) -> bool:
        place = self.place(name)
        try:
            with open(place + _SUMS, encoding="utf-8") as told:
                sums = json.load(told)
            return all(_checksum(os.path.join(place, each) if each else place) == told for each, told in sums.items())
        except (OSError, ValueError):
            return False

    def _forget(self, name: str) -> None:
        place = self.place(name)
        for path in (place + _SUMS, place):
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)


def _checksum(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            block = file.read(_BLOCK_BYTES)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def _unpack(archive: str, target: str) -> dict[str, str]:
    """Unpack an archive of ours; returns path → checksum of its files."""
    sums = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = member.name.split("/")
            if any(part in ("", ".", "..") for part in parts) or not (member.isfile() or member.isdir()):
                raise CacheError(f"the archive holds {member.name!r}")
            path = os.path.join(target, *parts)
            if member.isdir():
                os.makedirs(path, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None
            with content, open(path, "wb") as file:
                shutil.copyfileobj(content, file, _BLOCK_BYTES)
            os.chmod(path, 0o555 if member.mode & 0o100 else 0o444)
            sums[member.name] = _checksum(path)
    return sums
