"""A run under way: what its phases share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clusters.backends.shim.preload import Shim
from nemesis.life.plan import RunPlan
from nemesis.life.progress import Progress
from workloads.history.manifest import Manifest, PhaseEntry
from workloads.history.operation import FaultRow


@dataclass(slots=True)
class Run:
    """One run; ``manifest`` is replaced as more becomes known."""

    plan: RunPlan
    folder: Path
    manifest: Manifest
    progress: Progress
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    phases: list[PhaseEntry] = field(default_factory=list)
    shims: Mapping[str, Shim] = field(default_factory=dict)
    """what is preloaded into every node, by name"""
    fault: FaultRow | None = None
    """the one in force"""
    spark_ready_ns: int | None = None
    """set from another thread, once"""

    def now_ns(self) -> int:
        """Nanoseconds since the start of the run."""
        return time.monotonic_ns() - self.manifest.started_monotonic_ns
