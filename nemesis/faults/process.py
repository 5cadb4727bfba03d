"""Faults of a node's process: kill -9, pause and resume, stop and start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.schedule import PlannedFault

LEADER_PATIENCE_S = 6.0
_ANSWER_PATIENCE_S = 25.0
_SETTLED_NS = 400_000_000


async def aim_by_role(field: Field, role: str, draw: float) -> Aim | str:
    """Aim at the leader, or at one of the voters that follow it."""
    known = await field.leader(LEADER_PATIENCE_S)
    if known is None:
        return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
    leader, epoch = known
    if role == "leader":
        return Aim((leader,), leader, epoch)
    followers = [name for name in field.nodes.voters if name != leader]
    return Aim((followers[int(draw * len(followers))],), leader, epoch)


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9, and a start on the same disk at the end of the hold."""

    role: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The node that has the role now."""
        return await aim_by_role(field, self.role, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill; that the process has ended is what proves it."""
        (node,) = aim.targets
        was_alive = await asyncio.to_thread(field.nodes.kill, node)
        return Effect(was_alive, "the process ended" if was_alive else f"{node} had ended by itself before")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The node must still be down."""
        del since_ns
        return stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the node on its disk and wait until it answers."""
        (node,) = aim.targets
        return await start_and_wait(field, node)


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT at the end of the hold."""

    role: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The node that has the role now."""
        return await aim_by_role(field, self.role, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Pause; its silence over the hold is what proves it."""
        (node,) = aim.targets
        alive = field.cluster.alive(node)
        await asyncio.to_thread(field.nodes.pause, node)
        return Effect(alive, "SIGSTOP was sent")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """A paused node has answered no sample since it was paused (but for one already on its way)."""
        (node,) = aim.targets
        last = field.watch.last_answer_ns(node) or 0
        silent = last < since_ns + _SETTLED_NS
        return Effect(silent, "it answered nothing while paused" if silent else f"{node} answered while it was paused")

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Resume and wait until it answers again."""
        (node,) = aim.targets
        since_ns = field.now_ns()
        await asyncio.to_thread(field.nodes.resume, node)
        return Effect(await field.answers(node, since_ns, _ANSWER_PATIENCE_S), "it answered again")


@dataclass(frozen=True, slots=True)
class Restart:
    """SIGTERM, and a start at the end of the hold: one node after the other, in order."""

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The next node in order, whoever leads."""
        known = field.watch.current_leader()
        leader, epoch = known if known else (None, None)
        names = field.nodes.names
        return Aim((names[planned.fault_id % len(names)],), leader, epoch)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Stop; a node that does not end in time is killed, which is said."""
        (node,) = aim.targets
        graceful = await asyncio.to_thread(field.nodes.stop, node, field.stop_patience_s)
        ended = not field.cluster.alive(node)
        return Effect(ended, "it stopped" if graceful else "it did not stop in time and was killed")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The node must still be down."""
        del since_ns
        return stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the node and wait until it answers."""
        (node,) = aim.targets
        return await start_and_wait(field, node)


def stayed_down(field: Field, aim: Aim) -> Effect:
    """Whether the one target has no process."""
    (node,) = aim.targets
    return Effect(not field.cluster.alive(node), "the node stayed down")


async def start_and_wait(field: Field, node: str) -> Effect:
    """Start a node that is down (nothing to do for one that runs) and wait until it answers."""
    since_ns = field.now_ns()
    if node in field.nodes.down():
        await asyncio.to_thread(field.nodes.start, node)
    answered = await field.answers(node, since_ns, _ANSWER_PATIENCE_S)
    return Effect(answered, f"incarnation {field.nodes.incarnation(node)} answered")
