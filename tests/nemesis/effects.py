"""One run that meets every fault of the catalogue that its backend claims, once; and what nodes, clients and the wire tell of it.

Faults of one lane follow each other, and the lanes overlap. What cannot be shown so, since all voters must have a hand in it or the
candidate has no such request, has a run of its own elsewhere; ``test_fault_coverage.py`` knows what is shown where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from clusters.candidates.candidate import Quorum
from clusters.candidates.reference.candidate import ReferenceCandidate
from clusters.cluster import Launch, NodeSpec
from nemesis import scenario
from nemesis.faults.capabilities import OF_BACKEND
from nemesis.faults.catalogue import CATALOGUE
from nemesis.faults.disk_choice import no_disks
from nemesis.faults.kinds.kind import Capability
from nemesis.faults.schedule import NS, PlannedFault
from workloads.history.manifest import CandidateEntry

Planned = tuple[str, float, dict[str, Any]]
"""fault, seconds for which it holds, parameters"""

VOTERS: tuple[Planned, ...] = (
    ("kill", 0.5, {"targets": "all", "stagger_ms": 150}),
    ("pause", 1.2, {"targets": "n1"}),
    ("isolate", 1.0, {"targets": "n3"}),
    ("connection-reset", 1.0, {"targets": "n2", "every_ms": 300}),
    ("truncate-file", 0.3, {"targets": "n1", "file": "segment", "bytes": 3000}),
    ("restart", 0.3, {"targets": "n2"}),
    ("restore-old-disk", 1.2, {"targets": "n2"}),
    ("wipe", 0.3, {"targets": "n3"}),
    ("flapping", 3.0, {"targets": "leader", "cut_ms": 100, "open_ms": 100}),
)
CRASHING: tuple[Planned, ...] = (
    ("crash-loop", 3.0, {"targets": "n4", "up_ms": 500}),
    ("degrade", 1.2, {"targets": "all", "direction": "out", "delay_ms": 3, "jitter_ms": 2, "loss_percent": 1}),
    ("disk-full", 0.4, {"targets": "n4"}),
    ("disk-read-only", 0.4, {"targets": "n4"}),
    ("disk-eio", 0.3, {"targets": "n4"}),
    ("power-cut", 0.2, {"targets": "n4"}),
    ("flip-bits", 0.3, {"targets": "n4", "file": "segment", "bits": 3}),
)
PRESSED: tuple[Planned, ...] = (
    ("cpu-pressure", 2.5, {"targets": "n5", "burners": 6}),
    ("drop-rpc", 0.8, {"api": "Fetch", "to": "n5"}),
    ("delay-rpc", 1.2, {"api": "Fetch", "to": "n5", "delay_ms": 200}),
    ("close-rpc", 0.8, {"api": "Fetch", "to": "n5"}),
    ("duplicate-rpc", 0.8, {"api": "Fetch", "targets": "n5"}),
    ("disk-slow", 0.8, {"targets": "n5", "delay_ms": 100}),
    ("memory-pressure", 0.5, {"targets": "n5", "headroom_mib": 0}),
    ("restart-under", 0.2, {"targets": "n5"}),
    ("swap-disk", 0.6, {"targets": "n5"}),
    ("flip-bits", 0.3, {"targets": "n5", "file": "quorum-state", "bits": 400}),
)
CLOCKS: tuple[Planned, ...] = (
    ("clock-jump", 1.0, {"targets": "n2", "offset_ms": -3000}),
    ("clock-drift", 1.5, {"targets": "n3", "rate": 1.5}),
    ("clock-strobe", 1.2, {"targets": "n2", "offset_ms": 2000, "period_ms": 100}),
)
LANES = {"voters": (1.5, VOTERS), "crashing": (2.2, CRASHING), "pressed": (2.2, PRESSED), "clocks": (4.0, CLOCKS)}
"""name → when its first fault is due, and all of them; two lanes begin when the first fault, which takes every node, has them"""
GAP_S = 0.4
OTHER_RELEASE = "9.9.9"


class OtherReference(ReferenceCandidate):
    """The reference as another release, with a program of its own that says so and then does what the first release does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._program = folder / "release" / "start"
        self._program.parent.mkdir(exist_ok=True)
        self._program.write_text(f'echo "this is {OTHER_RELEASE}"\nexec "$@"\n')

    @property
    def version(self) -> str:
        return OTHER_RELEASE

    def install(self, say: Callable[[str], None]) -> CandidateEntry:
        """It promises less."""
        entry = super().install(say)
        promises = tuple(each for each in entry.promises if each != "pre-vote")
        return msgspec.structs.replace(entry, version=self.version, promises=promises, generation="kip-595")

    def artifacts(self) -> Sequence[Path]:
        return (*super().artifacts(), self._program.parent)

    def launch(self, quorum: Quorum, node: NodeSpec, incarnation: int) -> Launch:
        launch = super().launch(quorum, node, incarnation)
        return replace(launch, argv=("sh", quorum.site.inside(self._program), *launch.argv))


def claimed(backend: str) -> dict[str, list[Planned]]:
    """Lane → its faults that the backend claims, and that this machine lets it do."""
    able = OF_BACKEND[backend]
    if Capability.DISK_FAILURES in able and no_disks(backend):
        able -= {Capability.DISK_FAILURES}
    return {
        lane: [planned for planned in faults if CATALOGUE[planned[0]].needs <= able]
        for lane, (_, faults) in LANES.items()
    }


def written(lanes: dict[str, list[Planned]]) -> str:
    """The scenario as a file: what of it happens when is :func:`schedule`."""
    lines = ['title = "T"', 'text = "t"', 'quorum = "unrestricted"']
    for name, _, parameters in (planned for faults in lanes.values() for planned in faults):
        lines += ["[[faults]]", f'fault = "{name}"', "hold = 1.0"]
        lines += [
            f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in parameters.items()
        ]
    return "\n".join(lines) + "\n"


def schedule(path: Path, lanes: dict[str, list[Planned]]) -> list[PlannedFault]:
    """Every fault of the scenario once, in its order: nothing is left to the draw, nor to how fast the machine is."""
    choices, planned = iter(scenario.load(str(path)).faults), []
    for lane, faults in lanes.items():
        due_s, _ = LANES[lane]
        for _, hold_s, _ in faults:
            choice, number = next(choices), len(planned)
            at_ns, hold_ns = int(due_s * NS), int(hold_s * NS)
            planned.append(
                PlannedFault(number, choice.fault, at_ns, hold_ns, False, 0.6, lane, choice.parameters, number)
            )
            due_s += hold_s + GAP_S
    return planned


class Lived:
    """A run that ended, with its tables."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.starts: dict[str, list[int]] = {}
        for row in self.rows("lifecycle", kind="start"):
            self.starts.setdefault(row["node"], []).append(row["ts_ns"])

    def rows(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        found = pq.read_table(self.run / "tables" / f"{table}.parquet").to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def planned(self, fault: str) -> bool:
        return bool(self.rows("faults", fault=fault))

    def verified(self, fault: str, node: str | None = None) -> dict[str, Any]:
        row = next(row for row in self.rows("faults", fault=fault) if node is None or row["targets"] == [node])
        assert row["verified"], row["detail"]
        return row

    def life(self, node: str, kind: str) -> list[int]:
        return [row["ts_ns"] for row in self.rows("lifecycle", node=node, kind=kind)]

    def incarnation(self, node: str, at_ns: int) -> int:
        return sum(start <= at_ns for start in self.starts[node])

    def started(self, node: str, incarnation: int) -> dict[str, Any]:
        """What a process found on its disk."""
        (start,) = self.rows("node_events", node=node, kind="start", incarnation=incarnation)
        return start

    def after(self, fault: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the target's first process after a fault found on its disk, and what its last copy has."""
        (node,) = fault["targets"]
        start = self.started(node, self.incarnation(node, fault["ended_ns"]) + 1)
        return start, self.rows("quorum_states", node=node)[-1]

    def log_end_before(self, fault: dict[str, Any]) -> int:
        """What the target had when the fault had killed it."""
        (node,) = fault["targets"]
        number = self.incarnation(node, fault["started_ns"])
        ends: int = max(state["log_end"] for state in self.rows("quorum_states", node=node, incarnation=number))
        return ends

    def ok_between(self, from_ns: int, to_ns: int) -> int:
        return sum(from_ns < (row["completed_ns"] or 0) < to_ns for row in self.rows("operations", status="ok"))

    def appended(self, node: str, fault: dict[str, Any]) -> list[int]:
        """When the node wrote to its log while a fault was in force, with a tenth of a second off at either end."""
        begin_ns, end_ns = fault["started_ns"] + NS // 10, fault["ended_ns"] - NS // 10
        times = [row["ts_ns"] for row in self.rows("node_events", node=node, kind="append")]
        return [ts_ns for ts_ns in times if begin_ns < ts_ns < end_ns]

    def said(self, fault: dict[str, Any], *, edge_ns: int = NS // 10, **wanted: Any) -> list[dict[str, Any]]:
        """Messages between nodes that arrived while a fault was in force; ``edge_ns`` is taken off at either end."""
        begin_ns, end_ns = fault["started_ns"] + edge_ns, fault["ended_ns"] - edge_ns
        rows = self.rows("rpcs", fate="delivered", **wanted)
        return [row for row in rows if begin_ns < row["ts_ns"] and (row["delivered_ns"] or end_ns) < end_ns]
