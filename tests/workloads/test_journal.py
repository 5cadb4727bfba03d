"""The journal keeps what was flushed, drops a torn tail, and never misreads anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.history.operation import Completion, FaultRow, Invocation, Phase, Status
from workloads.history.schema import OPERATIONS
from workloads.journal import COMPLETED, Journal
from workloads.journal_frames import Found, encode_frame, encode_header, read_frames, segment_path
from workloads.journal_tables import NEVER_COMPLETED, read_journal
from workloads.problem import Problem

WRITE = Invocation("write", 3, (17,))
READ = Invocation("read", 3)
RUN = "none/20260101T000000Z-1"


def write_frames(directory: Path, payloads: list[bytes]) -> bytes:
    data = encode_header(RUN, 0) + b"".join(encode_frame(number, each) for number, each in enumerate(payloads))
    directory.mkdir(exist_ok=True)
    segment_path(directory, 0).write_bytes(data)
    return data


def frames(directory: Path) -> tuple[list[bytes], Found]:
    found = Found()
    return [frame.payload for frame in read_frames(directory, found)], found


def test_an_operation_is_one_row_of_its_two_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    journal.invoked(0, 4, "n1", True, WRITE, phase=Phase.LOAD, at_ns=100)
    journal.completed(0, Completion(Status.OK, (), offset=9, epoch=2, node="n2"), 150)
    journal.close()

    contents = read_journal(tmp_path)

    assert contents.tables["operations"].to_pylist() == [
        {
            "run_id": RUN,
            "op_id": 0,
            "process": 4,
            "client_node": "n2",
            "pinned": True,
            "f": "write",
            "key": 3,
            "input": [17],
            "output": [],
            "status": "ok",
            "error": None,
            "invoked_ns": 100,
            "completed_ns": 150,
            "consistency": "linearizable",
            "phase": "load",
            "offset": 9,
            "epoch": 2,
        }
    ]
    assert contents.tables["operations"].schema.equals(OPERATIONS)
    assert (contents.run_id, contents.torn_bytes, contents.closed) == (RUN, 0, True)


def test_operations_without_an_end_are_info(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    journal.invoked(0, 0, "n1", True, WRITE, phase=Phase.LOAD, at_ns=1)
    journal.invoked(1, 1, "n2", False, READ, phase=Phase.FINAL, at_ns=2)
    journal.completed(1, Completion(Status.OK, (5,)), 3)
    journal.invoked(2, 2, "n3", True, WRITE, phase=Phase.LOAD, at_ns=4)
    journal.completed(2, Completion(Status.INFO, error="timed-out"), 5)
    journal.close()

    rows = read_journal(tmp_path).tables["operations"].to_pylist()

    ends = [(row["status"], row["output"], row["error"], row["completed_ns"], row["client_node"]) for row in rows]
    assert ends == [
        ("info", [], NEVER_COMPLETED, None, "n1"),
        ("ok", [5], None, 3, "n2"),
        ("info", [], "timed-out", None, "n3"),
    ]


def test_of_a_fault_the_last_record_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    planned = FaultRow(0, "isolate-leader", ("n1",), ("n1>n2",), 5, None, None, None, "n1", 2)
    journal.fault(planned)
    journal.fault(FaultRow(0, "isolate-leader", ("n1",), ("n1>n2",), 5, 6, 7, True, "n1", 2, ("n1",)))
    journal.append("lifecycle", {"node": "n1", "assigned": False, "incarnation": 1, "kind": "start", "ts_ns": 3})
    journal.note(8, "a sentence")
    journal.close()

    tables = read_journal(tmp_path).tables

    assert [(row["ended_ns"], row["verified"]) for row in tables["faults"].to_pylist()] == [(7, True)]
    assert tables["lifecycle"]["kind"].to_pylist() == ["start"]
    assert tables["notes"].to_pylist() == [{"run_id": RUN, "ts_ns": 8, "text": "a sentence"}]
    assert tables["operations"].num_rows == 0


@pytest.mark.parametrize(
    ("table", "row", "named"),
    [
        ("operatoins", {}, "operatoins"),
        ("notes", {"ts_ns": 1, "text": "x", "colour": "red"}, "colour"),
        ("notes", {"ts_ns": 1}, "text"),
    ],
)
def test_a_row_of_the_wrong_shape_is_refused_when_it_is_written(
    tmp_path: Path, table: str, row: dict[str, object], named: str
) -> None:
    journal = Journal(tmp_path, RUN)
    with pytest.raises(ValueError, match=named):
        journal.append(table, row)
    journal.close()


def test_segments_roll_and_read_as_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN, segment_bytes=600)
    for op_id in range(50):
        journal.invoked(op_id, 0, "n1", True, WRITE, phase=Phase.LOAD, at_ns=op_id)
        journal.flush()
    journal.close()

    assert len(list(tmp_path.glob("*.journal"))) > 5
    assert read_journal(tmp_path).tables["operations"]["op_id"].to_pylist() == list(range(50))


def test_appends_from_many_threads_all_arrive(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN, flush_rows=50, flush_interval_s=0.001)

    def work(first: int) -> None:
        for op_id in range(first, first + 2000):
            journal.invoked(op_id, 0, "n1", True, WRITE, phase=Phase.LOAD, at_ns=op_id)
            journal.completed(op_id, Completion(Status.OK), op_id + 1)

    threads = [threading.Thread(target=work, args=(number * 2000,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()

    operations = read_journal(tmp_path).tables["operations"]
    assert operations["op_id"].to_pylist() == list(range(8000))
    assert set(operations["status"].to_pylist()) == {"ok"}


def test_a_journal_is_never_continued(tmp_path: Path) -> None:
    Journal(tmp_path, RUN).close()
    with pytest.raises(Problem) as caught:
        Journal(tmp_path, RUN)
    assert caught.value.slug == "history-exists"


def test_after_a_failed_write_nothing_more_is_written_or_accepted(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN, flush_interval_s=60)
    journal.note(1, "kept")
    journal.flush()
    journal._file.close()
    journal._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the journal closes it
    journal.note(2, "lost")
    with pytest.raises(Problem) as caught:
        journal.flush()
    assert caught.value.slug == "history-unwritable"
    with pytest.raises(Problem):
        journal.note(3, "refused")
    with pytest.raises(Problem):
        journal.close()
    assert read_journal(tmp_path).tables["notes"]["text"].to_pylist() == ["kept"]


PAYLOADS = [bytes([number]) * (number * 7 + 1) for number in range(6)]


def test_cut_at_every_byte_leaves_a_prefix_and_counts_the_rest(tmp_path: Path) -> None:
    whole = write_frames(tmp_path, PAYLOADS)
    path = segment_path(tmp_path, 0)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        left, found = frames(tmp_path)
        assert left == PAYLOADS[: len(left)]
        assert found.torn_bytes == size - (
            len(encode_header(RUN, 0)) + sum(len(encode_frame(0, each)) for each in left) if size >= 256 else 0
        )


@settings(deadline=None, max_examples=400)
@given(data=st.data())
def test_a_changed_byte_is_refused_or_drops_the_tail_and_is_never_misread(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    whole = bytearray(write_frames(directory, PAYLOADS))
    position = data.draw(st.integers(0, len(whole) - 1), label="position")
    whole[position] ^= data.draw(st.integers(1, 255), label="flip")
    segment_path(directory, 0).write_bytes(whole)
    last_frame = len(whole) - len(encode_frame(5, PAYLOADS[5]))
    if position < last_frame + 16:
        with pytest.raises(Problem) as caught:
            frames(directory)
        assert caught.value.slug in ("history-torn", "history-foreign")
    else:
        left, found = frames(directory)
        assert left == PAYLOADS[:5], "of the last frame's payload nobody can tell whether it was torn"
        assert found.torn_bytes == len(whole) - last_frame


def test_zeros_after_a_power_loss_are_a_torn_tail(tmp_path: Path) -> None:
    whole = write_frames(tmp_path, PAYLOADS)
    segment_path(tmp_path, 0).write_bytes(whole + bytes(5000))
    left, found = frames(tmp_path)
    assert (left, found.torn_bytes) == (PAYLOADS, 5000)


def test_a_torn_segment_before_another_is_damage(tmp_path: Path) -> None:
    write_frames(tmp_path, PAYLOADS)
    path = segment_path(tmp_path, 0)
    path.write_bytes(path.read_bytes()[:-1])
    segment_path(tmp_path, 1).write_bytes(encode_header(RUN, 1))
    with pytest.raises(Problem) as caught:
        frames(tmp_path)
    assert caught.value.slug == "history-torn"


def test_a_missing_segment_and_a_missing_frame_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    segment_path(tmp_path / "a", 1).write_bytes(encode_header(RUN, 1))
    with pytest.raises(Problem, match="number 0 is missing"):
        frames(tmp_path / "a")
    (tmp_path / "b").mkdir()
    segment_path(tmp_path / "b", 0).write_bytes(
        encode_header(RUN, 0) + encode_frame(0, b"zero") + encode_frame(2, b"two")
    )
    with pytest.raises(Problem, match="frame 2 stands where frame 1 belongs"):
        frames(tmp_path / "b")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"PAR1" + bytes(400), "no journal"),
        (encode_header(RUN, 3), "segment 3"),
        (encode_header(RUN, 0).replace(b"\0\x01\0", b"\0\x09\0", 1), "its version is 9"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, header: bytes, why: str) -> None:
    segment_path(tmp_path, 0).write_bytes(header)
    with pytest.raises(Problem, match=why) as caught:
        frames(tmp_path)
    assert caught.value.slug == "history-foreign"


def test_a_segment_of_another_run_is_refused(tmp_path: Path) -> None:
    write_frames(tmp_path, PAYLOADS)
    segment_path(tmp_path, 1).write_bytes(encode_header("another/run", 1))
    with pytest.raises(Problem, match="another/run"):
        frames(tmp_path)


def test_no_journal_at_all_is_a_problem_and_not_an_empty_history(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        read_journal(tmp_path)
    assert caught.value.slug == "history-missing"


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([[COMPLETED, 7, "ok", [], None, 5, None, None, None]], "never invoked"),
        ([[9, 1]], "kind 9"),
        ([[COMPLETED, 7, "fine", [], None, 5, None, None, None]], "status"),
        ([[COMPLETED, 7]], "values"),
        ({"a": 1}, "frame 0"),
    ],
)
def test_whole_frames_that_make_no_sense_are_refused(tmp_path: Path, records: object, why: str) -> None:
    write_frames(tmp_path, [msgspec.msgpack.encode(records)])
    with pytest.raises(Problem, match=why) as caught:
        read_journal(tmp_path)
    assert caught.value.slug == "history-foreign"


def test_an_operation_that_ended_twice_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    journal.invoked(0, 0, "n1", True, WRITE, phase=Phase.LOAD, at_ns=1)
    journal.completed(0, Completion(Status.OK), 2)
    journal.completed(0, Completion(Status.FAIL), 3)
    journal.close()
    with pytest.raises(Problem, match="completed twice"):
        read_journal(tmp_path)


_WRITER = """
import sys
from pathlib import Path
from workloads.history.operation import Completion, Invocation, Phase, Status
from workloads.journal import Journal

journal = Journal(Path(sys.argv[1]), "killed/run", flush_interval_s=60, segment_bytes=4000)
for op_id in range(1000):
    journal.invoked(op_id, 0, "n1", True, Invocation("write", 1, (op_id,)), phase=Phase.LOAD, at_ns=op_id)
    if op_id % 10:
        journal.completed(op_id, Completion(Status.OK), op_id + 1)
    if op_id % 100 == 99:
        journal.flush()
journal.invoked(1000, 0, "n1", True, Invocation("read", 1), phase=Phase.LOAD, at_ns=1000)
print("flushed", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_writer_had_flushed_is_read_and_open_operations_are_info(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"flushed\n"
        writer.send_signal(signal.SIGKILL)

    contents = read_journal(tmp_path)

    operations = contents.tables["operations"]
    assert operations["op_id"].to_pylist() == list(range(1000)), "the unflushed one is lost, nothing else"
    by_status = operations.group_by("status").aggregate([("op_id", "count")])
    assert dict(zip(*by_status.to_pydict().values(), strict=True)) == {"ok": 900, "info": 100}
    assert not contents.closed
    assert isinstance(operations, pa.Table)
