"""Faults of nodes' processes: kill -9, pause and resume, stop and start, crash loops."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nemesis.faults.fault import Aim, Effect, Rest
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.targets import chosen, needs_leader, shuffled

LEADER_PATIENCE_S = 6.0
_ANSWER_PATIENCE_S = 25.0
_SETTLED_NS = 400_000_000
_CRASHES_LEAST = 3
_CRASHES_PATIENCE_S = 20.0
"""how long after the hold the last of these crashes are waited for: to start a process may take longer than to crash it"""


async def aim_by_role(
    field: Field, role: str, draw: float, *, out_of_service: bool = True, damaged: bool = False
) -> Aim | str:
    """Aim at the nodes that have a role now, whose processes the fault will handle."""
    known = await field.leader(LEADER_PATIENCE_S) if needs_leader(role) else field.watch.current_leader()
    if known is None and needs_leader(role):
        return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
    leader, epoch = known or (None, None)
    targets = chosen(role, leader, field.nodes.voters, field.nodes.observers, draw)
    if not targets:
        return f"there is no {role} here"
    taken = frozenset(targets)
    claim = Claim(taken, taken if out_of_service else frozenset(), taken if damaged else frozenset())
    return Aim(targets, leader, epoch, claim=claim)


@dataclass(frozen=True, slots=True)
class Restarts:
    """How nodes that are down are started again."""

    order: str = "shuffled"
    stagger_ms: int = 200


TOGETHER = Restarts("together", 0)


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9, and a start on the same disk at the end of the hold."""

    targets: str
    restarts: Restarts = TOGETHER

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Kill all at once; that the processes have ended is what proves it."""
        return await kill_all(field, aim.targets)

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The nodes must still be down."""
        del since_ns
        return await stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes on their disks and wait until they answer."""
        return await start_all(field, aim, self.restarts)


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT at the end of the hold."""

    targets: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Pause; the silence over the hold is what proves it."""
        alive = [await field.alive(node) for node in aim.targets]
        await asyncio.gather(*(asyncio.to_thread(field.nodes.pause, node) for node in aim.targets))
        return Effect(all(alive), "SIGSTOP was sent")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """A paused node has answered no sample since it was paused (but for one already on its way)."""
        spoke = [node for node in aim.targets if (field.watch.last_answer_ns(node) or 0) >= since_ns + _SETTLED_NS]
        if spoke:
            return Effect(False, f"{', '.join(spoke)} answered while paused")
        return Effect(
            True, "it answered nothing while paused" if len(aim.targets) == 1 else "none answered while paused"
        )

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Resume and wait until they answer again."""
        since_ns = field.now_ns()
        await asyncio.gather(*(asyncio.to_thread(field.nodes.resume, node) for node in aim.targets))
        answered = await asyncio.gather(*(field.answers(node, since_ns, _ANSWER_PATIENCE_S) for node in aim.targets))
        return Effect(all(answered), "it answered again")


@dataclass(frozen=True, slots=True)
class Restart:
    """SIGTERM, and a start at the end of the hold; without targets one node after the other, in order."""

    targets: str | None = None
    restarts: Restarts = TOGETHER

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now, or the next one in order, whoever leads."""
        if self.targets is not None:
            return await aim_by_role(field, self.targets, planned.draw)
        names = field.nodes.names
        return await aim_by_role(field, names[planned.turn % len(names)], planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Stop; a node that does not end in time is killed, which is said."""
        graceful = await asyncio.gather(
            *(asyncio.to_thread(field.nodes.stop, node, field.stop_patience_s) for node in aim.targets)
        )
        ended = not any([await field.alive(node) for node in aim.targets])
        return Effect(ended, "it stopped" if all(graceful) else "it did not stop in time and was killed")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The nodes must still be down."""
        del since_ns
        return await stayed_down(field, aim)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Start the nodes and wait until they answer."""
        return await start_all(field, aim, self.restarts)


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """kill -9 as soon as the node has run for a moment, again and again."""

    targets: str
    up_ms: int
    down_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await aim_by_role(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """The first crash."""
        return await kill_all(field, aim.targets)

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Start, kill, start, … for the hold, and for as many crashes as prove a loop. Each crash counts only when a process had begun
        to run before it."""
        crashes = 1

        async def wait(milliseconds: int) -> bool:
            beyond_s = _CRASHES_PATIENCE_S if crashes < _CRASHES_LEAST else 0.0
            return await rest(milliseconds / 1000, beyond_s=beyond_s)

        while await wait(self.down_ms):
            await asyncio.gather(*(asyncio.to_thread(field.nodes.start, node) for node in aim.targets))
            if not await wait(self.up_ms):
                break
            killed = await kill_all(field, aim.targets)
            crashes += killed.verified
        return Effect(crashes >= _CRASHES_LEAST, f"{crashes} crashes of processes that had run for {self.up_ms} ms")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """What was seen while it went on is all."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Let the last incarnation run and wait until it answers."""
        return await start_all(field, aim, TOGETHER)


async def kill_all(field: Field, nodes: tuple[str, ...], reason: str = "kill") -> Effect:
    """kill -9 to all of them at once."""
    alive = await asyncio.gather(*(asyncio.to_thread(field.nodes.kill, node, reason) for node in nodes))
    ended_before = [node for node, was_alive in zip(nodes, alive, strict=True) if not was_alive]
    if ended_before:
        return Effect(False, f"{', '.join(ended_before)} had ended by itself before")
    if survivors := [node for node in nodes if await field.alive(node)]:
        return Effect(False, f"{', '.join(survivors)} outlived kill -9")
    return Effect(True, "the process ended" if len(nodes) == 1 else f"{len(nodes)} processes ended")


async def stayed_down(field: Field, aim: Aim) -> Effect:
    """Whether no target has a process."""
    alive = [node for node in aim.targets if await field.alive(node)]
    if alive:
        return Effect(False, f"{', '.join(alive)} did not stay down")
    return Effect(True, "the node stayed down" if len(aim.targets) == 1 else "all stayed down")


async def start_all(field: Field, aim: Aim, restarts: Restarts) -> Effect:
    """Start the targets that are down, in the order that was asked for, and wait until all answer."""
    order = list(aim.targets)
    if restarts.order == "shuffled":
        order = shuffled(order, aim.draw)
    pause_s = 0.0 if restarts.order == "together" else restarts.stagger_ms / 1000

    async def start_later(position: int, node: str) -> Effect:
        await asyncio.sleep(position * pause_s)
        return await start_and_wait(field, node)

    started = await asyncio.gather(*(start_later(position, node) for position, node in enumerate(order)))
    told = "; ".join(dict.fromkeys(each.detail for each in started))
    if len(order) > 1:
        told = f"started in the order {', '.join(order)}; {told}"
    return Effect(all(each.verified for each in started), told)


async def start_and_wait(field: Field, node: str) -> Effect:
    """Start a node that is down (nothing to do for one that runs) and wait until it answers."""
    since_ns = field.now_ns()
    if node in field.nodes.down():
        await asyncio.to_thread(field.nodes.start, node)
    if await field.answers(node, since_ns, _ANSWER_PATIENCE_S):
        return Effect(True, f"incarnation {field.nodes.incarnation(node)} answered")
    status = await asyncio.to_thread(field.cluster.exit_status, node)
    if status is not None:
        return Effect(False, f"{node} ended by itself with status {status}")
    return Effect(False, f"{node} did not answer within {_ANSWER_PATIENCE_S:.0f} s")
