"""Watches the nodes' processes while a run goes on: who ended by itself, who did not get the CPU it asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clusters.cluster import Cluster, CpuUse
from nemesis.life.nodes import Nodes

_INTERVAL_S = 0.5
_STARVED_SHARE = 0.6
"""of the interval in which the node's threads together waited for a CPU …"""
_STARVED_RATIO = 3.0
"""… and how many times longer they waited than they ran"""


async def watch_vitals(cluster: Cluster, nodes: Nodes, now_ns: Callable[[], int], say: Callable[[str], None]) -> None:
    """Look twice a second until cancelled."""
    before: dict[str, tuple[int, CpuUse]] = {}
    while True:
        await asyncio.sleep(_INTERVAL_S)
        for name in await asyncio.to_thread(nodes.crashed):
            if await asyncio.to_thread(nodes.note_crash, name):
                say(f"{name} ended by itself")
        for name in nodes.names:
            use = await asyncio.to_thread(cluster.cpu, name)
            at_ns = now_ns()
            last = before.pop(name, None)
            if use is None:
                continue
            before[name] = (at_ns, use)
            if last is not None and use.waiting_s >= last[1].waiting_s:
                interval_ns = at_ns - last[0]
                waited_s = use.waiting_s - last[1].waiting_s
                ran_s = use.running_s - last[1].running_s
                share = waited_s * 1e9 / interval_ns
                if share > _STARVED_SHARE and waited_s > _STARVED_RATIO * ran_s:
                    nodes.starved(name, share, interval_ns)
