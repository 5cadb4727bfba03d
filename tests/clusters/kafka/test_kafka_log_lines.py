"""Lines that controllers of each generation really wrote, and what is read from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from clusters.candidates.kafka.log_lines import (
    CheckQuorumFailed,
    Fatal,
    HighWatermark,
    Transition,
    Truncated,
    Unknown,
    Vote,
    read_line,
)

OUTPUTS = Path(__file__).parent / "outputs"
RELEASES = sorted(path.stem for path in OUTPUTS.glob("*.log"))


def raft(message: str) -> str:
    return f"[2026-11-21 15:40:07,826] INFO [RaftManager id=3] {message} (org.apache.kafka.raft.KafkaRaftClient)"


def lines(release: str) -> list[str]:
    return (OUTPUTS / f"{release}.log").read_text().splitlines()


def events(release: str) -> list[object]:
    return [line.event for text in lines(release) if (line := read_line(text)) is not None]


def names(release: str) -> list[tuple[str | None, str]]:
    return [
        (event.before.name if event.before else None, event.after.name)
        for event in events(release)
        if isinstance(event, Transition)
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_every_completed_transition_is_understood(release):
    completed = sum("Completed transition" in text for text in lines(release))
    kinds = Counter(type(event) for event in events(release))
    assert completed > 5
    assert kinds[Transition] == completed
    assert kinds[Unknown] == 0
    assert kinds[Fatal] == 0


@pytest.mark.parametrize("release", RELEASES)
def test_every_answer_to_a_vote_request_is_understood(release):
    answered = sum("Vote request VoteRequestData" in text for text in lines(release))
    assert sum(isinstance(event, Vote) for event in events(release)) == answered > 0


@pytest.mark.parametrize("release", RELEASES)
def test_transitions_of_one_process_follow_each_other(release):
    """The state before a transition is the state after the one before it, until the process begins anew."""
    previous = None
    for event in events(release):
        if isinstance(event, Transition):
            if event.before is not None:
                assert previous is not None
                assert (event.before.name, event.before.epoch) == (previous.name, previous.epoch)
            previous = event.after


@pytest.mark.parametrize("release", RELEASES)
def test_a_leader_begins_as_candidate_and_its_high_watermark_is_told(release):
    assert ("candidate", "leader") in names(release)
    moved = [event for event in events(release) if isinstance(event, HighWatermark)]
    assert any(event.epoch is not None for event in moved)
    assert any(event.previous is not None and event.previous < event.offset for event in moved)


@pytest.mark.parametrize("release", RELEASES)
def test_a_follower_names_a_voter_as_its_leader(release):
    states = [event.after for event in events(release) if isinstance(event, Transition)]
    leaders = {state.leader_id for state in states if state.name == "follower"}
    assert leaders
    assert leaders <= {1, 2, 3}


def test_a_leader_in_words_that_are_not_known_is_no_leader():
    said = "Completed transition to FollowerState(fetchTimeoutMs=1000, epoch=2, leader=10.77.0.3:9093, voters=[1]) from null"
    line = read_line(raft(said))
    assert line is not None
    assert isinstance(line.event, Unknown)


def test_only_newer_releases_ask_for_pre_votes():
    for release in RELEASES:
        prospective = any("prospective" in pair for pair in names(release))
        assert prospective is (release >= "4.0")


def test_a_node_that_has_voted_is_voted_in_both_ways_of_saying_so():
    assert ("unattached", "voted") in names("3.6.2")
    assert ("unattached", "voted") in names("3.9.2")
    voted = [event.after for event in events("3.9.2") if isinstance(event, Transition) and event.after.name == "voted"]
    assert voted[0].voted_id is not None
    assert len(voted[0].voted_directory_id or "") == 22


def test_check_quorum_is_told_since_it_exists():
    assert not any(isinstance(event, CheckQuorumFailed) for event in events("3.6.2"))
    for release in ("3.7.0", "3.8.1", "3.9.2", "4.1.2", "4.3.1"):
        assert any(isinstance(event, CheckQuorumFailed) for event in events(release))


def test_a_vote_is_read_field_by_field():
    text = (
        "[2026-11-21 15:38:20,803] INFO [RaftManager id=2] Vote request VoteRequestData(clusterId='Lye0LU92TTKcxe4_Dq0NTA', "
        "voterId=2, topics=[TopicData(topicName='__cluster_metadata', partitions=[PartitionData(partitionIndex=0, "
        "replicaEpoch=5, replicaId=1, replicaDirectoryId=7GY9-yMb_gk8Xz218baD4A, voterDirectoryId=AAAAAAAAAAAAAAAAAAAAAA, "
        "lastOffsetEpoch=4, lastOffset=37, preVote=true)])]) with epoch 5 is granted (org.apache.kafka.raft.KafkaRaftClient)"
    )
    line = read_line(text)
    assert line is not None
    assert line.event == Vote(
        granted=True,
        candidate_id=1,
        candidate_directory_id="7GY9-yMb_gk8Xz218baD4A",
        epoch=5,
        last_offset=37,
        last_epoch=4,
        pre_vote=True,
    )
    assert line.wall_ms == 1795275500803


def test_a_truncation_is_read():
    text = raft("Truncated to offset 14 from Fetch response from leader 2")
    line = read_line(text)
    assert line is not None
    assert line.event == Truncated(14, 2)


def test_a_state_in_new_words_is_unknown_and_not_ignored():
    text = raft("Completed transition to WonderingState(epoch=3) from null")
    line = read_line(text)
    assert line is not None
    assert line.event == Unknown(text)


@pytest.mark.parametrize(
    "told",
    [
        "The leader requested truncation to offset 3, which is below the current high watermark 7",
        "Encountered fatal fault: exception while replaying",
    ],
)
def test_what_must_not_happen_is_fatal(told):
    text = f"[2026-11-21 15:40:07,826] ERROR {told} (org.apache.kafka.server.fault.ProcessTerminatingFaultHandler)"
    line = read_line(text)
    assert line is not None
    assert isinstance(line.event, Fatal)
    assert read_line(f"java.lang.IllegalStateException: {told}") is not None


def test_other_lines_tell_nothing():
    assert read_line("\tat org.apache.kafka.raft.KafkaRaftClient.poll(KafkaRaftClient.java:2000)") is None
    assert read_line("[2026-11-21 15:40:07,826] INFO [RaftManager id=3] Beginning graceful shutdown (o.a.k.X)") is None
    assert read_line("") is None
