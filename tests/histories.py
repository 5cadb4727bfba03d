"""Histories for tests, one line an operation, times in milliseconds:

    history(
        write(1, at=(0, 1)),
        read(1, at=(2, 3), node="n2"),
        cas(1, 2, at=(4, None)),            # never completed: info
        write(3, at=(5, 6), status="fail"),
    )

``op_id`` is the place in the history, and the process too unless it is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from workloads.history.operation import Consistency, Operation, Phase, Status
from workloads.history.schema import OPERATIONS

RUN = "test/20260101T000000-1"
MS = 1_000_000

At = tuple[float, float | None]


def operation(
    f: str,
    asked: tuple[int, ...],
    answer: tuple[int, ...],
    at: At,
    *,
    key: int | None = None,
    status: str | None = None,
    node: str = "n1",
    process: int = -1,
    pinned: bool = False,
    stale: bool = False,
    offset: int | None = None,
    error: str | None = None,
) -> Operation:
    began, ended = at
    status = status or ("ok" if ended is not None else "info")
    return Operation(
        op_id=-1,
        process=process,
        client_node=node,
        pinned=pinned,
        f=f,
        key=key,
        input=asked,
        output=answer if status == "ok" else (),
        status=Status(status),
        error=error or {"ok": None, "fail": "NOT_LEADER_OR_FOLLOWER", "info": "timeout"}[status],
        invoked_ns=int(began * MS),
        completed_ns=None if ended is None or status == "info" else int(ended * MS),
        consistency=Consistency.STALE if stale else Consistency.LINEARIZABLE,
        phase=Phase.LOAD,
        offset=offset if status == "ok" else None,
    )


def write(value: int, at: At, key: int = 0, **more: Any) -> Operation:
    return operation("write", (value,), (), at, key=key, **more)


def read(value: int | None, at: At, key: int = 0, **more: Any) -> Operation:
    return operation("read", (), () if value is None else (value,), at, key=key, **more)


def cas(expected: int, new: int, at: At, key: int = 0, **more: Any) -> Operation:
    return operation("cas", (expected, new), (), at, key=key, **more)


def append(value: int, offset: int | None, at: At, **more: Any) -> Operation:
    return operation("append", (value,), (), at, offset=offset, **more)


def poll(pairs: dict[int, int], until: int | None, at: At, begin: int = 0, **more: Any) -> Operation:
    """A read of the log from ``begin``: offset → value, and the high watermark of the answer."""
    flat = tuple(number for pair in pairs.items() for number in pair)
    return operation("poll", (begin,), flat, at, offset=until, **more)


def add(start: int | None, at: At, delta: int = 1, **more: Any) -> Operation:
    return operation("add", (delta,), () if start is None else (start,), at, **more)


def register(broker: int, incarnation: int, epoch: int | None, at: At, **more: Any) -> Operation:
    answer = () if epoch is None else (epoch,)
    return operation("register", (incarnation,), answer, at, key=broker, offset=epoch, **more)


def history(*operations: Operation) -> tuple[Operation, ...]:
    """Number the operations by place; a process of its own for each that has none."""
    return tuple(
        replace(row, op_id=number, process=number if row.process < 0 else row.process)
        for number, row in enumerate(operations)
    )


def table(operations: tuple[Operation, ...], run_id: str = RUN) -> pa.Table:
    """The rows of the table ``operations``."""
    columns = {name: [getattr(row, name) for row in operations] for name in OPERATIONS.names if name != "run_id"}
    for name, values in columns.items():
        if name in ("input", "output"):
            columns[name] = [list(value) for value in values]
        elif name in ("status", "consistency", "phase"):
            columns[name] = [str(value) for value in values]
    return pa.table({"run_id": [run_id] * len(operations), **columns}, schema=OPERATIONS)
