"""A wipe at the worst moment: the wiped voter helps those to a majority that never had what it has forgotten (KAFKA-14077, R853-30).

Acknowledged records lie on a majority, the *holders*. A minority, the *laggards*, is cut off while clients write, then all holders are
killed, one of them loses its disk, and that one comes back together with the laggards: as many nodes as a majority, none of which
has the newest acknowledged records. Where a wiped disk is another identity (directory ids, KIP-853) it is no voter any more, and
nobody leads until another holder is back. Where a voter is only its node id, they elect a leader without those records.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from clusters.links import OPEN, groups
from nemesis.faults.disk import wipe_disk
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.partition import change_links
from nemesis.faults.process import LEADER_PATIENCE_S, TOGETHER, kill_all, start_all, start_and_wait
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.targets import turned


@dataclass(frozen=True, slots=True)
class WipeBehindLaggards:
    """The targets of its aim are the holders: first the one that is wiped, then those that stay down until the end of the hold."""

    lag_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The leader and as many followers as make a majority hold what is acknowledged; one of those followers is wiped."""
        known = await field.leader(LEADER_PATIENCE_S)
        if known is None:
            return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
        leader, epoch = known
        voters = field.nodes.voters
        followers = turned([voter for voter in voters if voter != leader], planned.draw)
        holders = followers[: len(voters) // 2]
        if not holders:
            return f"a quorum of {len(voters)} has no follower to wipe"
        targets = (*holders, leader)
        claim = Claim(frozenset(targets), frozenset(voters), frozenset(holders[:1]))
        return Aim(targets, leader, epoch, claim=claim)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Let the laggards lag, kill the holders, wipe one, bring that one and the laggards together."""
        wiped, *others = aim.targets
        laggards = [voter for voter in field.nodes.voters if voter not in aim.targets]
        cut = await change_links(field, aim.lane, groups(laggards, (*aim.targets, *field.nodes.observers)))
        await asyncio.sleep(self.lag_ms / 1000)
        killed = await kill_all(field, aim.targets)
        emptied = await asyncio.to_thread(wipe_disk, field, aim, wiped)
        opened = await change_links(field, aim.lane, OPEN)
        started = await start_and_wait(field, wiped)
        told = (
            f"{', '.join(laggards)} lagged {self.lag_ms} ms behind; {', '.join(aim.targets)} were killed; {wiped} lost its disk "
            f"({emptied.detail}) and came back, while {', '.join(others)} stayed down"
        )
        steps = (cut, killed, emptied, opened, started)
        wrong = [each.detail for each in steps if not each.verified]
        return Effect(not wrong, "; ".join([told, *wrong]))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The other holders must still be down."""
        del since_ns
        alive = [node for node in aim.targets[1:] if await field.alive(node)]
        return Effect(not alive, f"{', '.join(alive)} did not stay down" if alive else "they stayed down")

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Open what may be cut, and start the holders again."""
        opened = await change_links(field, aim.lane, OPEN)
        started = await start_all(field, aim, TOGETHER)
        return Effect(opened.verified and started.verified, "; ".join([opened.detail, started.detail]))
