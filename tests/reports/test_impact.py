"""What a fault did: counted on the cut-off side, and measured from its start and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.impact import Impact, impacts, longest_pause_ns
from reports.load import read_run
from reports.roles import read_roles
from tests.reports import stored_runs
from tests.reports.stored_runs import MS, RUN_ID, S


def operation(
    op_id: int, at_ms: int, took_ms: int | None, node: str, *, f: str = "write", status: str = "ok", pinned: bool = True
) -> dict[str, Any]:
    return {
        "run_id": RUN_ID,
        "op_id": op_id,
        "process": op_id,
        "client_node": node,
        "pinned": pinned,
        "f": f,
        "key": 0,
        "input": [],
        "output": [],
        "status": status,
        "invoked_ns": at_ms * MS,
        "completed_ns": None if took_ms is None else (at_ms + took_ms) * MS,
        "consistency": "linearizable",
        "phase": "load",
    }


OPERATIONS = [
    operation(0, 900, 5, "n1"),
    operation(1, 1100, None, "n1", status="info"),
    operation(2, 1200, 4, "n1", f="read"),
    operation(3, 1300, 3, "n1", status="fail"),
    operation(4, 1310, 6, "n1"),
    operation(5, 1700, 8, "n2", pinned=False),
    operation(6, 3002, 3, "n2"),
    operation(7, 3020, 4, "n1"),
]
FAULT = {
    "run_id": RUN_ID,
    "fault_id": 0,
    "fault": "partition-leader",
    "targets": ["n1"],
    "links": [],
    "planned_ns": 990 * MS,
    "started_ns": 1 * S,
    "ended_ns": 3 * S,
    "verified": True,
    "leader": "n1",
    "leader_epoch": 4,
    "isolated": ["n1"],
    "replaced": False,
    "detail": "",
}


def measured(
    folder: Path, faults: list[dict[str, Any]], samples: list[dict[str, Any]] | None = None
) -> tuple[Impact, ...]:
    tables = {"operations": OPERATIONS, "faults": faults, "quorum_samples": samples or []}
    run = read_run(stored_runs.store(folder / "run", run_verdict=stored_runs.verdict(), tables=tables))
    return impacts(run, read_roles(run.tables, 4 * S), 4 * S)


def test_the_cut_off_side_is_counted(tmp_path: Path) -> None:
    (impact,) = measured(tmp_path, [FAULT])
    assert (impact.invoked, impact.acknowledged, impact.read) == (4, 1, 1)
    assert [(cut.node, cut.invoked, cut.acknowledged) for cut in impact.cut_off] == [("n1", 4, 2)]


def test_recovery_is_measured_where_the_fault_hit(tmp_path: Path) -> None:
    (impact,) = measured(tmp_path, [FAULT])
    assert impact.next_answer_ns == 708 * MS
    assert impact.recovery_ns == 24 * MS


def test_a_leader_of_a_later_epoch_is_the_new_one(tmp_path: Path) -> None:
    claims = [
        {"run_id": RUN_ID, "node": node, "ts_ns": at * MS, "claims_leadership": True, "leader": node, "epoch": epoch}
        for node, at, epoch in (("n1", 1200, 4), ("n2", 1650, 5))
    ]
    (impact,) = measured(tmp_path, [FAULT], claims)
    assert impact.new_leader_ns == 650 * MS


def test_an_election_after_the_next_fault_is_not_this_one_s(tmp_path: Path) -> None:
    claim = {"run_id": RUN_ID, "node": "n2", "ts_ns": 3500 * MS, "claims_leadership": True, "leader": "n2", "epoch": 5}
    following = {**FAULT, "fault_id": 1, "started_ns": 3200 * MS, "ended_ns": 3800 * MS}
    assert [impact.new_leader_ns for impact in measured(tmp_path, [FAULT, following], [claim])] == [None, 300 * MS]


def test_a_fault_that_was_not_reached_did_nothing(tmp_path: Path) -> None:
    (impact,) = measured(tmp_path, [{**FAULT, "started_ns": None, "ended_ns": None, "verified": None}])
    assert not impact.happened
    assert (impact.invoked, impact.recovery_ns) == (0, None)


def test_the_longest_standstill_is_between_changes_not_reads(tmp_path: Path) -> None:
    run = read_run(
        stored_runs.store(tmp_path / "run", run_verdict=stored_runs.verdict(), tables={"operations": OPERATIONS})
    )
    assert longest_pause_ns(run.operations) == (3005 - 1708) * MS
