"""Partitions: changes of the link matrix, verified by datagrams sent at the source and awaited at the destination."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from clusters.links import OPEN, Links, Pair
from nemesis.faults.fault import Aim, Effect, Rest
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.shapes import Cut, isolation, shape
from nemesis.faults.targets import chosen, needs_leader

_LEADER_PATIENCE_S = 6.0
_CYCLES_LEAST = 3


async def _aim_around_leader(
    field: Field, cut_of: Callable[[str | None], Cut | str], *, with_leader: bool
) -> tuple[Cut, str | None, int | None] | str:
    known = await field.leader(_LEADER_PATIENCE_S) if with_leader else field.watch.current_leader()
    if known is None and with_leader:
        return f"nobody led within {_LEADER_PATIENCE_S:.0f} s"
    leader, epoch = known or (None, None)
    cut = cut_of(leader)
    return cut if isinstance(cut, str) else (cut, leader, epoch)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a named shape (see :mod:`nemesis.faults.shapes`), or of the targets from everybody else."""

    targets: str | None = None
    direction: str = "both"

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """Ask who leads, and shape the cut around it."""
        nodes = field.nodes

        def cut_of(leader: str | None) -> Cut | str:
            if self.targets is None:
                return shape(planned.fault, leader or "", nodes.voters, nodes.observers, planned.draw)
            side = chosen(self.targets, leader, nodes.voters, nodes.observers, planned.draw)
            if not side or len(side) == len(nodes.names):
                return f"{self.targets} against all others is no partition of {len(nodes.names)} nodes"
            return isolation(side, nodes.voters, nodes.observers, self.direction)

        found = await _aim_around_leader(field, cut_of, with_leader=self.targets is None or needs_leader(self.targets))
        if isinstance(found, str):
            return found
        cut, leader, epoch = found
        return Aim(cut.targets, leader, epoch, cut.links, cut.isolated, Claim(out_of_service=frozenset(cut.isolated)))

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Make the matrix; a partition that is in force in this lane is replaced in one step."""
        return await change_links(field, aim.lane, aim.links)

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Probe the matrix again."""
        del since_ns
        async with field.in_force.matrix:
            return await _matches(field, aim.links)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Open every link that no other fault cuts."""
        return await change_links(field, aim.lane, OPEN)


@dataclass(frozen=True, slots=True)
class Flapping:
    """Cut and open in turns. Its row names no links and isolates nobody: no moment of it lasts long enough for a rule of isolations."""

    targets: str
    cut_ms: int
    open_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """Fix who is cut off, every time the same."""
        nodes = field.nodes

        def cut_of(leader: str | None) -> Cut | str:
            side = chosen(self.targets, leader, nodes.voters, nodes.observers, planned.draw)
            if not side or len(side) == len(nodes.names):
                return f"{self.targets} against all others is no partition of {len(nodes.names)} nodes"
            return isolation(side, nodes.voters, nodes.observers, "both")

        found = await _aim_around_leader(field, cut_of, with_leader=needs_leader(self.targets))
        if isinstance(found, str):
            return found
        cut, leader, epoch = found
        return Aim(cut.targets, leader, epoch, claim=Claim(out_of_service=frozenset(cut.isolated)))

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """The first cut."""
        return await change_links(field, aim.lane, self._links(field, aim))

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Open, cut, open, … until the hold is over; every change is probed."""
        links, cycles = self._links(field, aim), 1
        wrong: list[str] = []
        while await rest(self.cut_ms / 1000):
            opened = await change_links(field, aim.lane, OPEN)
            if not await rest(self.open_ms / 1000):
                wrong += [] if opened.verified else [opened.detail]
                break
            closed = await change_links(field, aim.lane, links)
            wrong += [each.detail for each in (opened, closed) if not each.verified]
            cycles += 1
        told = f"{cycles} cuts of {', '.join(aim.targets)}, {self.cut_ms} ms each, {self.open_ms} ms open between"
        return Effect(not wrong and cycles >= _CYCLES_LEAST, "; ".join([told, *wrong[:3]]))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """All of it was seen while it went on."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Open."""
        return await change_links(field, aim.lane, OPEN)

    def _links(self, field: Field, aim: Aim) -> Links:
        return isolation(aim.targets, field.nodes.voters, field.nodes.observers, "both").links


async def change_links(field: Field, lane: str, links: Links) -> Effect:
    """Make what this lane cuts exactly this, leave what others cut, and probe every link."""
    async with field.in_force.matrix:
        everything = field.in_force.cut(lane, links)
        await asyncio.to_thread(field.cluster.cut, everything)
        return await _matches(field, links)


async def _matches(field: Field, links: Links) -> Effect:
    everything = field.in_force.links()
    pairs: list[Pair] = list(permutations(field.nodes.names, 2))
    arrived = await asyncio.to_thread(field.cluster.probe, pairs)
    shaped = field.in_force.shaped()
    wrong = [
        f"{a}>{b}"
        for a, b in pairs
        if arrived[(a, b)] is ((a, b) in everything.cut) and (arrived[(a, b)] or (a, b) not in shaped)
    ]
    if wrong:
        return Effect(False, f"datagrams disagree with the link matrix on {', '.join(wrong)}")
    others = len(everything.cut) - len(links.cut)
    beside = f", {others} more cut by other faults" if others > 0 else ""
    return Effect(
        True, f"{len(links.cut)} of {len(pairs)} links dropped their datagrams, the others delivered them{beside}"
    )
