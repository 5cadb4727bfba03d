"""A disk wipe, as architecture.md tells it: the node comes back on an empty formatted disk, as another identity (R853-30)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

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
        """Kill and wipe; an empty disk under another directory than before is what proves it."""
        killed = await kill_all(field, aim.targets)
        changed = await asyncio.gather(*(asyncio.to_thread(field.nodes.wipe, node) for node in aim.targets))
        told = "; ".join(f"directory id {old} was moved aside, the empty disk has {new}" for old, new in changed)
        return Effect(killed.verified, told)

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
