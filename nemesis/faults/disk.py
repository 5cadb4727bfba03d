"""A disk wipe, as architecture.md tells it: the node comes back on an empty formatted disk, as another identity (R853-30)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.process import aim_by_role, start_and_wait, stayed_down
from nemesis.faults.schedule import PlannedFault


@dataclass(frozen=True, slots=True)
class Wipe:
    """Kill, move the disk aside, format an empty one; a start at the end of the hold."""

    role: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The node that has the role now."""
        return await aim_by_role(field, self.role, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill and wipe; an empty disk under another directory than before is what proves it."""
        (node,) = aim.targets
        was_alive = await asyncio.to_thread(field.nodes.kill, node, "kill")
        old, new = await asyncio.to_thread(field.nodes.wipe, node)
        return Effect(was_alive, f"directory id {old} was moved aside, the empty disk has {new}")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The node must still be down."""
        del since_ns
        return stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the node on its empty disk and wait until it answers."""
        (node,) = aim.targets
        return await start_and_wait(field, node)
