"""Rows of ``faults``: what a script did to nodes and links, from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from workloads.history.operation import FaultRow


@dataclass(slots=True)
class FaultLog:
    """Every fault of a play. ``leader`` tells who leads at the moment, and in which epoch."""

    now_ns: Callable[[], int]
    leader: Callable[[], tuple[str, int] | None]
    rows: list[FaultRow] = field(default_factory=list)

    def begin(
        self, fault: str, targets: tuple[str, ...] = (), links: tuple[str, ...] = (), isolated: tuple[str, ...] = ()
    ) -> None:
        """A fault begins."""
        leader, epoch = self.leader() or (None, None)
        ns = self.now_ns()
        row = FaultRow(
            fault_id=len(self.rows),
            fault=fault,
            targets=targets,
            links=links,
            planned_ns=ns,
            started_ns=ns,
            ended_ns=None,
            verified=True,
            leader=leader,
            leader_epoch=epoch,
            isolated=isolated,
        )
        self.rows.append(row)

    def end(self, fault: str, target: str | None = None, *, replaced: bool = False) -> None:
        """Faults of a kind, or those of one target, end."""
        for index, row in enumerate(self.rows):
            if row.fault == fault and row.ended_ns is None and (target is None or target in row.targets):
                self.rows[index] = replace(row, ended_ns=self.now_ns(), replaced=replaced)


def isolated(voters: Sequence[str], cut: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Voters that have no majority of voters around them which they reach and are reached by."""
    near = {a: [b for b in voters if a == b or ((a, b) not in cut and (b, a) not in cut)] for a in voters}
    return tuple(name for name in voters if len(near[name]) <= len(voters) // 2)
