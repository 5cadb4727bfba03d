"""Faults of disks that a node is using: a power cut, a disk that fails under the running node, another disk for a while."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from clusters.disks import Disks, PowerCut, no_such_disks
from nemesis.faults.damage import checksums
from nemesis.faults.disk import has_log
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.process import TOGETHER, Restarts, aim_by_role, kill_all, start_all, start_and_wait, stayed_down
from nemesis.faults.schedule import PlannedFault

_KEPT_RUNNING = frozenset({"full"})
"""what can be mended under a node that goes on"""
_ERRORS = {"full": "ENOSPC", "read-only": "EROFS", "failing": "EIO"}


def _disks(field: Field) -> Disks:
    if not isinstance(field.cluster, Disks):
        raise no_such_disks()
    return field.cluster


@dataclass(frozen=True, slots=True)
class CutPower:
    """kill -9 and the disk's power, and a start at the end of the hold."""

    targets: str
    torn: bool = False
    restarts: Restarts = TOGETHER

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now. Their disks are not damaged: whatever a candidate had to sync must be there."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """All processes end at once, then each disk loses what was not synced; nobody syncs in between."""
        killed = await kill_all(field, aim.targets)
        draw = aim.draw if self.torn else None
        cuts = [(node, await asyncio.to_thread(field.nodes.cut_power, node, draw)) for node in aim.targets]
        happened = all(cut.happened for _, cut in cuts)
        told = "; ".join(f"{node}: {_told(cut, torn=self.torn)}" for node, cut in cuts)
        return Effect(killed.verified and happened, f"{killed.detail}; power cut on {_disks(field).disk_kind}; {told}")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The nodes must still be down."""
        del since_ns
        return await stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes; one that refuses its disk says why in its output."""
        return await start_all(field, aim, self.restarts)


def _told(cut: PowerCut, *, torn: bool) -> str:
    if not cut.happened:
        return "what was not synced is still there"
    lost = ", ".join(f"{count} of {name}" for name, count in cut.lost.items())
    told = f"{sum(cut.lost.values())} bytes of the node were lost" + (f" ({lost})" if lost else "")
    if torn:
        parts = ", ".join(f"{count} bytes of {name}" for name, count in cut.torn.items())
        told += f", torn writes left {parts}" if parts else ", no write to the log was in flight to be torn"
    return told


@dataclass(frozen=True, slots=True)
class BreakDisk:
    """The disk fails under the running node, in one of the ways of :data:`clusters.disks.BREAKAGES`."""

    targets: str
    how: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Break it, and write to it."""
        alive = [await field.alive(node) for node in aim.targets]
        for node in aim.targets:
            field.nodes.deprive(node, f"its disk is {self.how}")
        met = [await asyncio.to_thread(_disks(field).break_disk, node, self.how) for node in aim.targets]
        told = "; ".join(
            f"a write to the disk of {node} met {what or 'no error'}"
            for node, what in zip(aim.targets, met, strict=True)
        )
        return Effect(all(alive) and all(what == _ERRORS[self.how] for what in met), told)

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """A node may have ended, as Kafka does when its log cannot be written, or go on: that is its affair, and told."""
        del since_ns
        return Effect(True, "; ".join([await self._became(field, node) for node in aim.targets]))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Mend the disk, under a node that goes on only where that is possible, and let the nodes run on it."""
        for node in aim.targets:
            await asyncio.to_thread(field.nodes.note_crash, node)
            if self.how not in _KEPT_RUNNING and node not in field.nodes.down():
                await asyncio.to_thread(field.nodes.kill, node)
            await asyncio.to_thread(_disks(field).mend_disk, node)
        return await start_all(field, aim, TOGETHER)

    async def _became(self, field: Field, node: str) -> str:
        status = await asyncio.to_thread(field.cluster.exit_status, node)
        return f"{node} went on" if status is None else f"{node} ended by itself with status {status}"


@dataclass(frozen=True, slots=True)
class SwapDisk:
    """An empty disk under the node while the fault holds, then the old one again."""

    targets: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now; on a static quorum a voter whose disk is empty has forgotten what it promised."""
        return await aim_by_role(field, self.targets, planned.draw, damaged=True)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill, swap, start; the node must answer on the empty disk."""
        killed = await kill_all(field, aim.targets)
        swapped = [await asyncio.to_thread(self._swap, field, aim, node) for node in aim.targets]
        started = await asyncio.gather(*(start_and_wait(field, node) for node in aim.targets))
        steps = [killed, *swapped, *started]
        return Effect(all(each.verified for each in steps), "; ".join(each.detail for each in steps))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Kill, and put the old disk back; it must be as it was."""
        del since_ns
        await kill_all(field, aim.targets)
        back = [await asyncio.to_thread(self._swap_back, field, aim, node) for node in aim.targets]
        return Effect(all(each.verified for each in back), "; ".join(each.detail for each in back))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes on their old disks."""
        return await start_all(field, aim, TOGETHER)

    def _swap(self, field: Field, aim: Aim, node: str) -> Effect:
        field.nodes.copy_disk(node, self._copy(field, aim, node))
        old, new = field.nodes.swap_disk(node)
        if has_log(field, aim, node):
            return Effect(False, f"{node} still has a log on its disk")
        return Effect(True, f"directory id {old} was taken out, the empty disk has {new}")

    def _swap_back(self, field: Field, aim: Aim, node: str) -> Effect:
        copy = self._copy(field, aim, node)
        seen = copy.with_suffix(".seen")
        field.nodes.swap_back(node)
        field.nodes.copy_disk(node, seen)
        as_it_was = checksums(seen) == checksums(copy)
        for folder in (seen, copy):
            shutil.rmtree(folder)
        told = f"{node} has the disk {field.nodes.identities()[node][0]} again"
        return Effect(as_it_was, told if as_it_was else f"{told}, and it is not as it was")

    def _copy(self, field: Field, aim: Aim, node: str) -> Path:
        return field.nodes.folder(node) / f"taken-out-{aim.number}"
