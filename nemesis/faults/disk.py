"""A disk wipe, as architecture.md tells it: the node comes back on an empty formatted disk, as another identity (R853-30)."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass

from nemesis.faults.damage import find_file
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.membership import restore_voters
from nemesis.faults.process import TOGETHER, Restarts, aim_by_role, kill_all, start_all, stayed_down
from nemesis.faults.schedule import PlannedFault


@dataclass(frozen=True, slots=True)
class Wipe:
    """Kill, move the disks aside, format empty ones; a start at the end of the hold."""

    targets: str
    restarts: Restarts = TOGETHER
    procedure: str = "none"
    """``operator``: remove the old identity from the voters and add the new one (KIP-853)"""

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw, damaged=True)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill and wipe; a disk without a log is what proves it."""
        killed = await kill_all(field, aim.targets)
        wiped = await asyncio.gather(*(asyncio.to_thread(wipe_disk, field, aim, node) for node in aim.targets))
        return Effect(killed.verified and all(each.verified for each in wiped), "; ".join(w.detail for w in wiped))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The nodes must still be down."""
        del since_ns
        return await stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes on their empty disks and wait until they answer; then, where that is asked for, the operator's procedure."""
        started = await start_all(field, aim, self.restarts)
        if self.procedure == "none" or not started.verified:
            return started
        return await restore_voters(field)


def wipe_disk(field: Field, aim: Aim, node: str) -> Effect:
    """Wipe the disk of a node that is down; whether it has another identity then is the candidate's affair, and told. Blocks."""
    old, new = field.nodes.wipe(node)
    if has_log(field, aim, node):
        return Effect(False, f"{node} still has a log on its disk")
    return Effect(True, f"directory id {old} was moved aside, the empty disk has {new}")


def has_log(field: Field, aim: Aim, node: str) -> bool:
    """Whether there is a segment of a log on the disk of a node that is down. Blocks."""
    seen = field.nodes.folder(node) / f"empty-disk-{aim.number}.seen"
    field.nodes.copy_disk(node, seen)
    found = find_file(seen, field.nodes.disk_files, "segment")
    shutil.rmtree(seen)
    return found is not None
