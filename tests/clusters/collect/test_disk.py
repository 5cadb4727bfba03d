"""Copies of disks become rows: logs, quorum states and snapshots, whole, torn and foreign."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.collect.collection import Collection
from clusters.collect.disk import collect_disk
from clusters.collect.log_segments import checksum, read_log
from clusters.collect.meta_properties import MetaProperties, write_meta_properties
from clusters.evidence.identity import uuid_to_text
from clusters.evidence.schema import LOG_ENTRIES, QUORUM_STATES, SNAPSHOTS
from clusters.wire import control_records
from clusters.wire.batches import Record, encode_batch
from clusters.wire.problems import WireError
from workloads.history.manifest import CandidateEntry, Manifest, Timers
from workloads.problem import Problem

DISK = UUID("10000000-0000-4000-8000-000000000001")
DISK_TEXT = uuid_to_text(DISK)
MANIFEST = Manifest(
    run_id="s/1",
    scenario="s",
    scenario_title="s",
    seed=1,
    argv=(),
    started_at="",
    started_monotonic_ns=1000,
    tool_version="",
    backend="local",
    candidate=CandidateEntry(name="c", version="", quorum="dynamic", promises=(), evidence=(), generation="kip-996"),
    nodes=(),
    timers=Timers(election_timeout_ms=1, fetch_timeout_ms=1, check_quorum_ms=1, request_timeout_ms=1),
    workload="log",
    rate=1,
    concurrency=1,
    duration_s=1,
)


def control(offset: int, epoch: int, *messages: control_records.ControlMessage) -> bytes:
    pairs = [control_records.encode_control(each) for each in messages]
    return encode_batch(
        [Record(offset + at, 0, key, value) for at, (key, value) in enumerate(pairs)], epoch=epoch, control=True
    )


def data(offset: int, epoch: int, *values: int) -> bytes:
    return encode_batch([Record(offset + at, 0, None, b"%d" % value) for at, value in enumerate(values)], epoch=epoch)


def decode(key: bytes | None, value: bytes | None) -> tuple[str, int | None, int | None]:
    if value is None or not value.isdigit():
        raise WireError("no number")
    return "append", None, int(value)


LEADER_CHANGE = control(0, 1, control_records.leader_change(2, [(1, DISK), (2, DISK)]))


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(LEADER_CHANGE + data(1, 1, 10, 11))
    (directory / "00000000000000000003.log").write_bytes(data(3, 2, 12))
    return directory


def test_segments_become_rows_in_order(log_directory):
    log = read_log(log_directory, decode)
    columns = log.columns
    assert (log.start, log.end, log.last_epoch, log.torn) == (0, 4, 2, None)
    assert columns.offset == [0, 1, 2, 3]
    assert columns.epoch == [1, 1, 1, 2]
    assert columns.kind == ["leader_change", "data", "data", "data"]
    assert columns.f == [None, "append", "append", "append"]
    assert columns.value == [None, 10, 11, 12]
    assert columns.leader == ["n2", None, None, None]
    assert columns.voters == [[f"n1/{DISK_TEXT}", f"n2/{DISK_TEXT}"], None, None, None]


def test_checksums_tell_content_apart_and_nothing_else():
    one = Record(5, 100, b"k", b"v")
    assert checksum("data", one) == checksum("data", Record(9, 200, b"k", b"v"))
    others = [
        checksum("control", one),
        checksum("data", Record(5, 100, b"kv", b"")),
        checksum("data", Record(5, 100, b"kv", None)),
        checksum("data", Record(5, 100, None, b"kv")),
        checksum("data", Record(5, 100, b"k", b"v", ((b"h", b""),))),
        checksum("data", Record(5, 100, b"k", b"v", ((b"h", None),))),
    ]
    assert len({checksum("data", one), *others}) == 7


def test_the_same_records_in_other_batches_have_the_same_checksums(log_directory, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "00000000000000000000.log").write_bytes(LEADER_CHANGE + data(1, 1, 10) + data(2, 1, 11) + data(3, 2, 12))
    assert read_log(other, decode).columns == read_log(log_directory, decode).columns


def test_a_torn_tail_is_cut_off_at_every_byte(log_directory):
    whole = data(3, 2, 12)
    last = log_directory / "00000000000000000003.log"
    for size in range(1, len(whole)):
        last.write_bytes(whole[:size])
        log = read_log(log_directory, decode)
        assert (log.columns.offset, log.end, log.last_epoch) == ([0, 1, 2], 3, 1)
        assert "00000000000000000003.log" in (log.torn or "")


def test_a_torn_segment_that_is_not_the_last_is_damage(log_directory):
    first = log_directory / "00000000000000000000.log"
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(Problem) as caught:
        read_log(log_directory, decode)
    assert caught.value.slug == "damaged-log-segment"
    assert first.name in caught.value.what


def test_a_batch_that_stands_behind_later_offsets_is_damage(log_directory):
    """A bit of its base offset has flipped, which no checksum covers."""
    (first, *_) = sorted(log_directory.glob("*.log"))
    first.write_bytes(LEADER_CHANGE + data(5, 1, 10) + data(2, 1, 11))
    with pytest.raises(Problem, match="offset 2 stands behind offset 5") as caught:
        read_log(log_directory, decode)
    assert caught.value.slug == "damaged-log-segment"


@pytest.mark.parametrize(
    "content", [b"not a log at all, but some text that is longer than a header of a batch", b"\x7fELF" * 40]
)
def test_a_foreign_segment_is_a_problem(log_directory, content):
    (log_directory / "00000000000000000004.log").write_bytes(content)
    with pytest.raises(Problem) as caught:
        read_log(log_directory, decode)
    assert caught.value.slug == "foreign-log-segment"


def test_a_log_file_without_a_base_offset_is_foreign(log_directory):
    (log_directory / "server.log").write_bytes(b"")
    with pytest.raises(Problem, match=r"server\.log"):
        read_log(log_directory, decode)


def test_a_record_of_another_candidate_is_a_problem(log_directory):
    (log_directory / "00000000000000000004.log").write_bytes(encode_batch([Record(4, 0, None, b"other")], epoch=2))
    with pytest.raises(Problem) as caught:
        read_log(log_directory, decode)
    assert caught.value.slug == "foreign-record"


def collection(run: Path, number: int, *, final: bool = False, assigned: bool = False) -> Path:
    directory = run / "nodes" / "n1" / "collections" / str(number)
    (directory / "__cluster_metadata-0").mkdir(parents=True)
    (directory / "collection.json").write_bytes(
        msgspec.json.encode(
            Collection(
                node="n1",
                directory_id="assigned-by-us" if assigned else DISK_TEXT,
                assigned=assigned,
                incarnation=number,
                number=number,
                ts_ns=number * 100,
                final=final,
                reason="kill",
            )
        )
    )
    return directory


def test_collections_become_tables(tmp_path):
    early, late = collection(tmp_path, 0), collection(tmp_path, 1, final=True)
    for directory in (early, late):
        (directory / "meta.properties").write_text(write_meta_properties(MetaProperties("c", 1, DISK_TEXT)))
        (directory / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(LEADER_CHANGE)
    (early / "__cluster_metadata-0" / "quorum-state").write_bytes(b'{"leaderId":')
    (late / "__cluster_metadata-0" / "quorum-state").write_bytes(
        b'{"leaderId":2,"leaderEpoch":1,"votedId":3,"votedDirectoryId":"%s","data_version":1}' % DISK_TEXT.encode()
    )
    tables = collect_disk(tmp_path, MANIFEST, "n1", decode)
    assert tables["log_entries"].schema.equals(LOG_ENTRIES)
    assert tables["quorum_states"].schema.equals(QUORUM_STATES)
    assert tables["snapshots"].schema.equals(SNAPSHOTS)
    assert tables["log_entries"].column("final").to_pylist() == [False, True]
    torn, whole = tables["quorum_states"].to_pylist()
    assert torn["epoch"] is None
    assert "torn" in torn["problem"]
    assert whole == {
        "run_id": "s/1",
        "node": "n1",
        "directory_id": DISK_TEXT,
        "incarnation": 1,
        "collection": 1,
        "ts_ns": 100,
        "epoch": 1,
        "voted_for": "n3",
        "voted_for_directory_id": DISK_TEXT,
        "leader": "n2",
        "log_start": 0,
        "log_end": 1,
        "log_epoch": 1,
        "problem": None,
    }


def test_a_damaged_log_is_no_evidence_and_stops_nobody(tmp_path):
    for number in (0, 1):
        (collection(tmp_path, number) / "__cluster_metadata-0" / "quorum-state").write_bytes(
            b'{"leaderId":2,"leaderEpoch":1,"votedId":-1,"data_version":0}'
        )
    whole = LEADER_CHANGE + data(1, 1, 10) + data(2, 1, 11)
    at = len(LEADER_CHANGE) + len(data(1, 1, 10)) - 3
    for number, content in ((0, whole), (1, whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])):
        path = tmp_path / "nodes" / "n1" / "collections" / str(number) / "__cluster_metadata-0"
        (path / "00000000000000000000.log").write_bytes(content)
    tables = collect_disk(tmp_path, MANIFEST, "n1", decode)
    assert set(tables["log_entries"].column("collection").to_pylist()) == {0}
    first, second = tables["quorum_states"].to_pylist()
    assert (first["problem"], first["log_end"], first["epoch"]) == (None, 3, 1)
    assert (second["log_end"], second["epoch"]) == (None, 1)
    assert "is damaged in its middle" in second["problem"]


@given(st.integers(0, 2**32), st.integers(1, 200))
def test_no_flipped_bits_of_a_disk_raise_anything(seed, bits):
    """Bit rot is a fault of the catalogue: whatever is left of the files, reading them must not fail."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        partition = collection(Path(folder), 0) / "__cluster_metadata-0"
        files = {
            "quorum-state": b'{"leaderId":2,"leaderEpoch":1,"votedId":3,"votedDirectoryId":"%s","data_version":1}'
            % DISK_TEXT.encode(),
            "00000000000000000000.log": LEADER_CHANGE + data(1, 1, 10) + data(2, 1, 11),
            "00000000000000000009-0000000004.checkpoint": BEGIN
            + data(3, 4, 1, 2)
            + control(5, 4, control_records.snapshot_footer()),
        }
        for name, content in files.items():
            damaged = bytearray(content)
            for place in chance.sample(range(8 * len(damaged)), bits):
                damaged[place // 8] ^= 1 << (place % 8)
            (partition / name).write_bytes(damaged)
        (row,) = collect_disk(Path(folder), MANIFEST, "n1", decode)["quorum_states"].to_pylist()
        assert row["problem"] is not None or bits < 20


def test_a_disk_without_a_directory_id_goes_by_the_assigned_one(tmp_path):
    directory = collection(tmp_path, 0, assigned=True)
    (directory / "meta.properties").write_text(write_meta_properties(MetaProperties("c", 1, None)))
    assert collect_disk(tmp_path, MANIFEST, "n1", decode)["quorum_states"].column("directory_id").to_pylist() == [
        "assigned-by-us"
    ]


def test_an_identity_that_a_wiped_disk_kept_is_told_as_the_disk_tells_it(tmp_path):
    directory = collection(tmp_path, 0)
    kept = uuid_to_text(UUID(int=77))
    (directory / "meta.properties").write_text(write_meta_properties(MetaProperties("c", 1, kept)))
    assert collect_disk(tmp_path, MANIFEST, "n1", decode)["quorum_states"].column("directory_id").to_pylist() == [kept]


def test_a_node_without_collections_has_empty_tables(tmp_path):
    tables = collect_disk(tmp_path, MANIFEST, "n1", decode)
    assert {name: table.num_rows for name, table in tables.items()} == {
        "log_entries": 0,
        "quorum_states": 0,
        "snapshots": 0,
    }


def test_a_damaged_collection_is_a_problem(tmp_path):
    (collection(tmp_path, 0) / "collection.json").write_text("{")
    with pytest.raises(Problem) as caught:
        collect_disk(tmp_path, MANIFEST, "n1", decode)
    assert caught.value.slug == "damaged-collection"


VOTERS = control_records.voters_record([control_records.VoterAddress(1, DISK, "h", 1)])
BEGIN = control(0, 4, control_records.snapshot_header(0), control_records.kraft_version(1), VOTERS)


def snapshots(run: Path, content: bytes, name: str = "00000000000000000009-0000000004.checkpoint"):
    directory = collection(run, 0) / "__cluster_metadata-0"
    (directory / name).write_bytes(content)
    return collect_disk(run, MANIFEST, "n1", decode)["snapshots"].to_pylist()


def test_a_complete_snapshot_has_a_digest_and_voters(tmp_path):
    (row,) = snapshots(tmp_path, BEGIN + data(3, 4, 1, 2) + control(5, 4, control_records.snapshot_footer()))
    assert (row["end_offset"], row["epoch"], row["complete"], row["voters"]) == (9, 4, True, [f"n1/{DISK_TEXT}"])
    assert row["digest"] is not None


def test_the_digest_knows_content_and_not_order(tmp_path):
    end = control(5, 4, control_records.snapshot_footer())
    digests = [
        snapshots(tmp_path / name, BEGIN + body + end)[0]["digest"]
        for name, body in {"a": data(3, 4, 1, 2), "b": data(3, 4, 2, 1), "c": data(3, 4, 1, 3)}.items()
    ]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("content", [b"", BEGIN, BEGIN + data(3, 4, 1), BEGIN[:-1]])
def test_a_snapshot_without_its_footer_is_not_complete(tmp_path, content):
    (row,) = snapshots(tmp_path, content)
    assert (row["complete"], row["digest"]) == (False, None)


def test_parts_and_deleted_snapshots_are_none(tmp_path):
    assert snapshots(tmp_path, BEGIN, "00000000000000000009-0000000004.checkpoint.part") == []


def test_a_foreign_snapshot_is_the_problem_of_its_copy_and_no_evidence(tmp_path):
    directory = collection(tmp_path, 0)
    (directory / "__cluster_metadata-0" / "00000000000000000009-0000000004.checkpoint").write_bytes(b"x" * 100)
    tables = collect_disk(tmp_path, MANIFEST, "n1", decode)
    assert tables["snapshots"].num_rows == 0
    assert "is no snapshot of KRaft" in tables["quorum_states"].to_pylist()[0]["problem"]
