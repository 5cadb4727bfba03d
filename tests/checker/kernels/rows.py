"""Operations of many small histories → the arrays that kernels take; history number = segment number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from checker.kernels.blocks import FAIL, INFO, OK, READ, SWAP, WRITE, Registers
from checker.kernels.findings import NEVER, NOTHING, Ints
from workloads.history.operation import Operation, Status

_F = {"read": READ, "write": WRITE, "cas": SWAP}
_STATUS = {Status.OK: OK, Status.FAIL: FAIL, Status.INFO: INFO}


def ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def completed(row: Operation) -> int:
    return NEVER if row.completed_ns is None else row.completed_ns


def registers_of(histories: Sequence[Sequence[Operation]], initial: Sequence[int] | None = None) -> Registers:
    numbered = [(segment, row) for segment, rows in enumerate(histories) for row in rows]
    rows = [row for _, row in numbered]
    seen = [
        (row.output[0] if row.output else NOTHING) if row.f == "read" else row.input[0] if row.f == "cas" else NOTHING
        for row in rows
    ]
    return Registers(
        segment=ints([segment for segment, _ in numbered]),
        invoked=ints([row.invoked_ns for row in rows]),
        completed=ints([completed(row) for row in rows]),
        f=ints([_F[row.f] for row in rows]),
        status=ints([_STATUS[row.status] for row in rows]),
        seen=ints(seen),
        new=ints([NOTHING if row.f == "read" else row.input[-1] for row in rows]),
        initial=ints(initial if initial is not None else [NOTHING] * len(histories)),
    )
