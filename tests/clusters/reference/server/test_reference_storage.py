"""A replica's files: what is persisted comes back, whatever is torn, cut or rolled; what cannot be trusted stops the start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_world import MemoryDisk

from clusters.candidates.reference.core.effects import Persist, QuorumState
from clusters.candidates.reference.core.messages import ReplicaKey
from clusters.candidates.reference.core.records import DATA, LEADER_CHANGE, Batch, LeaderChange
from clusters.candidates.reference.server.real_disk import OsDisk
from clusters.candidates.reference.server.storage import Storage
from clusters.collect.leader_epochs import read_leader_epochs
from clusters.collect.log_segments import read_log
from clusters.wire.metadata_topic import PARTITION_NAME
from clusters.wire.reference_records import Command
from workloads.problem import Problem

DISK = "AAAAAAAAQACAAAAAAAAAZQ"
SEGMENT_BYTES = 400


def change(offset: int, epoch: int) -> Batch:
    return Batch(offset, epoch, LEADER_CHANGE, (LeaderChange(1, (f"n1/{DISK}", f"n2/{DISK}")),))


def data(offset: int, epoch: int, *values: int) -> Batch:
    return Batch(offset, epoch, DATA, tuple(Command("append", value) for value in values))


def opened(disk: MemoryDisk) -> tuple[Storage, list[Batch], QuorumState | None]:
    storage = Storage(disk, SEGMENT_BYTES)
    recovered = storage.recover()
    return storage, list(recovered.batches), recovered.quorum_state


def records(batches: list[Batch]) -> list[tuple[int, int, object]]:
    return [
        (offset, batch.epoch, record)
        for batch in batches
        for offset, record in enumerate(batch.records, batch.base_offset)
    ]


LOG = [change(0, 1), data(1, 1, 10, 11), data(3, 1, 12), change(4, 3), data(5, 3, 13)]


def test_an_empty_disk_has_nothing():
    _, batches, state = opened(MemoryDisk())
    assert (batches, state) == ([], None)


def test_what_was_persisted_comes_back():
    disk = MemoryDisk()
    state = QuorumState(3, None, ReplicaKey(2, DISK))
    storage, _, _ = opened(disk)
    storage.persist(Persist(quorum_state=state, append=list(LOG)), 5)
    disk.power_cut()
    assert opened(disk)[1:] == (LOG, state)


def test_bytes_of_a_batch_are_kept_as_they_were_first_written():
    disk = MemoryDisk()
    storage, _, _ = opened(disk)
    storage.persist(Persist(append=list(LOG)), 5)
    again = opened(disk)[1]
    assert [each.encoded for each in again] == [each.encoded for each in LOG]
    assert all(each.encoded for each in again)


def test_what_was_not_synced_is_lost_by_a_power_cut_and_only_that():
    disk = MemoryDisk()
    storage, _, _ = opened(disk)
    storage.persist(Persist(quorum_state=QuorumState(1), append=[LOG[0]]), 5)
    storage.persist(Persist(quorum_state=QuorumState(2), sync_quorum_state=False, append=[LOG[1]], sync_log=False), 5)
    assert opened(disk)[1:] == (LOG[:2], QuorumState(2))
    disk.power_cut()
    assert opened(disk)[1:] == (LOG[:1], QuorumState(1))


def test_a_torn_tail_is_cut_off_at_every_byte_and_written_over():
    whole = MemoryDisk()
    storage, _, _ = opened(whole)
    storage.persist(Persist(append=[LOG[0], LOG[1]]), 5)
    path = f"{PARTITION_NAME}/{0:020d}.log"
    content = whole.current[path]
    for size in range(len(LOG[0].encoded), len(content)):
        disk = MemoryDisk()
        disk.current[path] = disk.durable[path] = content[:size]
        storage, batches, _ = opened(disk)
        assert batches == [LOG[0]]
        storage.persist(Persist(append=[data(1, 2, 7)]), 5)
        assert opened(disk)[1] == [LOG[0], data(1, 2, 7)]


def test_segments_roll_and_come_back_in_order():
    disk = MemoryDisk()
    storage, _, _ = opened(disk)
    batches = [data(offset, 1, offset) for offset in range(20)]
    for batch in batches:
        storage.persist(Persist(append=[batch]), 5)
    assert len([name for name in disk.names(PARTITION_NAME) if name.endswith(".log")]) > 3
    disk.power_cut()
    assert opened(disk)[1] == batches


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(st.integers(1, 4).map(lambda n: ("append", n)), st.integers(0, 30).map(lambda n: ("cut", n))),
        max_size=25,
    )
)
def test_any_appends_and_truncations_give_the_same_log_as_in_memory(steps):
    disk = MemoryDisk()
    storage, _, _ = opened(disk)
    expected: list[tuple[int, int, object]] = []
    for epoch, (step, number) in enumerate(steps, 1):
        if step == "append":
            batch = data(len(expected), epoch, *range(number))
            storage.persist(Persist(append=[batch]), 5)
            expected += records([batch])
        else:
            cut = min(number, len(expected))
            storage.persist(Persist(truncate_to=cut), 5)
            expected = expected[:cut]
        assert storage.end_offset == len(expected)
    disk.power_cut()
    assert records(opened(disk)[1]) == expected


def test_the_epoch_checkpoint_follows_the_log(tmp_path):
    storage = Storage(OsDisk(tmp_path), SEGMENT_BYTES)
    storage.recover()
    path = tmp_path / PARTITION_NAME / "leader-epoch-checkpoint"
    storage.persist(Persist(append=list(LOG)), 5)
    assert read_leader_epochs(path) == [(1, 0), (3, 4)]
    storage.persist(Persist(truncate_to=4, append=[change(4, 5)]), 5)
    assert read_leader_epochs(path) == [(1, 0), (5, 4)]


def test_collectors_read_what_the_server_writes(tmp_path):
    storage = Storage(OsDisk(tmp_path), SEGMENT_BYTES)
    storage.recover()
    storage.persist(Persist(quorum_state=QuorumState(3, 1), append=list(LOG)), 5)
    storage.close()
    log = read_log(tmp_path / PARTITION_NAME, lambda _key, _value: None)
    assert (log.end, log.last_epoch, log.torn) == (6, 3, None)
    assert log.columns.kind == ["leader_change", "data", "data", "data", "leader_change", "data"]
    assert log.columns.voters[0] == [f"n1/{DISK}", f"n2/{DISK}"]
    assert sorted(path.name for path in (tmp_path / PARTITION_NAME).glob("*.tmp")) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("quorum-state", b""),
        ("quorum-state", b'{"leaderId":'),
        (f"{7:020d}.log", b""),
        (f"{0:020d}.log", b"some text that is surely no batch, and long enough to be told apart from a torn one"),
        ("foreign.log", b""),
    ],
)
def test_a_disk_that_cannot_be_trusted_is_not_started_on(name, content):
    disk = MemoryDisk()
    disk.current[f"{PARTITION_NAME}/{name}"] = content
    with pytest.raises(Problem) as caught:
        opened(disk)
    assert caught.value.slug == "damaged-disk"


def test_a_gap_between_batches_is_not_started_on():
    disk = MemoryDisk()
    storage, _, _ = opened(disk)
    storage.persist(Persist(append=list(LOG)), 5)
    path = f"{PARTITION_NAME}/{0:020d}.log"
    disk.current[path] = LOG[0].encoded + LOG[2].encoded
    with pytest.raises(Problem, match="where 1 is due"):
        opened(disk)
