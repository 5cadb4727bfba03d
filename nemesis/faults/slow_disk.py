"""A disk that is slow: each write and each sync of the running node takes longer, by a preloaded library."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from clusters.backends.shim.disk import NAME, Delays, DiskShim
from clusters.shared import Sharing
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.process import TOGETHER, aim_by_role, start_all
from nemesis.faults.schedule import PlannedFault
from workloads.problem import Problem


def _shim(field: Field) -> tuple[DiskShim, Sharing]:
    shim, cluster = field.shims.get(NAME), field.cluster
    if not isinstance(shim, DiskShim) or not isinstance(cluster, Sharing):
        raise Problem("backend-unable", "The nodes of this run have no disk that can be slow.", usage=True)
    return shim, cluster


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """Each write and sync of the targets is delayed over the hold."""

    targets: str
    delay_ms: float

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Set the delay; the library must have been loaded into the running process."""
        before = [await self._look(field, node) for node in aim.targets]
        await self._delay(field, aim, self.delay_ms)
        missing = [node for node, seen in zip(aim.targets, before, strict=True) if not seen.loaded]
        told = f"the library did not take effect in {', '.join(missing)}" if missing else ""
        return Effect(not missing, told)

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Calls of the node itself must have been delayed, each by what was asked for at least."""
        del since_ns
        seen = [(node, await self._look(field, node)) for node in aim.targets]
        felt = all(
            each.writes + each.syncs > 0 and each.slept_ms >= (each.writes + each.syncs) * self.delay_ms
            for _, each in seen
        )
        told = "; ".join(
            f"{each.writes} writes and {each.syncs} syncs of {node} waited for {each.slept_ms:.0f} ms"
            for node, each in seen
        )
        return Effect(felt, told)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """No delay any more; nodes that gave up are started."""
        await self._delay(field, aim, 0.0)
        for node in aim.targets:
            await asyncio.to_thread(field.nodes.note_crash, node)
        return await start_all(field, aim, TOGETHER)

    async def _delay(self, field: Field, aim: Aim, delay_ms: float) -> None:
        shim, cluster = _shim(field)
        for node in aim.targets:
            await asyncio.to_thread(shim.delay, cluster, field.nodes.specification(node), delay_ms)

    async def _look(self, field: Field, node: str) -> Delays:
        shim, cluster = _shim(field)
        return await asyncio.to_thread(shim.delays, cluster, field.nodes.specification(node))
