"""Each fault is shown by what it did to real nodes, as their own traces, disks and answers tell it; not by what the fault says.

One run a backend: faults of one lane follow each other, and the lanes overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nemesis import scenario
from nemesis.faults.schedule import NS, PlannedFault
from nemesis.life.plan import SHORT_TIMERS
from tests.clusters.conformance.grounds import GROUNDS
from tests.runs import perform

pytestmark = [pytest.mark.timeout(600)]

VOTERS = (
    ("kill", 0.5, {"targets": "all", "stagger_ms": 150}),
    ("pause", 1.5, {"targets": "n1"}),
    ("flapping", 3.0, {"targets": "leader", "cut_ms": 200, "open_ms": 150}),
    ("connection-reset", 1.0, {"targets": "n2", "every_ms": 300}),
    ("truncate-file", 0.3, {"targets": "n1", "file": "segment", "bytes": 3000}),
    ("restart", 0.3, {"targets": "n2"}),
    ("restore-old-disk", 1.5, {"targets": "n2"}),
    ("wipe", 0.3, {"targets": "n3"}),
    ("flip-bits", 0.3, {"targets": "n4", "file": "segment", "bits": 3}),
)
CRASHING = (
    ("crash-loop", 6.0, {"targets": "n4", "up_ms": 500}),
    ("degrade", 2.0, {"targets": "all", "direction": "out", "delay_ms": 3, "jitter_ms": 2, "loss_percent": 1}),
)
PRESSED = (
    ("cpu-pressure", 2.0, {"targets": "n5", "burners": 6}),
    ("memory-pressure", 1.0, {"targets": "n5", "headroom_mib": 0}),
    ("flip-bits", 0.3, {"targets": "n5", "file": "quorum-state", "bits": 400}),
)
LANES = {"voters": VOTERS, "crashing": CRASHING, "pressed": PRESSED}
WARM_UP_S, OTHERS_S, GAP_S = 1.5, 2.2, 0.6
"""the lanes beside the first begin when its first fault, which takes every node, has them"""
SERVED = (None, "NOT_LEADER_OR_FOLLOWER")
"""errors in a sample that a node answered"""


def written() -> str:
    """The scenario as a file: what of it happens when is :func:`schedule`."""
    lines = ['title = "T"', 'text = "t"', 'quorum = "unrestricted"', f"warm_up_s = {WARM_UP_S}"]
    for faults in LANES.values():
        for name, _, parameters in faults:
            lines += ["[[faults]]", f'fault = "{name}"', "hold = 1.0"]
            lines += [
                f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
                for key, value in parameters.items()
            ]
    return "\n".join(lines) + "\n"


def schedule(path: Path) -> list[PlannedFault]:
    """Every fault of the scenario once, in its order: nothing is left to the draw, nor to how fast the machine is."""
    choices, planned = iter(scenario.load(str(path)).faults), []
    for lane, faults in LANES.items():
        due_s = OTHERS_S if planned else WARM_UP_S
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

    def verified(self, fault: str, node: str | None = None) -> dict[str, Any]:
        row = next(row for row in self.rows("faults", fault=fault) if node is None or row["targets"] == [node])
        assert row["verified"], row["detail"]
        return row

    def life(self, node: str, kind: str) -> list[int]:
        return [row["ts_ns"] for row in self.rows("lifecycle", node=node, kind=kind)]

    def incarnation(self, node: str, at_ns: int) -> int:
        return sum(start <= at_ns for start in self.starts[node])

    def after(self, fault: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the target's first process after a fault found on its disk, and what its last copy has."""
        (node,) = fault["targets"]
        number = self.incarnation(node, fault["ended_ns"]) + 1
        (start,) = self.rows("node_events", node=node, kind="start", incarnation=number)
        return start, self.rows("quorum_states", node=node)[-1]

    def log_end_before(self, fault: dict[str, Any]) -> int:
        """What the target had when the fault had killed it."""
        (node,) = fault["targets"]
        number = self.incarnation(node, fault["started_ns"])
        ends: int = max(state["log_end"] for state in self.rows("quorum_states", node=node, incarnation=number))
        return ends

    def ok_between(self, from_ns: int, to_ns: int) -> int:
        return sum(from_ns < (row["completed_ns"] or 0) < to_ns for row in self.rows("operations", status="ok"))


@pytest.fixture(scope="module", params=[pytest.param(name, marks=mark) for name, (_, mark) in GROUNDS.items()])
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp(f"effects-{request.param}")
    path = folder / "effects.toml"
    path.write_text(written())
    make, _ = GROUNDS[request.param]
    with make(folder / "ground") as ground, ground.inside():
        run = perform(
            folder / "store",
            str(path),
            1,
            schedule=schedule(path),
            cluster=ground.backend,
            place=ground.place,
            observers=2,
            timers=SHORT_TIMERS,
            duration_s=5.0,
        )
        yield Lived(run)


def test_all_nodes_end_at_once_and_start_in_the_drawn_order(lived: Lived) -> None:
    row = lived.verified("kill")
    assert set(row["targets"]) == {"n1", "n2", "n3", "n4", "n5"}
    kills = {node: lived.life(node, "kill")[0] for node in row["targets"]}
    starts = {node: lived.starts[node][1] for node in row["targets"]}
    assert max(kills.values()) < min(starts.values()), "one was back before the last had ended"
    order = sorted(starts, key=lambda node: starts[node])
    assert f"started in the order {', '.join(order)}" in row["detail"]
    assert lived.ok_between(row["started_ns"], min(starts.values())) == 0
    assert lived.ok_between(max(starts.values()), 1 << 62) > 0
    assert (lived.run / "scenario.toml").read_text() == written()


def test_a_paused_node_answers_nobody_and_the_others_do(lived: Lived) -> None:
    row = lived.verified("pause")
    answers = [
        each
        for each in lived.rows("quorum_samples")
        if each["error"] in SERVED and row["started_ns"] + NS // 2 < each["ts_ns"] < row["ended_ns"]
    ]
    assert {each["node"] for each in answers} >= {"n2", "n3"}
    assert "n1" not in {each["node"] for each in answers}
    later = [each for each in lived.rows("quorum_samples", node="n1") if each["ts_ns"] > row["ended_ns"]]
    assert any(each["error"] in SERVED for each in later)


def test_a_stopped_node_ended_by_itself_and_is_back_on_its_disk(lived: Lived) -> None:
    row = lived.verified("restart")
    assert "it stopped" in row["detail"]
    start, _ = lived.after(row)
    assert start["log_end"] >= lived.log_end_before(row) > 0


def test_a_crash_loop_and_cpu_pressure_overlap(lived: Lived) -> None:
    crashes, pressure = lived.verified("crash-loop"), lived.verified("cpu-pressure")
    assert crashes["started_ns"] < pressure["ended_ns"]
    assert pressure["started_ns"] < crashes["ended_ns"]
    killed_ns = lived.verified("kill")["ended_ns"]
    kills = [kill for kill in lived.life("n4", "kill") if killed_ns < kill <= crashes["ended_ns"]]
    assert len(kills) >= 3
    last = lived.incarnation("n4", crashes["ended_ns"])
    for number in range(2, last + 1):
        states = lived.rows("quorum_states", node="n4", incarnation=number)
        assert states[0]["problem"] is None, "each incarnation read what the ones before had written"
    assert not [kill for kill in lived.life("n5", "kill") if pressure["started_ns"] <= kill <= pressure["ended_ns"]]


def test_flapping_and_memory_pressure_are_lifted(lived: Lived) -> None:
    for name, told in (("flapping", "cuts of"), ("memory-pressure", "MiB of address space")):
        row = lived.verified(name)
        assert told in row["detail"]
        assert "not healed" not in row["detail"]
        assert row["isolated"] == []
    assert lived.ok_between(max(row["ended_ns"] for row in lived.rows("faults")), 1 << 62) > 0


@pytest.mark.parametrize(("node", "file"), [("n4", "segment"), ("n5", "quorum-state")])
def test_bits_flip_and_the_node_refuses_to_serve_them(lived: Lived, node: str, file: str) -> None:
    row = lived.verified("flip-bits", node)
    assert f"file = {file}" in row["detail"]
    assert f"{node} ended by itself with status 1" in row["detail"]
    outputs = sorted((lived.run / "nodes" / node / "output").glob("*.log"), key=lambda path: int(path.stem))
    assert "damaged-disk" in outputs[-1].read_text()
    problems = {state["collection"] for state in lived.rows("quorum_states", node=node) if state["problem"]}
    assert problems, "the damaged copies are told"
    if file == "segment":
        assert not problems & {entry["collection"] for entry in lived.rows("log_entries", node=node)}


def test_a_log_that_was_cut_short_is_shorter_when_the_node_starts(lived: Lived) -> None:
    row = lived.verified("truncate-file")
    start, last = lived.after(row)
    before = lived.log_end_before(row)
    assert 0 < start["log_end"] < before
    assert last["log_end"] > before, "what was missing has been fetched again"


def test_an_old_disk_comes_back_under_the_old_identity(lived: Lived) -> None:
    row = lived.verified("restore-old-disk")
    start, _ = lived.after(row)
    newest = lived.incarnation("n2", row["ended_ns"])
    (old,) = {state["log_end"] for state in lived.rows("quorum_states", node="n2", incarnation=newest - 1)}
    (newer,) = {state["log_end"] for state in lived.rows("quorum_states", node="n2", incarnation=newest)}
    assert start["log_end"] == old < newer
    identities = {each["directory_id"] for each in lived.rows("node_events", node="n2", kind="start")}
    assert len(identities) == 1


def test_a_wiped_node_comes_back_empty_under_another_identity(lived: Lived) -> None:
    row = lived.verified("wipe")
    start, last = lived.after(row)
    assert start["log_end"] == 0
    assert last["log_end"] > 0
    assert len({each["directory_id"] for each in lived.rows("lifecycle", node="n3", kind="start")}) == 2


def test_packets_of_every_link_are_late_and_connections_are_reset_while_other_faults_go_on(lived: Lived) -> None:
    degraded, reset = lived.verified("degrade"), lived.verified("connection-reset")
    assert "20 links shaped" in degraded["detail"]
    assert re.search(r"[1-9][0-9]* late", degraded["detail"])
    assert re.search(r"[1-9][0-9]* connections reset", reset["detail"])
    for row in (degraded, reset):
        assert "not healed" not in row["detail"]
        assert (row["links"], row["isolated"]) == ([], [])
