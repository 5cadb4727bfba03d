"""Each fault is shown by what it did to real nodes, as their own traces, disks and answers tell it; not by what the fault says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nemesis.life.plan import SHORT_TIMERS
from tests.runs import perform

pytestmark = [pytest.mark.namespaces]
HEAD = 'title = "T"\ntext = "t"\nwarm_up_s = 1.5\ngap_s = 1.0\n'


class Lived:
    """A run that ended, with its tables."""

    def __init__(self, tmp_path: Path, body: str, duration_s: float = 5.0, **options: Any) -> None:
        path = tmp_path / "effect.toml"
        path.write_text(HEAD + body)
        self.run = perform(tmp_path / "store", str(path), 1, timers=SHORT_TIMERS, duration_s=duration_s, **options)
        self.faults = self.rows("faults")
        assert self.faults, "nothing was planned"

    def rows(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        found = pq.read_table(self.run / "tables" / f"{table}.parquet").to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def one(self) -> dict[str, Any]:
        row = self.faults[0]
        assert row["verified"], row["detail"]
        return row

    def life(self, node: str, kind: str) -> list[int]:
        return [row["ts_ns"] for row in self.rows("lifecycle", node=node, kind=kind)]

    def ok_between(self, from_ns: int, to_ns: int) -> int:
        return sum(from_ns < (row["completed_ns"] or 0) < to_ns for row in self.rows("operations", status="ok"))


def fault(name: str, hold: float, **parameters: Any) -> str:
    told = "".join(
        f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value}\n" for key, value in parameters.items()
    )
    return f'[[faults]]\nfault = "{name}"\nhold = {hold}\n{told}'


def test_all_nodes_end_at_once_and_start_in_the_drawn_order(tmp_path: Path) -> None:
    lived = Lived(tmp_path, 'quorum = "unrestricted"\n' + fault("kill", 1.0, targets="all", stagger_ms=150))
    row = lived.one()
    assert set(row["targets"]) == {"n1", "n2", "n3"}
    kills = {node: lived.life(node, "kill")[0] for node in row["targets"]}
    starts = {node: lived.life(node, "start")[1] for node in row["targets"]}
    assert max(kills.values()) < min(starts.values()), "one was back before the last had ended"
    order = sorted(starts, key=lambda node: starts[node])
    assert f"started in the order {', '.join(order)}" in row["detail"]
    assert lived.ok_between(row["started_ns"], min(starts.values())) == 0
    assert lived.ok_between(max(starts.values()), 1 << 62) > 0
    assert (lived.run / "scenario.toml").read_text() == (tmp_path / "effect.toml").read_text()


def test_a_crash_loop_and_cpu_pressure_overlap(tmp_path: Path) -> None:
    body = fault("crash-loop", 8.0, targets="n2", up_ms=700, lane="a") + fault(
        "cpu-pressure", 3.0, targets="n1", burners=6, lane="b"
    )
    lived = Lived(tmp_path, body, duration_s=7.0)
    crashes, pressure = (
        next(row for row in lived.faults if row["fault"] == name) for name in ("crash-loop", "cpu-pressure")
    )
    assert crashes["verified"], crashes["detail"]
    assert pressure["verified"], pressure["detail"]
    assert crashes["started_ns"] < pressure["ended_ns"]
    assert pressure["started_ns"] < crashes["ended_ns"]
    kills = lived.life("n2", "kill")
    assert len(kills) >= 3
    assert len(lived.life("n2", "start")) == len(kills) + 1
    (final,) = (state for state in lived.rows("quorum_states", node="n2", incarnation=len(kills) + 1))
    assert final["problem"] is None, "the last incarnation read what the first ones had written"
    assert not lived.life("n1", "kill")


def test_bits_of_a_log_flip_and_the_node_refuses_to_serve_them(tmp_path: Path) -> None:
    lived = Lived(tmp_path, fault("flip-bits", 1.0, targets="n2", file="segment", bits=3))
    row = lived.one()
    assert "n2 ended by itself with status 1" in row["detail"]
    outputs = sorted((lived.run / "nodes" / "n2" / "output").glob("*.log"))
    assert "damaged-disk" in outputs[-1].read_text()
    assert lived.ok_between(row["ended_ns"], 1 << 62) > 0, "the others go on"
    problems = {state["collection"] for state in lived.rows("quorum_states", node="n2") if state["problem"]}
    assert problems, "the damaged copies are told"
    assert not problems & {entry["collection"] for entry in lived.rows("log_entries", node="n2")}


def test_bits_of_the_stored_vote_flip(tmp_path: Path) -> None:
    lived = Lived(tmp_path, fault("flip-bits", 1.0, targets="n2", file="quorum-state", bits=400))
    row = lived.one()
    assert "n2 ended by itself with status 1" in row["detail"]
    final = [state for state in lived.rows("quorum_states", node="n2") if state["problem"]]
    assert final


def test_a_log_that_was_cut_short_is_shorter_when_the_node_starts(tmp_path: Path) -> None:
    lived = Lived(tmp_path, fault("truncate-file", 1.0, targets="n2", file="segment", bytes=3000))
    lived.one()
    before = max(state["log_end"] for state in lived.rows("quorum_states", node="n2", incarnation=1))
    (start,) = lived.rows("node_events", node="n2", kind="start", incarnation=2)
    assert 0 < start["log_end"] < before
    last = lived.rows("quorum_states", node="n2")[-1]
    assert last["log_end"] > before, "what was missing has been fetched again"


def test_an_old_disk_comes_back_under_the_old_identity(tmp_path: Path) -> None:
    lived = Lived(tmp_path, fault("restore-old-disk", 3.0, targets="n2"))
    lived.one()
    old, newer = (state["log_end"] for state in lived.rows("quorum_states", node="n2")[:2])
    (start,) = lived.rows("node_events", node="n2", kind="start", incarnation=3)
    assert start["log_end"] == old < newer
    identities = {row["directory_id"] for row in lived.rows("node_events", node="n2", kind="start")}
    assert len(identities) == 1


def test_a_majority_comes_back_on_empty_disks(tmp_path: Path) -> None:
    body = 'quorum = "unrestricted"\n' + fault("wipe", 1.0, targets="majority")
    lived = Lived(tmp_path, body, duration_s=3.0)
    row = lived.one()
    assert len(row["targets"]) == 2
    for node in row["targets"]:
        assert len({each["directory_id"] for each in lived.rows("lifecycle", node=node, kind="start")}) == 2
        (start,) = lived.rows("node_events", node=node, kind="start", incarnation=2)
        assert start["log_end"] == 0


def test_flapping_and_memory_pressure_overlap_and_both_are_lifted(tmp_path: Path) -> None:
    body = (
        'quorum = "unrestricted"\n'
        + fault("flapping", 4.0, targets="leader", cut_ms=200, open_ms=150, lane="a")
        + fault("memory-pressure", 2.0, targets="n2", headroom_mib=0, lane="b")
    )
    lived = Lived(tmp_path, body)
    for name, told in (("flapping", "cuts of"), ("memory-pressure", "MiB of address space")):
        row = next(row for row in lived.faults if row["fault"] == name)
        assert row["verified"], row["detail"]
        assert told in row["detail"]
        assert "not healed" not in row["detail"]
        assert row["isolated"] == []
    assert lived.ok_between(max(row["ended_ns"] for row in lived.faults), 1 << 62) > 0
