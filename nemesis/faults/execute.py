"""Carries out a plan of faults: each is recorded with its targets before it acts, and again with what was verified after.

Lanes run side by side, each with one fault in force at a time; what they may not do to the same node or the same quorum together is
asked of :mod:`nemesis.faults.in_force`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nemesis.faults.fault import Acting, Aim, Effect, Fault
from nemesis.faults.field import Field
from nemesis.faults.registry import fault_of
from nemesis.faults.schedule import PlannedFault
from workloads.history.operation import FaultRow

_SLICE_S = 0.05
_REPLACING_PATIENCE_S = 4.0
_ADMISSION_PATIENCE_S = 60.0
"""how long a fault waits for those of other lanes; they hold for seconds"""
_ADMISSION_POLL_S = 0.2


async def execute(
    field: Field,
    plan: Sequence[PlannedFault],
    *,
    began_ns: int,
    stopping: asyncio.Event,
    record: Callable[[FaultRow], None],
    show: Callable[[FaultRow | None], None],
    quorum_preserving: bool = True,
) -> None:
    """Carry out ``plan``, whose times count from ``began_ns``. When ``stopping`` is set the faults in force are healed and the rest is
    recorded as not reached. A fault that is late (nobody led yet) pushes nothing away: the next ones of its lane follow when they can.

    ``quorum_preserving``: a fault waits while it and those in force would together take away the majority of the voters.
    """
    tasks = [
        asyncio.create_task(_Lane(field, stopping, record, show, began_ns, quorum_preserving).run(mine))
        for lane in dict.fromkeys(planned.lane for planned in plan)
        if (mine := [planned for planned in plan if planned.lane == lane])
    ]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


@dataclass(slots=True)
class _Lane:
    field: Field
    stopping: asyncio.Event
    record: Callable[[FaultRow], None]
    show: Callable[[FaultRow | None], None]
    began_ns: int
    preserving: bool
    shift_ns: int = 0
    """how late the lane is"""
    in_force: tuple[Fault, Aim] | None = None
    """a fault that the next one replaces"""
    last: FaultRow | None = None
    """the newest one that ended"""

    async def run(self, plan: Sequence[PlannedFault]) -> None:
        """Carry out the faults of one lane, one after the other."""
        for position, planned in enumerate(plan):
            if not await self._sleep_until(self._due_ns(planned)):
                for missed in plan[position:]:
                    self.record(_row(missed, self._due_ns(missed)))
                break
            await self._one(planned)
        await self._heal_replaced()

    async def _one(self, planned: PlannedFault) -> None:
        row = _row(planned, self._due_ns(planned))
        fault = fault_of(planned)
        aim = await self._aim(fault, planned)
        if isinstance(aim, str):
            now_ns = self.field.now_ns()
            self.record(replace(row, started_ns=now_ns, ended_ns=now_ns, verified=False, detail=aim))
            await self._heal_replaced()
            return
        row = replace(
            row,
            targets=aim.targets,
            links=aim.links.texts(),
            isolated=aim.isolated,
            leader=aim.leader,
            leader_epoch=aim.leader_epoch,
            started_ns=self.field.now_ns(),
        )
        self.record(row)
        self.show(row)
        injected = await fault.inject(self.field, aim)
        # A verified effect held from here on, so the bounds of liveness rules count from here.
        acted_ns = self.field.now_ns()
        row = replace(row, started_ns=acted_ns)
        self.record(replace(row, detail=_told(row.detail, injected)))
        self.shift_ns = max(self.shift_ns, acted_ns - (self.began_ns + planned.at_ns))
        end_ns = acted_ns + planned.hold_ns
        acted = await self._act(fault, aim, end_ns)
        completed = await self._sleep_until(end_ns)
        lasted = await fault.still(self.field, aim, acted_ns)
        ended_ns = self.field.now_ns()
        self.in_force = (fault, aim) if planned.replaced and completed else None
        healed = Effect(True) if self.in_force else await self._heal(fault, aim)
        self.last = replace(
            row,
            ended_ns=ended_ns,
            verified=injected.verified and acted.verified and lasted.verified,
            replaced=self.in_force is not None,
            detail=_told(row.detail, injected, acted, lasted, _of_healing(healed)),
        )
        self.record(self.last)
        self.show(None)

    async def _aim(self, fault: Fault, planned: PlannedFault) -> Aim | str:
        """Fix the targets, and claim them. A partition that replaces another aims at who leads *now*, on the other side of the one in
        force."""
        if self.in_force is not None and self.in_force[1].leader in self.in_force[1].isolated:
            await self.field.leader(_REPLACING_PATIENCE_S, other_than=self.in_force[1].leader)
        deadline = self.field.now_ns() + int(_ADMISSION_PATIENCE_S * 1e9)
        book = self.field.in_force
        while not self.stopping.is_set():
            aim = await fault.aim(self.field, planned)
            if isinstance(aim, str):
                return aim
            obstacle = book.obstacle(planned.lane, aim.claim, self.field.nodes.voters, preserving=self.preserving)
            if obstacle is None:
                book.claim(planned.lane, aim.claim)
                return replace(aim, lane=planned.lane, number=planned.fault_id, draw=planned.draw)
            await self._end_replaced()
            if self.field.now_ns() >= deadline:
                return f"it could not begin within {_ADMISSION_PATIENCE_S:.0f} s: {obstacle}"
            await asyncio.sleep(_ADMISSION_POLL_S)
        return "the run was stopped"

    async def _act(self, fault: Fault, aim: Aim, end_ns: int) -> Effect:
        if not isinstance(fault, Acting):
            return Effect(True)

        async def rest(seconds: float, *, beyond_s: float = 0.0) -> bool:
            last_ns = end_ns + int(beyond_s * 1e9)
            until_ns = min(last_ns, self.field.now_ns() + int(seconds * 1e9))
            return await self._sleep_until(until_ns) and self.field.now_ns() < last_ns

        return await fault.during(self.field, aim, rest)

    async def _heal(self, fault: Fault, aim: Aim) -> Effect:
        healed = await fault.heal(self.field, aim)
        self.field.in_force.release(aim.lane)
        return healed

    async def _end_replaced(self) -> None:
        """The next fault has to wait, so the one in force is not replaced after all: it ends here."""
        if self.in_force is not None and self.last is not None:
            self.last = replace(self.last, replaced=False, ended_ns=self.field.now_ns())
            self.record(self.last)
        await self._heal_replaced()

    async def _heal_replaced(self) -> None:
        if self.in_force is not None:
            await self._heal(*self.in_force)
            self.in_force = None

    def _due_ns(self, planned: PlannedFault) -> int:
        return self.began_ns + planned.at_ns + self.shift_ns

    async def _sleep_until(self, due_ns: int) -> bool:
        """Sleep until ``due_ns``; False as soon as the run is being stopped."""
        while (left_ns := due_ns - self.field.now_ns()) > 0:
            if self.stopping.is_set():
                return False
            await asyncio.sleep(min(_SLICE_S, left_ns / 1e9))
        return not self.stopping.is_set()


def _told(*parts: str | Effect) -> str:
    texts = (part.detail if isinstance(part, Effect) else part for part in parts)
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _of_healing(healed: Effect) -> str:
    return healed.detail if healed.verified else f"not healed: {healed.detail}"


def _row(planned: PlannedFault, due_ns: int) -> FaultRow:
    told = ", ".join(f"{name} = {value}" for name, value in planned.parameters)
    return FaultRow(
        planned.fault_id,
        planned.fault,
        (),
        (),
        due_ns,
        None,
        None,
        None,
        None,
        None,
        replaced=planned.replaced,
        detail=told,
    )
