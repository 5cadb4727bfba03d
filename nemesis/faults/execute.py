"""Carries out a plan of faults: each is recorded with its targets before it acts, and again with what was verified after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from nemesis.faults.fault import Aim, Effect, Fault
from nemesis.faults.field import Field
from nemesis.faults.registry import FAULTS
from nemesis.faults.schedule import PlannedFault
from workloads.history.operation import FaultRow

_SLICE_S = 0.05
_REPLACING_PATIENCE_S = 4.0


async def execute(
    field: Field,
    plan: Sequence[PlannedFault],
    *,
    began_ns: int,
    stopping: asyncio.Event,
    record: Callable[[FaultRow], None],
    show: Callable[[FaultRow | None], None],
) -> None:
    """Carry out ``plan``, whose times count from ``began_ns``. When ``stopping`` is set the fault in force is healed and the rest is
    recorded as not reached. A fault that is late (nobody led yet) pushes nothing away: the next ones follow when they can.
    """
    shift_ns = 0
    in_force: tuple[Fault, Aim] | None = None
    for position, planned in enumerate(plan):
        due_ns = began_ns + planned.at_ns + shift_ns
        row = _row(planned, due_ns)
        if not await _sleep_until(field, due_ns, stopping):
            for missed in plan[position:]:
                record(_row(missed, began_ns + missed.at_ns + shift_ns))
            break
        fault = FAULTS[planned.fault]
        aim = await _aim(field, fault, planned, in_force, stopping)
        if isinstance(aim, str):
            record(replace(row, started_ns=field.now_ns(), ended_ns=field.now_ns(), verified=False, detail=aim))
            if in_force is not None:
                await in_force[0].heal(field, in_force[1])
                in_force = None
            continue
        row = replace(
            row,
            targets=aim.targets,
            links=aim.links.texts(),
            isolated=aim.isolated,
            leader=aim.leader,
            leader_epoch=aim.leader_epoch,
            started_ns=field.now_ns(),
        )
        record(row)
        show(row)
        effect = await fault.inject(field, aim)
        # A verified effect held from here on, so the bounds of liveness rules count from here.
        acted_ns = field.now_ns()
        row = replace(row, started_ns=acted_ns)
        record(replace(row, detail=effect.detail))
        shift_ns = max(shift_ns, acted_ns - (began_ns + planned.at_ns))
        completed = await _sleep_until(field, acted_ns + planned.hold_ns, stopping)
        lasted = await fault.still(field, aim, acted_ns)
        ended_ns = field.now_ns()
        in_force = (fault, aim) if planned.replaced and completed else None
        healed = Effect(True) if in_force else await fault.heal(field, aim)
        record(
            replace(
                row,
                ended_ns=ended_ns,
                verified=effect.verified and lasted.verified,
                replaced=in_force is not None,
                detail="; ".join(dict.fromkeys(filter(None, (effect.detail, lasted.detail, _trouble(healed))))),
            )
        )
        show(None)
    if in_force is not None:
        await in_force[0].heal(field, in_force[1])


async def _aim(
    field: Field, fault: Fault, planned: PlannedFault, in_force: tuple[Fault, Aim] | None, stopping: asyncio.Event
) -> Aim | str:
    """Fix the targets. A partition that replaces another aims at who leads *now*, on the other side of the one in force."""
    if stopping.is_set():
        return "the run was stopped"
    if in_force is not None and in_force[1].leader in in_force[1].isolated:
        await field.leader(_REPLACING_PATIENCE_S, other_than=in_force[1].leader)
    return await fault.aim(field, planned)


def _trouble(healed: Effect) -> str:
    return "" if healed.verified else f"not healed: {healed.detail}"


def _row(planned: PlannedFault, due_ns: int) -> FaultRow:
    return FaultRow(
        planned.fault_id, planned.fault, (), (), due_ns, None, None, None, None, None, replaced=planned.replaced
    )


async def _sleep_until(field: Field, due_ns: int, stopping: asyncio.Event) -> bool:
    """Sleep until ``due_ns``; False as soon as the run is being stopped."""
    while (left_ns := due_ns - field.now_ns()) > 0:
        if stopping.is_set():
            return False
        await asyncio.sleep(min(_SLICE_S, left_ns / 1e9))
    return not stopping.is_set()
