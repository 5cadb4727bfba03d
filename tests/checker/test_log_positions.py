"""Check ``log-positions``: one tiny run an anomaly with its sentence and operations, and the legal twin beside it, in one job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checker.checks.log_positions import LOG_POSITIONS
from checker.verdict import CheckResult, Verdict
from tests.checker.spark_case import Case, entry, judge, on_all
from tests.histories import add, append, cas, history, poll, write

pytestmark = pytest.mark.spark

EPOCH_START = entry("", 0, None, None)

CASES: Mapping[str, Case] = {
    "agreement": Case(
        history(append(7, 1, at=(0, 1)), append(8, 2, at=(2, 3)), poll({1: 7, 2: 8}, 3, at=(4, 5)), poll({2: 8}, 3, at=(4, 5), begin=2)),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "append", 7), entry("", 2, "append", 8))},
    ),
    "two acknowledged at one offset": Case(history(append(7, 1, at=(0, 1)), append(8, 1, at=(0, 3), node="n2"))),
    "a poll shows another value": Case(history(append(7, 1, at=(0, 1)), append(8, None, at=(0, None)), poll({1: 8}, 2, at=(2, 3)))),
    "a disk holds another value": Case(
        history(append(7, 1, at=(0, 1)), append(8, None, at=(0, None))),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "append", 8))},
    ),
    "a disk holds another kind of record": Case(
        history(append(7, 0, at=(0, 1))), {"log_entries": on_all(EPOCH_START)}
    ),
    "an uncommitted tail says nothing": Case(
        history(append(7, 1, at=(0, 1)), append(8, None, at=(0, None))),
        {
            "log_entries": [
                *on_all(EPOCH_START, entry("", 1, "append", 7, below_high_watermark=True))[:4],
                entry("n3", 0, None, None), entry("n3", 1, "append", 8),
            ]
        },
    ),
    "a value at two offsets": Case(history(append(7, 1, at=(0, 1)), poll({2: 7}, 3, at=(2, 3), begin=2))),
    "order by answers": Case(history(append(7, 5, at=(0, 1)), append(8, 4, at=(2, 3)))),
    "order by answers, twin": Case(history(append(7, 5, at=(0, 2)), append(8, 4, at=(2, 3)))),
    "order by disks": Case(
        history(write(7, at=(0, 1), key=1), write(8, at=(2, 3), key=1)),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "write", 8, 1), entry("", 2, "write", 7, 1))},
    ),
    "order by disks, twin": Case(
        history(write(7, at=(0, 1), key=1), write(8, at=(2, None), key=1)),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "write", 7, 1), entry("", 2, "write", 8, 1))},
    ),
    "order of additions": Case(
        history(add(0, at=(0, 1), delta=1000), add(1000, at=(2, 3), delta=1000)),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "add", 2000), entry("", 2, "add", 1000))},
    ),
    "order of additions, twin": Case(
        history(add(0, at=(0, 1), delta=1000), add(1000, at=(2, 3), delta=1000)),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "add", 1000), entry("", 2, "add", 2000))},
    ),
    "a refused swap has a place in the log": Case(
        history(write(1, at=(0, 1), key=1, offset=1), cas(5, 6, at=(2, 3), key=1, status="fail")),
        {"log_entries": on_all(EPOCH_START, entry("", 1, "write", 1, 1), entry("", 2, "cas", 6, 1))},
    ),
    "hole": Case(history(append(7, 1, at=(0, 1)), append(8, 2, at=(2, 3)), append(9, 3, at=(2, 3)), poll({1: 7, 3: 9}, 4, at=(4, 5)))),
    "hole at the end": Case(history(append(7, 1, at=(0, 1)), poll({}, 2, at=(4, 5)))),
    "cut off before the end": Case(history(append(7, 1, at=(0, 1)), append(8, 2, at=(2, 3)), poll({1: 7}, 3, at=(4, 5)))),
    "stale and empty": Case(history(append(7, 1, at=(0, 1)), poll({}, 2, at=(4, 5), stale=True))),
    "unasked": Case(history(append(7, 1, at=(0, 1)), poll({1: 7, 2: 99}, 3, at=(4, 5)))),
    "failed": Case(history(append(7, 1, at=(0, 1), status="fail"), poll({1: 7}, 2, at=(4, 5)))),
    "disorder": Case(history(append(7, 1, at=(0, 1)), append(8, 2, at=(2, 3)), poll({2: 8, 1: 7}, 3, at=(4, 5)))),
    "above the high watermark": Case(history(append(7, 1, at=(0, 9)), poll({1: 7}, 1, at=(4, 5)))),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CheckResult]:
    folder = tmp_path_factory.mktemp("runs")
    named = {name.replace(" ", "-").replace(",", ""): case for name, case in CASES.items()}
    judged = judge(spark, folder, LOG_POSITIONS, named)
    return dict(zip(CASES, judged.values(), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "agreement", "an uncommitted tail says nothing", "order by answers, twin", "order by disks, twin",
        "order of additions, twin", "a refused swap has a place in the log", "cut off before the end", "stale and empty",
    ],
)  # fmt: skip
def test_legal(results: Mapping[str, CheckResult], name: str) -> None:
    assert results[name].anomalies == ()
    assert results[name].verdict is Verdict.VALID


def test_counts_places_told_more_than_once(results: Mapping[str, CheckResult]) -> None:
    assert (results["agreement"].evidence_rows, results["agreement"].exercised) == (7, 3)


@pytest.mark.parametrize(
    ("name", "operations", "message"),
    [
        (
            "two acknowledged at one offset", (0, 1),
            ("Append of 7 (op 0, process 0 at n1) was acknowledged at offset 1, but append of 8 (op 1, process 1 at n2) was "
            "acknowledged at offset 1."),
        ),
        (
            "a poll shows another value", (0, 2),
            ("Append of 7 (op 0, process 0 at n1) was acknowledged at offset 1, but read of the log from offset 0 (op 2, process 2 at "
            "n1) showed 8 at offset 1."),
        ),
        (
            "a disk holds another value", (0,),
            "Append of 7 (op 0, process 0 at n1) was acknowledged at offset 1, but the disk of n1 holds 8 at offset 1.",
        ),
        (
            "a disk holds another kind of record", (0,),
            ("The disk of n1 holds a record of kind leader_change at offset 0, but append of 7 (op 0, process 0 at n1) was acknowledged at "
            "offset 0."),
        ),
        (
            "a value at two offsets", (0, 1),
            ("Append of 7 (op 0, process 0 at n1) was acknowledged at offset 1, but read of the log from offset 2 (op 1, process 1 at "
            "n1) showed 7 at offset 2: value 7 stands at two offsets."),
        ),
        (
            "order by answers", (0, 1),
            ("Append of 7 (op 0, process 0 at n1) finished at 0.001 s, 1.0 ms before append of 8 (op 1, process 1 at n1) began, yet the "
            "append of 7 stands at offset 5 of the log, behind the append of 8 at offset 4."),
        ),
        (
            "order by disks", (0, 1),
            ("Write of 7 (op 0, process 0 at n1) finished at 0.001 s, 1.0 ms before write of 8 (op 1, process 1 at n1) began, yet the "
            "write of 7 stands at offset 2 of the log, behind the write of 8 at offset 1."),
        ),
        (
            "order of additions", (0, 1),
            ("Addition of 1000 (op 0, process 0 at n1) finished at 0.001 s, 1.0 ms before addition of 1000 (op 1, process 1 at n1) "
            "began, yet the addition of 1000 stands at offset 2 of the log, behind the addition of 1000 at offset 1."),
        ),
        (
            "hole", (1, 3),
            ("Append of 8 (op 1, process 1 at n1) was acknowledged at offset 2, but read of the log from offset 0 (op 3, process 3 at "
            "n1) shows the log up to offset 4 without it."),
        ),
        (
            "hole at the end", (0, 1),
            ("Append of 7 (op 0, process 0 at n1) was acknowledged at offset 1, but read of the log from offset 0 (op 1, process 1 at "
            "n1) shows the log up to offset 2 without it."),
        ),
        ("unasked", (1,), "Read of the log from offset 0 (op 1, process 1 at n1) showed 99 at offset 2, which nobody appended."),
        (
            "failed", (1,),
            ("Read of the log from offset 0 (op 1, process 1 at n1) showed 7 at offset 1, which only append of 7 (op 0, process 0 at "
            "n1) would have appended, and that failed (NOT_LEADER_OR_FOLLOWER)."),
        ),
        ("disorder", (2,), "Read of the log from offset 0 (op 2, process 2 at n1) showed offsets that do not rise from 0 on."),
        (
            "above the high watermark", (1,),
            ("Read of the log from offset 0 (op 1, process 1 at n1) showed offset 1, which is not below the high watermark 1 of the "
            "same answer."),
        ),
    ],
)  # fmt: skip
def test_anomaly(results: Mapping[str, CheckResult], name: str, operations: tuple[int, ...], message: str) -> None:
    found = results[name].anomalies
    assert [(anomaly.operations, anomaly.message) for anomaly in found] == [(operations, message)]
    shown = {row["op_id"] for row in found[0].witness if row["table"] == "operations"}
    assert shown >= set(operations)


def test_witness_holds_the_disks(results: Mapping[str, CheckResult], tmp_path: Path) -> None:
    (found,) = results["order by disks"].anomalies
    assert [(row["table"], row.get("offset"), row.get("value")) for row in found.witness] == [
        ("operations", None, None), ("log_entries", 2, 7), ("operations", None, None), ("log_entries", 1, 8),
    ]  # fmt: skip
