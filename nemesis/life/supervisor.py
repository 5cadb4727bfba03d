"""Starts nodes again that ended by themselves, as an operator's service manager does.

Otherwise one crash would be the end of most of what a long run can show: a quorum of three that misses one loses its leader at the
next fault. The crash is recorded, and judged, all the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.process import start_and_wait
from workloads.problem import Problem

_LOOK_S = 0.5
_DOWN_S = 2.0
_STARTS_MAX = 10
"""of one node; one that ends again and again stays down until the heal"""
_LANE = "supervisor"


async def supervise(field: Field, say: Callable[[str], None], *, ending: asyncio.Event) -> None:
    """Start every node that has been down for two seconds and that no fault handles, until ``ending`` is set.

    Not to be cancelled: a start that is under way would go on beside the one of the heal.
    """
    starts: Counter[str] = Counter()
    since_ns: dict[str, int] = {}
    while not ending.is_set():
        await asyncio.sleep(_LOOK_S)
        left = [node for node in field.nodes.down() if starts[node] < _STARTS_MAX and not _handled(field, node)]
        since_ns = {node: since_ns.get(node, field.now_ns()) for node in left}
        for node in left:
            if field.now_ns() - since_ns[node] < _DOWN_S * 1e9 or _handled(field, node) or ending.is_set():
                continue
            starts[node] += 1
            await _start(field, node, say)


def _handled(field: Field, node: str) -> bool:
    obstacle = field.in_force.obstacle(_LANE, Claim(frozenset({node})), field.nodes.voters, preserving=False)
    return obstacle is not None


async def _start(field: Field, node: str, say: Callable[[str], None]) -> None:
    field.in_force.claim(_LANE, Claim(frozenset({node})))
    try:
        started = await start_and_wait(field, node)
        say(f"{node} was started again: {started.detail}")
    except Problem as problem:
        say(f"{node} could not be started again: {problem.what}")
    finally:
        field.in_force.release(_LANE)
