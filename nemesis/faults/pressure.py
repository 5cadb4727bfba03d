"""Faults that take CPU or memory away from a node that goes on running. Only backends that are :class:`clusters.pressure.Pressing` can."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from clusters.pressure import Pressing
from nemesis.faults.fault import Aim, Effect, Rest
from nemesis.faults.field import Field
from nemesis.faults.process import aim_by_role, start_and_wait
from nemesis.faults.schedule import PlannedFault
from workloads.problem import Problem

_BURNERS_LIMIT_S = 600.0
"""what is left of burners when the controller cannot end them ends by itself"""
_LOOK_S = 0.2
_WAITED_LEAST_S = 0.05
_WAITED_SHARE = 0.5
"""of the time in which the node was runnable; with eight burners a thread that computes waits for 8/9 of it"""
_MIB = 1 << 20


def _pressing(field: Field) -> Pressing:
    if not isinstance(field.cluster, Pressing):
        raise Problem("backend-unable", "This backend cannot take CPU or memory away from a node.", usage=True)
    return field.cluster


@dataclass(frozen=True, slots=True)
class CpuPressure:
    """Burners beside the node on one CPU, over the hold."""

    targets: str
    burners: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw, out_of_service=False)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Pin and start; what the node feels of it is measured over the hold."""
        cluster = _pressing(field)
        moved = [
            await asyncio.to_thread(cluster.press_cpu, node, self.burners, _BURNERS_LIMIT_S) for node in aim.targets
        ]
        return Effect(all(moved), f"{sum(moved)} threads share one CPU with {self.burners} burners")

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Measure each target's run-queue delay from here to the end of the hold."""
        before = {node: await asyncio.to_thread(field.cluster.cpu, node) for node in aim.targets}
        while await rest(_LOOK_S):
            pass
        told, felt = [], []
        for node, first in before.items():
            last = await asyncio.to_thread(field.cluster.cpu, node)
            if first is None or last is None:
                felt.append(False)
                told.append(f"{node} had no process to measure")
                continue
            waited_s, ran_s = last.waiting_s - first.waiting_s, last.running_s - first.running_s
            felt.append(waited_s >= _WAITED_LEAST_S and waited_s >= _WAITED_SHARE * (waited_s + ran_s))
            told.append(
                f"{node} was runnable for {waited_s + ran_s:.2f} s, of which it waited {waited_s:.2f} s for the CPU"
            )
        return Effect(all(felt), "; ".join(told))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """What was measured is all."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """End the burners; a node that ended meanwhile is started."""
        cluster = _pressing(field)
        for node in aim.targets:
            await asyncio.to_thread(cluster.release_cpu, node)
        healed = await asyncio.gather(*(start_and_wait(field, node) for node in aim.targets))
        return Effect(all(each.verified for each in healed), "; ".join(each.detail for each in healed))


@dataclass(frozen=True, slots=True)
class MemoryPressure:
    """A limit of the address space, just above what the node has."""

    targets: str
    headroom_mib: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Set the limit; the kernel's own answer is what proves it."""
        cluster = _pressing(field)
        for node in aim.targets:
            field.nodes.deprive(node, f"no more than {self.headroom_mib} MiB of memory to spare")
        limits = [await asyncio.to_thread(cluster.limit_memory, node, self.headroom_mib * _MIB) for node in aim.targets]
        return Effect(
            all(limits), f"no more than {max(limits) / _MIB:.0f} MiB of address space, {self.headroom_mib} MiB to spare"
        )

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Whether the node lives is told: it may end, and that is the fault's doing."""
        del since_ns
        ended = [node for node in aim.targets if not await field.alive(node)]
        return Effect(True, f"{', '.join(ended)} ended without memory" if ended else "it lived on with what it had")

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Lift the limit; a node that ended is started on its disk."""
        cluster = _pressing(field)
        for node in aim.targets:
            await asyncio.to_thread(cluster.free_memory, node)
        await asyncio.gather(*(asyncio.to_thread(field.nodes.note_crash, node) for node in aim.targets))
        healed = await asyncio.gather(*(start_and_wait(field, node) for node in aim.targets))
        return Effect(all(each.verified for each in healed), "; ".join(each.detail for each in healed))
