"""Faults of single packets: what the shapers beside the senders do to the links between the targets and all others."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusters.backends.companions.shape import Shape
from clusters.backends.companions.shaper import KERNEL, USERSPACE
from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes
from clusters.cluster import Cluster
from clusters.links import Pair, between, union
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import NOTHING
from nemesis.faults.process import aim_by_role
from nemesis.faults.schedule import PlannedFault
from workloads.problem import Problem

SHAPER = "shaper"
MECHANISM = "NEMESIS_PACKETS"
"""environment variable"""

_LIKELY = 10.0
"""what is expected so often and never happens is no chance (one in e^10)"""

Counts = Mapping[str, Any]
"""of one link: see :mod:`clusters.backends.companions.shaper`"""


@dataclass(frozen=True, slots=True)
class ShapeLinks:
    """One shape on every link between the targets and the others."""

    targets: str
    direction: str
    shape: Shape

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now; their processes are left alone, and they go on serving."""
        aim = await aim_by_role(field, self.targets, planned.draw, out_of_service=False)
        return aim if isinstance(aim, str) else replace(aim, claim=NOTHING)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Shape; what it did to packets is counted until the end of the hold."""
        pairs = self._pairs(field, aim)
        settings = _asked(self.shape)
        async with field.in_force.matrix:
            field.in_force.shape(aim.lane, frozenset(pairs))
            reasons = await asyncio.gather(
                *(
                    self._ask(field, source, "shape", aim, towards=towards, shape=settings, seed=_seed(aim, source))
                    for source, towards in _towards(field, pairs).items()
                )
            )
        told = ", ".join(f"{name} = {value}" for name, value in settings.items())
        return Effect(bool(pairs), f"{len(pairs)} links shaped: {told}; {told_mechanism(reasons)}")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """What was asked for must have happened to packets of the nodes."""
        del since_ns
        return judge(self.shape, await self._counts(field, aim))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Take the shapers out of the path; datagrams must arrive as they did before."""
        pairs = self._pairs(field, aim)
        async with field.in_force.matrix:
            for source in _towards(field, pairs):
                await self._ask(field, source, "clear", aim)
            field.in_force.shape(aim.lane, frozenset())
            left = await self._counts(field, aim)
            cut, shaped = field.in_force.links().cut, field.in_force.shaped()
            free = [pair for pair in pairs if pair not in cut and pair not in shaped]
            arrived = await asyncio.to_thread(field.cluster.probe, free)
        silent = [f"{a}>{b}" for (a, b), open_ in arrived.items() if not open_]
        if left or silent:
            return Effect(
                False, f"still shaped: {len(left)} links; no datagram arrives on {', '.join(silent) or 'none'}"
            )
        return Effect(True)

    def _pairs(self, field: Field, aim: Aim) -> list[Pair]:
        names, targets = field.nodes.names, aim.targets
        links = union(
            *([between(targets, names)] if self.direction in ("both", "out") else []),
            *([between(names, targets)] if self.direction in ("both", "in") else []),
        )
        return sorted(links.cut)

    async def _counts(self, field: Field, aim: Aim) -> dict[Pair, Counts]:
        nodes = {node.address: node.name for node in field.cluster.nodes}
        sources = list(_towards(field, self._pairs(field, aim)))
        answers = await asyncio.gather(*(self._ask(field, source, "counts", aim) for source in sources))
        return {
            (source, nodes[address]): counts
            for source, answer in zip(sources, answers, strict=True)
            for address, counts in answer.items()
        }

    async def _ask(self, field: Field, node: str, op: str, aim: Aim, **fields: Any) -> Any:
        key = f"{aim.number:06}"
        return await asyncio.to_thread(lambda: field.cluster.companion(node, SHAPER, op, key=key, **fields))


def judge(shape: Shape, counts: Mapping[Pair, Counts]) -> Effect:
    """Whether what a shape asks for happened to packets, all links together; and what did, for people."""

    def total(name: str) -> int:
        return sum(each[name] for each in counts.values())

    echoes = [trip for each in counts.values() for trip in each["echo_ms"]]
    told = [f"{total('seen')} packets on {sum(each['seen'] > 0 for each in counts.values())} links"]
    missing = [] if total("seen") else ["the nodes sent nothing there"]

    late = shape.delay_ms > 0 or shape.jitter_ms > 0
    in_kernel = any(each["by"] == KERNEL for each in counts.values())
    overtaken = "held back for others to overtake" if in_kernel else "overtaken"
    # (asked for, how many are to be expected, how many there were)
    seen_percent = total("seen") / 100
    expected = {
        "lost": (shape.loss_percent, seen_percent * shape.loss_percent / shape.loss_run, total("lost")),
        "sent twice": (shape.duplicate_percent, seen_percent * shape.duplicate_percent, total("duplicated")),
        overtaken: (shape.reorder_percent, seen_percent * shape.reorder_percent, total("reordered")),
        "late": (late, total("seen"), total("delayed")),
        "waited for the pipe or found its queue full": (
            shape.rate_kbit,
            total("seen"),
            total("delayed") + total("overflowed"),
        ),
        "connections reset": (shape.reset_every_ms, total("seen"), total("reset")),
    }
    asked = {what: (likely, count) for what, (wish, likely, count) in expected.items() if wish > 0}
    for what, (likely, count) in asked.items():
        told.append(f"{count} {what}")
        # Of several things one that is rare may not have come to pass; what is asked for alone must have.
        if not count and (len(asked) == 1 or likely >= _LIKELY):
            missing.append(f"none {what}")
    if late and in_kernel and not echoes and not total("waiting"):
        missing.append("no round trip was measured, and no packet was seen waiting")
    if total("held_ns") and (sent := total("sent")):
        told.append(f"held for {total('held_ns') / sent / 1e6:.1f} ms on average")
    if late and echoes:
        median = statistics.median(echoes)
        told.append(f"round trips of {median:.1f} ms (median of {len(echoes)})")
        if median < shape.delay_ms - shape.jitter_ms:
            missing.append("round trips were shorter than the delay")
    for name, what in (("refused", "not sent on by the machine"), ("device_dropped", "too many for the shaper")):
        if total(name):
            told.append(f"{total(name)} {what}")
    return Effect(not missing, "; ".join([", ".join(told), *missing]))


def told_mechanism(reasons: Iterable[str]) -> str:
    """Who shapes, from what shapers said of why it is not the kernel."""
    found = dict.fromkeys(reasons)
    told = ["by netem"] if "" in found else []
    return "; ".join([*told, *(f"in userspace: {why}" for why in found if why)])


def begin_shapers(cluster: Cluster) -> str:
    """Put a shaper beside every node; nothing is in the path of any packet. Says by which mechanism they will act.

    The environment's ``NEMESIS_PACKETS=userspace`` leaves netem alone. Raises Problem ``packets-not-shaped``, with what mends it.
    """
    by = os.environ.get(MECHANISM, "")
    if by not in ("", USERSPACE):
        raise Problem(
            "packets-by-nothing", f"{MECHANISM}={by} names no mechanism.", f"Use {USERSPACE}, or unset it.", usage=True
        )
    reasons = [cluster.accompany(node.name, SHAPER, {"address": node.address, "by": by}) for node in cluster.nodes]
    return told_mechanism(reasons)


def end_shaping(cluster: Cluster) -> None:
    """Let every packet go its own way, whoever shaped it."""
    for node in cluster.nodes:
        cluster.companion(node.name, SHAPER, "clear_all")


def try_shaping() -> tuple[bool, str]:
    """Whether packets can be shaped on this machine, found by doing it, and by which mechanism, or why not."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(plan_nodes(Path(folder, "probe"), 2), Path(folder, "ledger"))
        try:
            cluster.up()
            mechanism = begin_shapers(cluster)
            first, second = cluster.nodes
            shape = _asked(Shape(loss_percent=100.0))
            cluster.companion(
                first.name, SHAPER, "shape", key="probe", towards=[second.address], shape=shape, seed="probe"
            )
            if any(cluster.probe([(first.name, second.name)]).values()):
                return False, "a datagram arrives although all shall be lost"
        except Problem as problem:
            return False, f"{problem.what} {problem.remedy}".strip()
        finally:
            cluster.down()
    return True, f"packets are shaped {mechanism}"


def _asked(shape: Shape) -> dict[str, Any]:
    """What differs from a shape that does nothing."""
    nothing = Shape()
    names = Shape.__dataclass_fields__
    return {name: getattr(shape, name) for name in names if getattr(shape, name) != getattr(nothing, name)}


def _towards(field: Field, pairs: list[Pair]) -> dict[str, list[str]]:
    """Source → addresses."""
    addresses = {node.name: node.address for node in field.cluster.nodes}
    found: dict[str, list[str]] = {}
    for source, destination in pairs:
        found.setdefault(source, []).append(addresses[destination])
    return found


def _seed(aim: Aim, source: str) -> str:
    """Chance of the run's own: the same in a repetition with its seed."""
    return f"{aim.draw!r}/{source}"
