"""Faults that leave a node a disk with other content than it had written: damaged files, an old copy.

A disk is copied from the node, changed here, and put back in place of the one that is there, so every backend that can copy, wipe and
place disks can do it. What was put back is copied out once more and compared by checksum: that is what verifies the fault.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from clusters.candidates.candidate import DiskFiles
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.process import TOGETHER, aim_by_role, kill_all, start_all, start_and_wait, stayed_down
from nemesis.faults.schedule import PlannedFault


@dataclass(frozen=True, slots=True)
class DamageFile:
    """A file of a stopped node is cut short, or some of its bits are flipped; the node is started at the end of the hold."""

    targets: str
    file: str
    truncate_bytes: int = 0
    flip_bits: int = 0

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw, damaged=True)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill, damage, compare."""
        killed = await kill_all(field, aim.targets)
        damaged = [await asyncio.to_thread(self._damage, field, aim, node) for node in aim.targets]
        return Effect(killed.verified and all(d.verified for d in damaged), "; ".join(d.detail for d in damaged))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The nodes must still be down."""
        del since_ns
        return await stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes; one that refuses its disk is right to do so, and that it did is told."""
        return await start_all(field, aim, TOGETHER)

    def _damage(self, field: Field, aim: Aim, node: str) -> Effect:
        folder = field.nodes.folder(node)
        copy, seen = folder / f"damage-{aim.number}", folder / f"damage-{aim.number}.seen"
        field.nodes.copy_disk(node, copy)
        path = find_file(copy, field.nodes.disk_files, self.file)
        if path is None:
            shutil.rmtree(copy)
            return Effect(False, f"{node} has no {self.file} to damage")
        before = path.read_bytes()
        if self.truncate_bytes:
            after, told = (
                before[: -self.truncate_bytes],
                f"{min(self.truncate_bytes, len(before))} bytes cut off its end",
            )
        else:
            after, places = flipped(before, self.flip_bits, random.Random(f"{aim.draw}/{node}"))
            told = f"bits flipped at bytes {', '.join(map(str, places))}"
        path.write_bytes(after)
        name = path.relative_to(copy)
        # The kind of file comes first: by it the checker knows what the node can still be held to.
        field.nodes.put_disk(node, copy, "damage", f"{self.file} {name}: {told}")
        field.nodes.copy_disk(node, seen)
        there = (seen / name).read_bytes() if (seen / name).is_file() else None
        shutil.rmtree(seen)
        return Effect(
            there == after != before,
            f"{node}/{name}: {told}; {len(before)} bytes, SHA-256 {_short(before)} before, "
            f"{len(after)} bytes, {_short(after)} after",
        )


@dataclass(frozen=True, slots=True)
class RestoreOldDisk:
    """A copy of the disk is taken when the fault begins, and put back when it ends; between the node runs."""

    targets: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw, damaged=True)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill, copy, start."""
        killed = await kill_all(field, aim.targets)
        for node in aim.targets:
            await asyncio.to_thread(field.nodes.copy_disk, node, self._copy(field, aim, node))
        started = await asyncio.gather(*(start_and_wait(field, node) for node in aim.targets))
        copied = sum(len(checksums(self._copy(field, aim, node))) for node in aim.targets)
        ready = killed.verified and copied > 0 and all(each.verified for each in started)
        return Effect(ready, f"{copied} files copied from {', '.join(aim.targets)} while down")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Put the copy back: only now does the fault bite."""
        del since_ns
        await kill_all(field, aim.targets)
        restored = [await asyncio.to_thread(self._restore, field, aim, node) for node in aim.targets]
        return Effect(all(each.verified for each in restored), "; ".join(each.detail for each in restored))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes on their old disks."""
        return await start_all(field, aim, TOGETHER)

    def _restore(self, field: Field, aim: Aim, node: str) -> Effect:
        copy = self._copy(field, aim, node)
        last, seen = copy.with_suffix(".last"), copy.with_suffix(".seen")
        field.nodes.copy_disk(node, last)
        newer, wanted = checksums(last), checksums(copy)
        changed = sorted(name for name in wanted if newer.get(name) != wanted[name])
        field.nodes.put_disk(node, copy, "restore", f"the disk of {aim.number} is back")
        field.nodes.copy_disk(node, seen)
        there = checksums(seen)
        for folder in (last, seen):
            shutil.rmtree(folder)
        return Effect(
            there == wanted and bool(changed),
            f"{node} has the old disk again: {', '.join(changed) or 'nothing'} had changed since",
        )

    def _copy(self, field: Field, aim: Aim, node: str) -> Path:
        return field.nodes.folder(node) / f"old-disk-{aim.number}"


def find_file(disk: Path, files: DiskFiles, kind: str) -> Path | None:
    """The newest file of a kind (``segment``, ``quorum-state``, ``snapshot``) that has content."""
    pattern = files.kinds.get(kind)
    found = sorted(disk.glob(pattern)) if pattern else []
    return next((path for path in reversed(found) if path.is_file() and path.stat().st_size), None)


def flipped(data: bytes, bits: int, chance: random.Random) -> tuple[bytes, list[int]]:
    """``data`` with as many of its bits inverted, each another one, and the places (bytes) of them."""
    changed = bytearray(data)
    places = chance.sample(range(8 * len(data)), min(bits, 8 * len(data)))
    for place in places:
        changed[place // 8] ^= 1 << (place % 8)
    return bytes(changed), sorted(place // 8 for place in places)


def checksums(folder: Path) -> dict[str, str]:
    """Relative path → SHA-256 of every file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
