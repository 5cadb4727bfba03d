"""Faults that start a node under another release of the candidate: rolling upgrades, downgrades."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.process import Restart, Restarts, aim_by_role, start_all
from nemesis.faults.schedule import PlannedFault
from nemesis.life.releases import FIRST, OTHER


@dataclass(frozen=True, slots=True)
class RestartUnder:
    """SIGTERM, and a start under another release at the end of the hold.

    Without targets it takes one node after the other, in order of node id, to the other release; after the last one, with
    ``downgrade``, a node that is drawn goes back to the first release, then up again, and so on.
    """

    targets: str | None
    release: str
    restarts: Restarts
    downgrade: bool = False

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now, or the next one in order."""
        if self.targets is not None:
            return await aim_by_role(field, self.targets, planned.draw)
        nodes = field.nodes
        remaining = [node for node in nodes.names if nodes.release(node) == FIRST]
        if remaining or not self.downgrade:
            return await aim_by_role(field, (remaining or nodes.names)[0], planned.draw)
        return await aim_by_role(field, nodes.names[int(planned.draw * len(nodes.names))], planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Stop, and choose the release of the next start."""
        wanted = {node: self._wanted(field, node) for node in aim.targets}
        stopped = await Restart(None).inject(field, aim)
        for node, release in wanted.items():
            await asyncio.to_thread(field.nodes.move, node, release)
        return stopped

    def _wanted(self, field: Field, node: str) -> str:
        if self.targets is not None:
            return self.release
        return FIRST if self.downgrade and field.nodes.release(node) == OTHER else OTHER

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The nodes must still be down."""
        return await Restart(None).still(field, aim, since_ns)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes under their release and wait until they answer."""
        started = await start_all(field, aim, self.restarts)
        told = ", ".join(f"{node} under {field.nodes.version(node)}" for node in aim.targets)
        return Effect(started.verified, f"{told}: {started.detail}")
