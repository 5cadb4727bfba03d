"""The libraries that a run's faults need preloaded into its nodes, by the names that :attr:`.FaultKind.shim` gives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from clusters.backends.shim.clock import NAME as CLOCK
from clusters.backends.shim.clock import ClockShim
from clusters.backends.shim.compile import shim_library
from clusters.backends.shim.disk import NAME as DISK
from clusters.backends.shim.disk import DiskShim
from clusters.backends.shim.preload import Shim
from clusters.backends.shim_disks import KIND as SHIM_DISKS
from clusters.cluster import Cluster
from clusters.disks import Disks


def make_shims(
    names: Iterable[str], cluster: Cluster, now_ns: Callable[[], int], say: Callable[[str], None]
) -> dict[str, Shim]:
    """Compile what is needed (nothing, for most runs). Raises Problem where it cannot be compiled here."""
    durable_at_sync = isinstance(cluster, Disks) and cluster.disk_kind == SHIM_DISKS
    if durable_at_sync:
        names = dict.fromkeys((*names, DISK))

    def wall_ns(node: str) -> int:
        clock = cluster.clocks().get(node)
        return time.time_ns() + (clock.wall_ahead_ns if clock else 0)

    makers: dict[str, Callable[[], Shim]] = {
        CLOCK: lambda: ClockShim(shim_library(CLOCK, say), now_ns, wall_ns),
        DISK: lambda: DiskShim(shim_library(DISK, say), durable_at_sync=durable_at_sync),
    }
    return {name: makers[name]() for name in names}
