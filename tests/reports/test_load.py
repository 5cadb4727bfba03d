"""Reading a stored run: what is indispensable raises a problem with a remedy, what is not becomes a warning."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from checker.verdict import Verdict
from checker.verdict_json import encode_verdict
from reports.load import FAIL, INFO, NEVER, OK, read_run, read_verdict
from tests.reports import stored_runs
from tests.reports.witnesses import convicted, lingering_leader, stale_read
from workloads.problem import Problem


def test_a_verdict_is_read_as_the_checker_writes_it(tmp_path: Path) -> None:
    written = stored_runs.verdict(
        Verdict.INVALID,
        "Invalid.",
        {"linearizable": [stale_read()], "leader-resigns": [lingering_leader()]},
        expected=Verdict.INVALID,
    )
    run = stored_runs.store(tmp_path / "run")
    (run / "verdict.json").write_bytes(encode_verdict(written))
    assert msgspec.to_builtins(read_verdict(run)) == msgspec.to_builtins(written)


def test_a_run_that_was_not_checked_says_what_to_type(tmp_path: Path) -> None:
    run = stored_runs.store(tmp_path / "run")
    with pytest.raises(Problem) as caught:
        read_run(run)
    assert caught.value.slug == "verdict-missing"
    assert caught.value.remedy == f"Check the run first: nemesis check {run}"


def test_no_run_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        read_run(tmp_path)
    assert caught.value.slug == "run-missing"


@pytest.mark.parametrize("content", [b"", b'{"schema_version": 1, "verdict": "perhaps"', b'{"schema_version": 1}'])
def test_a_damaged_verdict_is_a_problem(tmp_path: Path, content: bytes) -> None:
    run = stored_runs.store(tmp_path / "run")
    (run / "verdict.json").write_bytes(content)
    with pytest.raises(Problem) as caught:
        read_run(run)
    assert caught.value.slug == "verdict-damaged"


def test_a_newer_verdict_is_not_misread(tmp_path: Path) -> None:
    run = stored_runs.store(tmp_path / "run", run_verdict=stored_runs.verdict())
    later = (run / "verdict.json").read_bytes().replace(b'"schema_version": 1', b'"schema_version": 99')
    (run / "verdict.json").write_bytes(later)
    with pytest.raises(Problem) as caught:
        read_run(run)
    assert caught.value.slug == "verdict-newer"


def test_operations_become_arrays_in_order_of_invocation(tmp_path: Path) -> None:
    first, second, third = stored_runs.operations()[:3]
    rows = [
        {**third, "invoked_ns": 30, "completed_ns": None, "status": "info", "client_node": None},
        {**first, "invoked_ns": 10, "completed_ns": 15, "status": "ok", "client_node": "n2"},
        {**second, "invoked_ns": 20, "completed_ns": 21, "status": "fail", "client_node": "n1"},
    ]
    run = stored_runs.store(tmp_path / "run", run_verdict=stored_runs.verdict(), tables={"operations": rows})
    operations = read_run(run).operations
    assert operations.invoked_ns.tolist() == [10, 20, 30]
    assert operations.completed_ns.tolist() == [15, 21, NEVER]
    assert operations.status.tolist() == [OK, FAIL, INFO]
    assert [operations.nodes[code] for code in operations.node[:2]] == ["n2", "n1"]
    assert operations.node[2] == -1


def test_tables_that_are_absent_or_torn_are_warnings(tmp_path: Path) -> None:
    run = stored_runs.store(
        tmp_path / "run", run_verdict=stored_runs.verdict(), tables={"faults": stored_runs.faults()}
    )
    (run / "tables" / "quorum_samples.parquet").write_bytes(b"PAR1 torn")
    read = read_run(run)
    assert len(read.operations) == 0
    assert len(read.faults) == 3
    assert len(read.warnings) == 2
    assert "operations is not in the store" in read.warnings[0]
    assert "quorum_samples cannot be read" in read.warnings[1]


def test_a_table_without_a_later_column_is_read(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    run = convicted(tmp_path / "run")
    path = run / "tables" / "operations.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["pinned"]), path)
    read = read_run(run)
    assert not np.any(read.operations.pinned)
    assert len(read.operations) > 1000
    assert read.warnings == ()
