"""Check ``linearizable``: one tiny history an anomaly with its whole witness, and the legal twin beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checker.checks.linearizable import LINEARIZABLE, judge_table
from checker.kernels.objects import flatten
from checker.verdict import Verdict
from tests.checker.spark_case import Case, judge
from tests.histories import RUN, add, append, cas, history, poll, read, register, table, write
from workloads.history.operation import Operation

Rows = list[dict[str, Any]]


def _judge(*operations: Operation, initial: Mapping[str, int] | None = None) -> tuple[Rows, dict[str, Any]]:
    """Anomalies and the tally."""
    rows = judge_table(flatten(table(history(*operations))), {RUN: initial or {}})
    tallies = [row for row in rows if row["row"] == "tally"]
    assert len(tallies) == 1
    return [row for row in rows if row["row"] == "anomaly"], tallies[0]


def _only(*operations: Operation, initial: Mapping[str, int] | None = None) -> tuple[str, list[int], str]:
    """The message, the operations and the subject of the one anomaly."""
    anomalies, _ = _judge(*operations, initial=initial)
    assert len(anomalies) == 1, anomalies
    found = anomalies[0]
    assert [json.loads(row)["op_id"] for row in found["witness"]] == found["operations"]
    return found["message"], found["operations"], found["subject"]


def _legal(*operations: Operation, initial: Mapping[str, int] | None = None) -> bool:
    return _judge(*operations, initial=initial)[0] == []


def test_stale_read_has_the_whole_witness() -> None:
    rows = write(12, at=(1, 2), key=3), write(17, at=(3, 4), key=3, node="n2"), read(12, at=(16.3, 17), key=3)
    anomalies, _ = _judge(*rows)
    assert anomalies[0]["message"] == (
        "Write of 17 (op 1, process 1 at n2) finished at 0.004 s, 12.3 ms before read (op 2, process 2 at n1) began, "
        "yet the read returned 12, which that write had replaced."
    )
    assert anomalies[0]["subject"] == "key 3"
    assert [json.loads(row) for row in anomalies[0]["witness"]] == [
        {
            "table": "operations", "op_id": number, "process": number, "client_node": node, "f": f, "key": 3,
            "status": "ok", "error": None, "invoked_ns": began, "completed_ns": ended, "offset": None,
            "input": asked, "output": answer,
        }
        for number, node, f, began, ended, asked, answer in [
            (0, "n1", "write", 1_000_000, 2_000_000, [12], []),
            (1, "n2", "write", 3_000_000, 4_000_000, [17], []),
            (2, "n1", "read", 16_300_000, 17_000_000, [], [12]),
        ]
    ]  # fmt: skip
    assert _legal(*rows[:2], read(12, at=(3.5, 17), key=3))


def test_read_of_nothing_after_a_write() -> None:
    message, operations, _ = _only(write(17, at=(0, 1)), read(None, at=(2, 3)))
    assert message.endswith(
        "yet the read returned nothing (the register was unwritten), which that write had replaced."
    )
    assert operations == [0, 1]
    assert _legal(write(17, at=(0, 2)), read(None, at=(1, 3)))


def test_reads_that_see_a_value_come_back() -> None:
    both = write(1, at=(0, 20)), write(2, at=(0, 20)), read(1, at=(1, 2)), read(2, at=(3, 4))
    message, operations, _ = _only(*both, read(1, at=(5, 6)))
    assert message == (
        "Read (op 3, process 3 at n1) finished at 0.004 s, 1.0 ms before read (op 4, process 4 at n1) began and had returned 2, "
        "yet the read returned 1, which 2 had replaced: read (op 2, process 2 at n1) finished at 0.002 s, 1.0 ms before "
        "read (op 3, process 3 at n1) began, so 1 came before 2."
    )
    assert operations == [0, 1, 2, 3, 4]
    assert _legal(*both, read(2, at=(5, 6)))


def test_a_stale_read_is_told_by_the_write_it_missed_also_when_the_new_value_is_read_later() -> None:
    rows = write(1, at=(0, 1)), write(2, at=(2, 3)), read(1, at=(4, 5)), read(2, at=(6, 7))
    message, operations, _ = _only(*rows)
    assert message == (
        "Write of 2 (op 1, process 1 at n1) finished at 0.003 s, 1.0 ms before read (op 2, process 2 at n1) began, "
        "yet the read returned 1, which that write had replaced."
    )
    assert operations == [0, 1, 2]


def test_read_from_the_future() -> None:
    message, _, _ = _only(read(5, at=(0, 1)), write(5, at=(2, 3)))
    assert message == (
        "Read (op 0, process 0 at n1) finished at 0.001 s, 1.0 ms before write of 5 (op 1, process 1 at n1) began, "
        "yet the read had returned 5 already."
    )
    assert _legal(read(5, at=(0, 2)), write(5, at=(2, 3)))


def test_read_of_a_value_that_nobody_wrote() -> None:
    message, _, _ = _only(write(1, at=(0, 1)), read(99, at=(2, 3)))
    assert message == "Read (op 1, process 1 at n1) returned 99, which no operation wrote."


def test_aborted_read() -> None:
    message, operations, _ = _only(write(5, at=(0, 1), status="fail"), read(5, at=(2, 3)))
    assert message == (
        "Read (op 1, process 1 at n1) returned 5, which only write of 5 (op 0, process 0 at n1) would have written, and that "
        "failed (NOT_LEADER_OR_FOLLOWER)."
    )
    assert operations == [0, 1]
    assert _legal(write(5, at=(0, None)), read(5, at=(2, 3)))


def test_two_swaps_of_one_value() -> None:
    first = write(1, at=(0, 1))
    message, operations, _ = _only(first, cas(1, 2, at=(2, 9)), cas(1, 3, at=(2, 9)))
    assert message == (
        "Compare-and-set 1→2 (op 1, process 1 at n1) and compare-and-set 1→3 (op 2, process 2 at n1) both replaced 1, which was "
        "written once, by write of 1 (op 0, process 0 at n1)."
    )
    assert operations == [0, 1, 2]
    assert _legal(first, cas(1, 2, at=(2, 9)), cas(2, 3, at=(2, 9)))
    assert _legal(first, cas(1, 2, at=(2, 9)), cas(1, 3, at=(2, 9), status="fail"))


def test_shortest_circle_of_swaps() -> None:
    message, operations, _ = _only(
        cas(1, 2, at=(0, 9)), cas(2, 1, at=(0, 9)), cas(3, 4, at=(0, 9)), write(3, at=(0, 9))
    )
    assert message == (
        "Compare-and-set 1→2 (op 0, process 0 at n1) and compare-and-set 2→1 (op 1, process 1 at n1) form a circle: each needs "
        "the value of the one before, and none can have been the first."
    )
    assert operations == [0, 1]


def test_read_of_a_value_swapped_away() -> None:
    chain = write(1, at=(0, 1)), cas(1, 2, at=(2, 3)), cas(2, 3, at=(4, 5))
    message, operations, _ = _only(*chain, read(1, at=(6, 7)))
    assert message == (
        "Compare-and-set 2→3 (op 2, process 2 at n1) finished at 0.005 s, 1.0 ms before read (op 3, process 3 at n1) began, yet "
        "the read returned 1, which compare-and-set 1→2 (op 1, process 1 at n1) had replaced by then."
    )
    assert operations == [0, 1, 2, 3]
    assert _legal(*chain, read(3, at=(6, 7)))


def test_stale_poll_of_a_log() -> None:
    rows = append(7, 0, at=(0, 1)), append(8, 1, at=(2, 3))
    message, operations, subject = _only(*rows, poll({0: 7}, 1, at=(4, 5), node="n3"))
    assert message == (
        "Append of 8 (op 1, process 1 at n1) finished at 0.003 s, 1.0 ms before read of the log from offset 0 (op 2, process 2 at "
        "n3) began; the first has offset 1, yet the later one showed the log up to offset 1 (exclusive)."
    )
    assert (operations, subject) == ([1, 2], "log")
    assert _legal(*rows, poll({0: 7}, 1, at=(2, 5)))


def test_poll_cut_off_by_size_is_not_stale() -> None:
    many = {offset: offset + 1 for offset in range(1000)}
    later = append(9999, 2000, at=(0, 1))
    assert _legal(later, poll(many, 1000, at=(2, 3)))
    del many[999]
    assert not _legal(later, poll(many, 1000, at=(2, 3)))


def test_unknown_append_that_was_seen_stands_where_it_was_seen() -> None:
    seen = append(7, None, at=(4, None)), poll({3: 7}, 4, at=(5, 6))
    assert _legal(*seen, append(8, 4, at=(0, 3))) is False
    assert _legal(*seen, append(8, 2, at=(0, 3)))


def test_addition_that_returned_less_than_an_earlier_one() -> None:
    rows = add(0, at=(0, 1)), add(1, at=(4, 5)), add(2, at=(2, 3))
    message, operations, subject = _only(*rows)
    assert message == (
        "Addition of 1 (op 2, process 2 at n1) finished at 0.003 s, 1.0 ms before addition of 1 (op 1, process 1 at n1) began; "
        "the first returned 2, yet the later one returned 1."
    )
    assert (operations, subject) == ([2, 1], "counter")
    assert _legal(rows[0], add(1, at=(3, 5)), rows[2])


def test_two_additions_with_one_answer() -> None:
    message, _, _ = _only(add(0, at=(0, 9), delta=1000), add(0, at=(0, 9), delta=1000))
    assert message == (
        "Addition of 1000 (op 0, process 0 at n1) and addition of 1000 (op 1, process 1 at n1) both returned 0."
    )
    assert _legal(add(0, at=(0, 9), delta=1000), add(1000, at=(0, 9), delta=1000))


def test_gap_that_no_unknown_addition_fills() -> None:
    rows = add(0, at=(0, 1), delta=1000), add(3000, at=(4, 5), delta=1000), add(None, at=(2, None), delta=1000)
    message, operations, _ = _only(*rows, initial={"counter": 0})
    assert message == (
        "Addition of 1000 (op 0, process 0 at n1) returned 0 and the next answer was 3000, of addition of 1000 (op 1, process 1 at "
        "n1), instead of 1000: additions of 2000 in all are nobody's, for the 1 of unknown outcome cannot account for it."
    )
    assert operations == [0, 2, 1]
    assert _legal(*rows, add(None, at=(3, None), delta=1000))


def test_counter_that_began_elsewhere() -> None:
    assert _legal(add(1000, at=(0, 1), delta=1000))
    assert not _legal(add(1000, at=(0, 1), delta=1000), initial={"counter": 0})


def test_deltas_that_differ_are_searched() -> None:
    rows = add(0, at=(0, 1), delta=1), add(6, at=(4, 5), delta=1)
    assert _legal(*rows, add(None, at=(2, None), delta=2), add(None, at=(2, None), delta=3))
    message, _, _ = _only(*rows, add(None, at=(2, None), delta=2), add(None, at=(2, None), delta=4))
    assert message == (
        "No order of the operations explains addition of 1 (op 1, process 1 at n1), which returned 6 by 0.005 s; when it had to "
        "take effect the value could only be 1."
    )


def test_registrations_follow_the_log_and_keep_their_epoch() -> None:
    first, second = register(1, 71, 400, at=(0, 1)), register(2, 72, 500, at=(2, 3))
    again = register(1, 71, 400, at=(4, 5))
    assert _legal(first, second, again)
    message, _, _ = _only(first, second, register(3, 73, 450, at=(4, 5)))
    assert "the first got epoch 500, yet the later one got epoch 450" in message


def test_repeated_values_are_searched() -> None:
    rows = write(1, at=(0, 1)), write(2, at=(2, 3)), write(1, at=(4, 5))
    assert _legal(*rows, read(1, at=(6, 7)))
    message, operations, _ = _only(*rows, read(2, at=(6, 7)))
    assert message == (
        "No order of the operations explains read (op 3, process 3 at n1), which returned 2 by 0.007 s; when it had to take "
        "effect the value could only be 1."
    )
    assert operations == [0, 1, 2, 3]


def test_what_the_search_convicts_is_shrunk_to_what_contradicts() -> None:
    noise = [write(100 + number, at=(number, number + 1)) for number in range(20)]
    reads = [read(100 + number, at=(number + 0.5, number + 1)) for number in range(20)]
    wrong = (
        write(1, at=(30, 31)),
        write(2, at=(32, 33)),
        write(2, at=(32, 33)),
        read(1, at=(34, 35)),
        read(2, at=(36, 37)),
    )
    _, operations, _ = _only(*noise, *reads, *wrong)
    assert operations == [40, 41, 42, 43]


def test_out_of_bounds_is_unknown_and_names_the_operation() -> None:
    anomalies, tally = _judge(*[write(number % 3, at=(0, 100)) for number in range(70)])
    assert anomalies == []
    assert "ran out of its bounds at write of" in tally["unknown"]


def test_keys_and_runs_are_apart() -> None:
    rows = write(1, at=(0, 1), key=1), write(2, at=(2, 3), key=2), read(1, at=(4, 5), key=1)
    assert _legal(*rows)
    two_runs = pa.concat_tables([table(history(*rows[:2]), "a/1"), table(history(rows[2]), "b/1")])
    found = judge_table(flatten(two_runs), {})
    assert [row["run_id"] for row in found if row["row"] == "anomaly"] == ["b/1"]
    assert sorted(row["run_id"] for row in found if row["row"] == "tally") == ["a/1", "b/1"]


def test_counts_what_was_exercised() -> None:
    _, tally = _judge(write(1, at=(0, 1)), read(1, at=(0.5, 2)), read(1, at=(3, 4)), read(1, at=(3, None)))
    assert (tally["evidence_rows"], tally["exercised"]) == (4, 1)


@pytest.mark.parametrize("count", [0, 1])
def test_little_evidence(count: int) -> None:
    rows = judge_table(flatten(table(history(*[write(1, at=(0, 1))] * count))), {})
    assert [row["evidence_rows"] for row in rows] == [1] * count


@pytest.mark.spark
def test_spark_says_what_the_process_says(spark: Any, tmp_path: Path) -> None:
    stale_read = history(
        write(12, at=(0, 1)), write(17, at=(2, 3)), read(12, at=(4, 5)), read(17, at=(4, 5), stale=True)
    )
    cases = {
        "legal": Case(history(write(12, at=(0, 1)), read(12, at=(4, 5)), read(99, at=(4, 5), stale=True))),
        "stale-read": Case(stale_read),
        "stale-poll": Case(history(append(7, 0, at=(0, 1)), poll({}, 0, at=(2, 3)))),
        "gap": Case(history(add(5, at=(0, 1))), initial_values={"counter": 0}),
        "no-gap": Case(history(add(5, at=(0, 1)))),
        "out-of-bounds": Case(history(*[write(number % 3, at=(0, 100)) for number in range(70)])),
    }
    results = judge(spark, tmp_path, LINEARIZABLE, cases)
    assert {name: result.verdict for name, result in results.items()} == {
        "legal": Verdict.VALID,
        "stale-read": Verdict.INVALID,
        "stale-poll": Verdict.INVALID,
        "gap": Verdict.INVALID,
        "no-gap": Verdict.VALID,
        "out-of-bounds": Verdict.UNKNOWN,
    }
    assert (results["legal"].evidence_rows, results["legal"].exercised) == (2, 1)
    (found,) = results["stale-read"].anomalies
    anomalies, _ = _judge(*stale_read[:3])
    assert found.message == anomalies[0]["message"]
    assert [dict(row) for row in found.witness] == [json.loads(row) for row in anomalies[0]["witness"]]
    assert "ran out of its bounds at write of" in results["out-of-bounds"].reason


def test_benchmark_judges_its_own_histories_legal() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "benchmarks/checker.py", "--small", "--no-spark", "--repetitions", "1"],
        cwd=root, env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()[1:]]
    assert rows == [["log", "1,000"], ["log", "10,000"], ["register", "1,000"], ["register", "10,000"]]
