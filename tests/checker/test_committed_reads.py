"""Check ``committed-reads``: one tiny run an anomaly with its sentence, the legal twin beside it, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from checker.checks.committed_reads import COMMITTED_READS
from checker.verdict import CheckResult, Verdict
from tests.checker.spark_case import Case, entry, judge, on_all
from tests.histories import MS, At, history, poll, read, write
from workloads.history.operation import Operation

pytestmark = pytest.mark.spark


def stale(value: int | None, at: At, key: int = 1, **more: Any) -> Operation:
    return read(value, at=at, key=key, stale=True, **{"process": 50, **more})


def log(*values: int, key: int = 1) -> list[dict[str, Any]]:
    """The same log on three final disks: the epoch's start, then writes of the values."""
    return on_all(
        entry("", 0, None, None), *(entry("", offset, "write", value, key) for offset, value in enumerate(values, 1))
    )


def case(*operations: Operation, disks: Sequence[Mapping[str, Any]] = (), starts: Sequence[float] = ()) -> Case:
    lifecycle = [
        {
            "node": "n1",
            "directory_id": "dir-n1",
            "assigned": False,
            "incarnation": number,
            "kind": "start",
            "ts_ns": int(at * MS),
        }
        for number, at in enumerate(starts)
    ]
    return Case(history(*operations), {"log_entries": disks, "lifecycle": lifecycle})


ONE, TWO = write(1, at=(0, 1), key=1), write(2, at=(2, 3), key=1)

CASES: Mapping[str, Case] = {
    "old but committed": case(ONE, TWO, stale(1, at=(13, 14)), stale(2, at=(15, 16)), disks=log(1, 2)),
    "back": case(ONE, TWO, stale(2, at=(4, 5)), stale(1, at=(6, 7)), disks=log(1, 2)),
    "back at another node": case(ONE, TWO, stale(2, at=(4, 5)), stale(1, at=(6, 7), node="n2"), disks=log(1, 2)),
    "back in another session": case(ONE, TWO, stale(2, at=(4, 5)), stale(1, at=(6, 7), process=51), disks=log(1, 2)),
    "back after a restart": case(ONE, TWO, stale(2, at=(4, 5)), stale(1, at=(7, 8)), disks=log(1, 2), starts=(0, 6)),
    "back to nothing": case(ONE, stale(1, at=(4, 5)), stale(None, at=(6, 7)), disks=log(1)),
    "back over two keys": case(
        ONE, TWO, write(5, at=(2, 3), key=2), stale(5, at=(4, 5), key=2), stale(1, at=(6, 7)),
        disks=[*log(1, 2), *on_all(entry("", 3, "write", 5, 2))],
    ),
    "forward over two keys": case(
        ONE, TWO, write(5, at=(2, 3), key=2), stale(5, at=(4, 5), key=2), stale(2, at=(6, 7)),
        disks=[*log(1, 2), *on_all(entry("", 3, "write", 5, 2))],
    ),
    "nobody wrote it": case(ONE, stale(9, at=(4, 5)), disks=log(1)),
    "failed": case(ONE, write(9, at=(2, 3), key=1, status="fail"), stale(9, at=(4, 5)), disks=log(1)),
    "never committed": case(ONE, write(9, at=(2, None), key=1), stale(9, at=(4, 5)), disks=log(1)),
    "unknown but committed": case(ONE, write(9, at=(2, None), key=1), stale(9, at=(4, 5)), disks=log(1, 9)),
    "unknown without disks": case(ONE, write(9, at=(2, None), key=1), stale(9, at=(4, 5))),
    "torn": case(write(1, at=(0, 1), key=1, offset=1), write(2, at=(2, 3), key=1, offset=2), stale(1, at=(4, 5), offset=3)),
    "whole": case(write(1, at=(0, 1), key=1, offset=1), write(2, at=(2, 3), key=1, offset=2), stale(1, at=(4, 5), offset=2)),
    "from above": case(write(1, at=(0, 1), key=1, offset=1), stale(1, at=(4, 5), offset=1)),
    "high watermark falls": case(
        poll({}, 9, at=(0, 1), stale=True, process=50), poll({}, 8, at=(2, 3), stale=True, process=50)
    ),
    "high watermark stays": case(
        poll({}, 9, at=(0, 1), stale=True, process=50), poll({}, 9, at=(2, 3), stale=True, process=50)
    ),
    "nothing stale": case(ONE, read(1, at=(4, 5), key=1)),
}  # fmt: skip

LEGAL = (
    "old but committed", "back at another node", "back in another session", "back after a restart", "forward over two keys",
    "unknown but committed", "unknown without disks", "whole", "high watermark stays", "nothing stale",
)  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CheckResult]:
    named = {name.replace(" ", "-"): each for name, each in CASES.items()}
    judged = judge(spark, tmp_path_factory.mktemp("runs"), COMMITTED_READS, named)
    return dict(zip(CASES, judged.values(), strict=True))


@pytest.mark.parametrize("name", LEGAL)
def test_legal(results: Mapping[str, CheckResult], name: str) -> None:
    assert results[name].anomalies == ()
    assert results[name].verdict is Verdict.VALID


def test_staleness_is_measured_and_not_judged(results: Mapping[str, CheckResult]) -> None:
    result = results["old but committed"]
    assert result.metrics == {
        "stale_reads": 2, "behind": 1, "versions_max": 1, "versions_p99": pytest.approx(0.99), "staleness_ms_max": 10,
        "staleness_ms_p99": pytest.approx(9.9),
    }  # fmt: skip
    assert (result.evidence_rows, result.exercised) == (2, 1)
    assert results["nothing stale"].evidence_rows == 0


@pytest.mark.parametrize(
    ("name", "operations", "message"),
    [
        (
            "back", (2, 3),
            ("Read (op 2, process 50 at n1) finished at 0.005 s, 1.0 ms before read (op 3, process 50 at n1) began; op 2 returned 2 of "
            "key 1 and so proves the first 3 records of the log, yet the same node then showed a state of at most 2: op 3 returned 1 "
            "of key 1."),
        ),
        (
            "back to nothing", (1, 2),
            ("Read (op 1, process 50 at n1) finished at 0.005 s, 1.0 ms before read (op 2, process 50 at n1) began; op 1 returned 1 of "
            "key 1 and so proves the first 2 records of the log, yet the same node then showed a state of at most 1: op 2 returned "
            "nothing (the register was unwritten) of key 1."),
        ),
        (
            "back over two keys", (3, 4),
            ("Read (op 3, process 50 at n1) finished at 0.005 s, 1.0 ms before read (op 4, process 50 at n1) began; op 3 returned 5 of "
            "key 2 and so proves the first 4 records of the log, yet the same node then showed a state of at most 2: op 4 returned 1 "
            "of key 1."),
        ),
        ("nobody wrote it", (1,), "Read (op 1, process 50 at n1) of key 1 returned 9, which no operation wrote."),
        (
            "failed", (2,),
            ("Read (op 2, process 50 at n1) of key 1 returned 9, which only write of 9 (op 1, process 1 at n1) would have written, and "
            "that failed (NOT_LEADER_OR_FOLLOWER)."),
        ),
        (
            "never committed", (2,),
            ("Read (op 2, process 50 at n1) of key 1 returned 9, which only write of 9 (op 1, process 1 at n1) of unknown outcome would "
            "have written, and no final log holds it: it was never committed."),
        ),
        (
            "torn", (2,),
            ("Read (op 2, process 50 at n1) of key 1 returned 1 and said that the log was applied up to offset 3, yet write of 2 (op 1, "
            "process 1 at n1) at offset 2, below that, had replaced it."),
        ),
        (
            "from above", (1,),
            ("Read (op 1, process 50 at n1) of key 1 returned 1 and said that the log was applied up to offset 1, yet write of 1 (op 0, "
            "process 0 at n1) stands at offset 1, at or above that."),
        ),
        (
            "high watermark falls", (0, 1),
            ("Read of the log from offset 0 (op 0, process 50 at n1) finished at 0.001 s, 1.0 ms before read of the log from offset 0 "
            "(op 1, process 50 at n1) began; op 0 showed high watermark 9 and so proves the first 9 records of the log, yet the same "
            "node then showed a state of at most 8: op 1 showed high watermark 8."),
        ),
    ],
)  # fmt: skip
def test_anomaly(results: Mapping[str, CheckResult], name: str, operations: tuple[int, ...], message: str) -> None:
    found = results[name].anomalies
    assert [(anomaly.operations, anomaly.message) for anomaly in found] == [(operations, message)]
    assert {row["op_id"] for row in found[0].witness} >= set(operations)
