"""meta.properties, quorum-state and leader-epoch-checkpoint: Kafka's own texts, torn and foreign ones."""

from __future__ import annotations

import pytest

from clusters.collect.leader_epochs import read_leader_epochs, write_leader_epochs
from clusters.collect.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from clusters.collect.quorum_state import (
    StoredQuorumState,
    parse_quorum_state,
    read_quorum_state,
    write_quorum_state,
)
from workloads.problem import Problem

DISK = "Zm9vYmFyYmF6cXV4MTIzNA"
KRAFT_0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
)
KRAFT_1 = b'{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"%s","data_version":1}' % DISK.encode()


def test_quorum_states_as_kafka_writes_them():
    assert parse_quorum_state(KRAFT_0) == StoredQuorumState(epoch=2, leader_id=1)
    assert parse_quorum_state(KRAFT_1) == StoredQuorumState(epoch=7, voted_for_id=3, voted_for_directory_id=DISK)


def test_a_missing_quorum_state_has_no_epoch_and_no_problem(tmp_path):
    assert read_quorum_state(tmp_path / "quorum-state") == StoredQuorumState()


def test_every_cut_of_a_quorum_state_is_a_problem_and_never_a_lower_epoch():
    for size in range(len(KRAFT_1)):
        found = parse_quorum_state(KRAFT_1[:size])
        assert found.problem is not None
        assert found.epoch is None


@pytest.mark.parametrize(
    "data",
    [
        bytes(80),
        KRAFT_1.replace(b'"data_version":1', b'"data_version":2'),
        KRAFT_1.replace(b'"leaderEpoch":7', b'"leaderEpoch":-7'),
        KRAFT_1.replace(DISK.encode(), b"?"),
        b'["foreign"]',
    ],
)
def test_foreign_quorum_states_are_problems(data):
    found = parse_quorum_state(data)
    assert (found.epoch, found.problem is None) == (None, False)


@pytest.mark.parametrize(("epoch", "leader_id", "voted_for"), [(0, None, None), (7, 2, None), (9, None, (3, DISK))])
def test_a_written_quorum_state_is_read_back(epoch, leader_id, voted_for):
    voted_id, directory_id = voted_for or (None, None)
    assert parse_quorum_state(write_quorum_state(epoch, leader_id, voted_for)) == StoredQuorumState(
        epoch, leader_id, voted_id, directory_id
    )


def test_meta_properties_as_kafka_writes_them(tmp_path):
    path = tmp_path / "meta.properties"
    path.write_text(f"#\n#Sat Nov 21 10:00:00 UTC 2026\ncluster.id=abc\ndirectory.id={DISK}\nnode.id=2\nversion=1\n")
    assert read_meta_properties(path) == MetaProperties("abc", 2, DISK)
    path.write_text("#\ncluster.id=abc\nversion=1\nnode.id=2\n")
    assert read_meta_properties(path) == MetaProperties("abc", 2, None)
    assert read_meta_properties(tmp_path / "none") is None


@pytest.mark.parametrize("directory_id", [None, DISK])
def test_written_meta_properties_are_read_back(tmp_path, directory_id):
    written = MetaProperties("abc", 2, directory_id)
    path = tmp_path / "meta.properties"
    path.write_text(write_meta_properties(written))
    assert read_meta_properties(path) == written


@pytest.mark.parametrize(
    "data", [b"", b"version=1\n", b"\xff\xfe", b"version=7\ncluster.id=a\nnode.id=1\n", b"version=1\ncluster.id"]
)
def test_foreign_meta_properties_are_problems(tmp_path, data):
    path = tmp_path / "meta.properties"
    path.write_bytes(data)
    with pytest.raises(Problem) as caught:
        read_meta_properties(path)
    assert caught.value.slug == "foreign-meta-properties"


def test_leader_epochs_as_kafka_writes_them(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n1 0\n4 17\n")
    assert read_leader_epochs(path) == [(1, 0), (4, 17)]
    assert write_leader_epochs([(1, 0), (4, 17)]) == path.read_text()
    assert read_leader_epochs(tmp_path / "none") == []


def test_every_cut_of_leader_epochs_is_a_problem(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    whole = "0\n2\n1 0\n4 17\n"
    for size in range(len(whole)):
        path.write_text(whole[:size])
        with pytest.raises(Problem):
            read_leader_epochs(path)
