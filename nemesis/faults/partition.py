"""Partitions: changes of the link matrix, verified by datagrams sent at the source and awaited at the destination."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import permutations

from clusters.links import OPEN, Links, Pair
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.shapes import shape

_LEADER_PATIENCE_S = 6.0


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of one shape (see :mod:`nemesis.faults.shapes`)."""

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """Ask who leads, and shape the cut around it."""
        known = await field.leader(_LEADER_PATIENCE_S)
        if known is None:
            return f"nobody led within {_LEADER_PATIENCE_S:.0f} s"
        leader, epoch = known
        cut = shape(planned.fault, leader, field.nodes.voters, field.nodes.observers, planned.draw)
        return Aim(cut.targets, leader, epoch, cut.links, cut.isolated)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Make the matrix; a partition that is in force is replaced in one step."""
        await asyncio.to_thread(field.cluster.cut, aim.links)
        return await _matches(field, aim.links)

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Probe the matrix again."""
        del since_ns
        return await _matches(field, aim.links)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Open every link."""
        del aim
        await asyncio.to_thread(field.cluster.cut, OPEN)
        return await _matches(field, OPEN)


async def _matches(field: Field, links: Links) -> Effect:
    pairs: list[Pair] = list(permutations(field.nodes.names, 2))
    arrived = await asyncio.to_thread(field.cluster.probe, pairs)
    wrong = [f"{a}>{b}" for a, b in pairs if arrived[(a, b)] is ((a, b) in links.cut)]
    if wrong:
        return Effect(False, f"datagrams disagree with the link matrix on {', '.join(wrong)}")
    return Effect(True, f"{len(links.cut)} of {len(pairs)} links dropped their datagrams, the others delivered them")
