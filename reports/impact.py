"""What each fault did to clients and to the quorum: counts on the cut-off side, the next leader, and how long recovery took.

These are measurements, not judgements: the checker decides from its own plans what a promise allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.load import NEVER, OK, OperationColumns, StoredRun
from reports.plots.frame import Band
from reports.plots.timeline import CutOff
from reports.roles import Roles
from workloads.history.operation import FaultRow

_READS = ("read", "poll")


@dataclass(frozen=True, slots=True)
class Impact:
    """One fault and what came of it. Durations are in ns, None where they were not seen."""

    number: int
    fault: FaultRow
    cut_off: tuple[CutOff, ...]
    invoked: int
    acknowledged: int
    """of those invoked on the cut-off side that are no reads"""
    read: int
    new_leader_ns: int | None
    """from the start of the fault to the first sign of a leader in a later epoch, before the next fault"""
    next_answer_ns: int | None
    """from the start to the first acknowledged operation invoked after it elsewhere than on the cut-off side"""
    recovery_ns: int | None
    """from the end to the first acknowledged operation invoked after it, on a node that was hit where clients were pinned to one"""

    @property
    def happened(self) -> bool:
        """Whether it was started at all."""
        return self.fault.started_ns is not None


def impacts(run: StoredRun, roles: Roles, end_ns: int) -> tuple[Impact, ...]:
    """Measure every fault, in order of time."""
    measured = []
    for i, fault in enumerate(run.faults):
        later = (other.started_ns for other in run.faults[i + 1 :] if other.started_ns is not None)
        measured.append(_impact(i + 1, fault, run.operations, _new_leader(fault, roles, next(later, end_ns)), end_ns))
    return tuple(measured)


def bands(measured: tuple[Impact, ...], end_ns: int) -> tuple[Band, ...]:
    """The faults that happened, as bands for the time charts."""
    found = []
    for impact in measured:
        fault = impact.fault
        if fault.started_ns is not None:
            nodes = fault.isolated or fault.targets
            name = f"{fault.fault} {', '.join(nodes)}".strip()
            until = end_ns if fault.ended_ns is None else fault.ended_ns
            found.append(
                Band(impact.number, name, fault.started_ns, until, frozenset(nodes), fault.verified is not False)
            )
    return tuple(found)


def longest_pause_ns(operations: OperationColumns) -> int | None:
    """The longest time between two acknowledged changes; between any two answers where the workload only reads."""
    ok = (operations.status == OK) & (operations.completed_ns != NEVER)
    changes = ok & ~_is_read(operations)
    done = np.sort(operations.completed_ns[changes if changes.any() else ok])
    return int(np.diff(done).max()) if len(done) > 1 else None


def _is_read(operations: OperationColumns) -> NDArray[np.bool_]:
    codes = [i for i, f in enumerate(operations.functions) if f in _READS]
    return np.asarray(np.isin(operations.f, codes), np.bool_)


def _impact(
    number: int, fault: FaultRow, operations: OperationColumns, new_leader_ns: int | None, end_ns: int
) -> Impact:
    if fault.started_ns is None:
        return Impact(number, fault, (), 0, 0, 0, None, None, None)
    until_ns = end_ns if fault.ended_ns is None else fault.ended_ns
    isolated = _asked(operations, fault.isolated)
    during = (operations.invoked_ns >= fault.started_ns) & (operations.invoked_ns < until_ns)
    inside = during & isolated
    ok = operations.status == OK
    reads = _is_read(operations)
    cut_off = tuple(
        CutOff(
            node,
            fault.started_ns,
            until_ns,
            int((during & _asked(operations, (node,)) & operations.pinned).sum()),
            int((during & _asked(operations, (node,)) & operations.pinned & ok).sum()),
        )
        for node in fault.isolated
    )
    hit = _asked(operations, fault.isolated or fault.targets) & operations.pinned
    return Impact(
        number=number,
        fault=fault,
        cut_off=cut_off,
        invoked=int(inside.sum()),
        acknowledged=int((inside & ok & ~reads).sum()),
        read=int((inside & ok & reads).sum()),
        new_leader_ns=new_leader_ns,
        next_answer_ns=_first_ok(operations, ok & ~isolated, fault.started_ns),
        recovery_ns=None
        if fault.ended_ns is None
        else _first_ok(operations, (ok & hit) if hit.any() else ok, fault.ended_ns),
    )


def _asked(operations: OperationColumns, nodes: tuple[str, ...]) -> NDArray[np.bool_]:
    codes = [operations.nodes.index(node) for node in nodes if node in operations.nodes]
    return np.asarray(np.isin(operations.node, codes), np.bool_)


def _first_ok(operations: OperationColumns, chosen: NDArray[np.bool_], after_ns: int) -> int | None:
    done = operations.completed_ns[chosen & (operations.invoked_ns >= after_ns)]
    done = done[done >= after_ns]
    return int(done.min()) - after_ns if len(done) else None


def _new_leader(fault: FaultRow, roles: Roles, until_ns: int) -> int | None:
    started_ns = fault.started_ns
    if fault.leader_epoch is None or started_ns is None:
        return None
    later = [
        span.start_ns - started_ns
        for span in roles.leaders
        if span.epoch is not None and span.epoch > fault.leader_epoch and started_ns <= span.start_ns < until_ns
    ]
    return min(later, default=None)
