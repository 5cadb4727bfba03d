"""A planned fault that had no effect is no fault that happened, whatever its kind: the verdict is *unknown*, never *valid*."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from checker.checks.framework import FAULTS_HAPPENED
from checker.run import check_runs
from checker.verdict import Verdict
from clusters.backends.shim.clock import ClockShim
from clusters.backends.shim.disk import DiskShim
from clusters.cluster import CpuUse, NodeSpec
from clusters.disks import PowerCut
from clusters.links import Links, Pair
from nemesis.faults.catalogue import CATALOGUE, GROUPS
from nemesis.faults.execute import execute
from nemesis.faults.field import Field
from nemesis.faults.kinds.kind import Capability
from nemesis.faults.schedule import NS, PlannedFault
from tests.checker.tables import Story, manifest
from workloads.clients.voter_changes import Change, ChangeResult, Voter
from workloads.history.operation import FaultRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("n1", "n2", "n3", "n4", "n5")
SEGMENT = "__cluster_metadata-0/00000000000000000000.log"
FAST = {
    "flapping": (("cut_ms", 5), ("open_ms", 5)),
    "crash-loop": (("up_ms", 5), ("down_ms", 5)),
    "stale-divergence": (("lag_ms", 5),),
    "wipe-behind-laggards": (("lag_ms", 5),),
}
"""parameters with which as much can be missed in no time"""
DISK = SimpleNamespace(kinds={"segment": "*/*.log"}, everything=("*",))


@dataclass
class Unmoved:
    """A cluster and its nodes to which nothing happens: what a fault asks for is done without a word, and has no effect.

    Processes end when they are killed, unless ``undying``: a fault of a disk must be found out by its disk.
    """

    run: Path
    voters: tuple[str, ...]
    undying: bool
    dead: set[str] = field(default_factory=set)

    names = NAMES
    observers = NAMES[4:]
    disk_kind = "ext4"
    disk_files = DISK

    @property
    def nodes(self) -> list[NodeSpec]:
        return [self.specification(name) for name in NAMES]

    def cut(self, links: Links) -> None:
        """Nothing is cut."""

    def probe(self, pairs: Sequence[Pair]) -> dict[Pair, bool]:
        return dict.fromkeys(pairs, True)

    def clocks(self) -> Mapping[str, Any]:
        return {}

    def alive(self, node: str) -> bool:
        return node not in self.dead

    def exit_status(self, node: str) -> int | None:
        return -9 if node in self.dead else None

    def kill(self, node: str, reason: str = "kill") -> bool:
        was_alive = self.alive(node)
        if not self.undying:
            self.dead.add(node)
        return was_alive

    def stop(self, node: str, patience_s: float) -> bool:
        return self.kill(node)

    def start(self, node: str) -> None:
        self.dead.discard(node)

    def down(self) -> tuple[str, ...]:
        return tuple(self.dead)

    def _nothing(self, *_: Any, **__: Any) -> None:
        """It is done, and nothing comes of it."""

    pause = resume = put_disk = swap_back = note_crash = deprive = clock_changed = move = _nothing
    mend_disk = release_cpu = free_memory = write_shared = _nothing

    def incarnation(self, node: str) -> int:
        return 1

    def identities(self) -> dict[str, tuple[str | None, bool]]:
        return dict.fromkeys(NAMES, ("disk", False))

    def specification(self, node: str) -> NodeSpec:
        number = int(node[1:])
        role = "voter" if node in self.voters else "observer"
        return NodeSpec(node, number, role, f"10.77.0.{number}", 9093, self.folder(node))

    def folder(self, node: str) -> Path:
        return self.run / node

    def copy_disk(self, node: str, target: Path) -> None:
        (target / SEGMENT).parent.mkdir(parents=True)
        (target / SEGMENT).write_bytes(b"the log of " + node.encode())

    def wipe(self, node: str) -> tuple[str, str]:
        return "disk", "disk"

    swap_disk = wipe

    def release(self, node: str) -> str:
        return "first"

    version = release

    def cut_power(self, node: str, torn: float | None) -> PowerCut:
        return PowerCut(False)

    def break_disk(self, node: str, how: str) -> str:
        return ""

    def press_cpu(self, node: str, burners: int, limit_s: float) -> int:
        return 1

    def limit_memory(self, node: str, headroom_bytes: int) -> int:
        return 0

    def cpu(self, node: str) -> CpuUse:
        return CpuUse(1.0, 0.0)

    def companion(self, node: str, program: str, op: str, **fields: Any) -> Any:
        return {"events": {"events": [], "left": 0}, "counts": {}}.get(op, "")

    def read_shared(self, node: str, path: Path) -> bytes:
        return bytes(1 << 12)

    def file_size(self, node: str, path: Path) -> int:
        return 0


class Refusing:
    """A leader that refuses every change of its voters."""

    async def add(self, leader: str, voter: Voter, timeout_s: float) -> Change:
        return Change("add", voter, ChangeResult.REFUSED, "INVALID_REQUEST")

    async def remove(self, leader: str, voter: Voter, timeout_s: float) -> Change:
        return Change("remove", voter, ChangeResult.REFUSED, "INVALID_REQUEST")


def carried_out(name: str, folder: Path) -> FaultRow:
    """What is recorded last of a fault that has no effect."""
    kind = CATALOGUE[name]
    for node in NAMES:
        (folder / node).mkdir(parents=True)
    undying = not kind.needs & {Capability.DISKS, Capability.DISK_FAILURES}
    world = Unmoved(folder, NAMES[: 4 if name == "majority-ring" else 3], undying)
    rows: list[FaultRow] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()

        def now_ns() -> int:
            return int(loop.time() * 1e9)

        def listed() -> frozenset[str]:
            return frozenset(f"{node}/disk" for node in world.voters)

        watch = SimpleNamespace(current_leader=lambda: ("n1", 4), voters=listed, last_answer_ns=lambda _: now_ns() + NS)
        shims = {
            "clock": ClockShim(folder / "clock.so", now_ns, lambda _: NS),
            "disk": DiskShim(folder / "disk.so"),
        }
        where = Field(
            cast(Any, world), cast(Any, world), watch, now_ns, 1.0, voter_changes=cast(Any, Refusing()), shims=shims
        )
        await execute(
            where,
            [PlannedFault(0, name, 0, NS // 20, False, 0.0, parameters=FAST.get(name, ()))],
            began_ns=now_ns(),
            stopping=asyncio.Event(),
            record=rows.append,
            show=lambda _: None,
            quorum_preserving=False,
        )

    asyncio.run(go())
    return rows[-1]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing will happen, so nothing is waited for."""
    for name, module in list(sys.modules.items()):
        if name.startswith("nemesis.faults."):
            for patience in [each for each in vars(module) if each.endswith("_PATIENCE_S")]:
                monkeypatch.setattr(module, patience, 0.05)


@pytest.mark.spark
def test_every_fault_without_an_effect_makes_the_verdict_unknown(tmp_path: Path, spark: SparkSession) -> None:
    runs, missed = [], []
    for group in (group for group in GROUPS if group != "chaos"):
        story = Story(manifest(run_id=f"missed/{group}"))
        story.operation("read")
        names = [kind.name for kind in CATALOGUE.values() if kind.group == group and kind.short_for is None]
        for number, name in enumerate(names):
            row = carried_out(name, tmp_path / "nodes" / name)
            assert row.verified is False, f"{name}: {row.detail}"
            story.fault(1.0, 2.0, fault_id=number, fault=name, verified=row.verified, detail=row.detail)
        runs.append(story.write(tmp_path / "store"))
        missed.append(names)
    verdicts = check_runs(spark, runs, checks=(FAULTS_HAPPENED,), write=False)
    for names, verdict in zip(missed, verdicts, strict=True):
        assert verdict.verdict is Verdict.UNKNOWN
        (check,) = verdict.checks
        assert check.anomaly_count == len(names) > 0
        for anomaly in check.anomalies:
            assert any(f"({name}), planned" in anomaly.message for name in names)
            assert "was not verified" in anomaly.message
