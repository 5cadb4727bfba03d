"""Leaders, votes and epochs: each anomaly as a story, and the legal twin beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checker.checks.elections import LEADER_NOT_RESUMED, ONE_LEADER_PER_EPOCH
from checker.checks.epochs import EPOCH_MONOTONE
from checker.checks.votes import ONE_VOTE_PER_EPOCH, VOTE_DURABLE, VOTE_UP_TO_DATE
from checker.verdict import CheckResult
from tests.checker.cases import Case, assert_case, judge_cases
from tests.checker.tables import SECOND, Story, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def two_records_name_leaders(s: Story) -> None:
    s.record("n2", 10, 7, kind="leader_change", leader="n1")
    s.record("n3", 10, 7, kind="leader_change", leader="n3")


def a_leader_answers_late_with_its_old_epoch(s: Story) -> None:
    s.state("n1", "leader", 6, leader="n1", ts_ns=SECOND)
    s.state("n2", "leader", 7, leader="n2", ts_ns=2 * SECOND)
    s.sample("n2", 2.5, 7)
    s.sample("n1", 3.0, 6)
    s.sample("n3", 3.0, 0, claims_leadership=False, leader="n0", error="NOT_LEADER_OR_FOLLOWER")


def a_second_leader_is_only_heard_of(s: Story) -> None:
    s.sample("n2", 2.5, 7)
    s.stored("n3", 7, leader="n1")


def two_disks_of_one_node_lead(s: Story) -> None:
    s.state("n1", "leader", 3, directory_id="disk-A")
    s.state("n1", "leader", 3, directory_id="disk-B", incarnation=2)


def it_leads_again_after_a_restart(s: Story) -> None:
    s.state("n1", "leader", 5, ts_ns=SECOND)
    s.event("n1", "start", incarnation=2, epoch=5)
    s.state("n1", "leader", 5, incarnation=2, ts_ns=4 * SECOND)


def it_leads_the_next_epoch_after_a_restart(s: Story) -> None:
    s.state("n1", "leader", 5)
    s.event("n1", "start", incarnation=2, epoch=5)
    s.state("n1", "leader", 6, incarnation=2)


def votes_for_two(s: Story) -> None:
    s.event("n3", "vote", epoch=4, peer="n1", peer_directory_id=disk_of("n1"), granted=True, ts_ns=SECOND)
    s.event(
        "n3", "vote", epoch=4, peer="n2", peer_directory_id=disk_of("n2"), granted=True, incarnation=2, ts_ns=3 * SECOND
    )


def a_candidate_votes_for_another(s: Story) -> None:
    s.state("n3", "candidate", 4, ts_ns=SECOND)
    s.stored("n3", 4, voted_for="n2")


def votes_once_and_grants_pre_votes(s: Story) -> None:
    s.event("n3", "vote", epoch=4, peer="n1", granted=True, pre_vote=True)
    s.event("n3", "vote", epoch=4, peer="n2", granted=True)
    s.event("n3", "vote", epoch=4, peer="n1", granted=False)
    s.event("n3", "vote", epoch=5, peer="n1", granted=True)
    s.stored("n3", 5, voted_for="n1")


def a_wiped_disk_votes_anew(s: Story) -> None:
    s.event("n3", "vote", epoch=4, peer="n1", granted=True)
    s.event("n3", "vote", epoch=4, peer="n2", granted=True, directory_id="n3-new", incarnation=2)


def a_wiped_node_without_identity_votes_anew(s: Story) -> None:
    a_wiped_disk_votes_anew(s)
    s.promise("check-quorum")


def the_vote_is_not_on_disk(s: Story) -> None:
    s.event("n3", "vote", epoch=4, peer="n1", granted=True, ts_ns=SECOND)
    s.state("n3", "voted", 4)
    s.stored("n3", 4)


def the_leader_is_known_and_the_vote_dropped(s: Story) -> None:
    s.event("n3", "vote", epoch=4, peer="n1", granted=True)
    s.state("n3", "follower", 4, leader="n1")
    s.stored("n3", 4, leader="n1")


def a_vote_that_is_promised_to_last_is_dropped(s: Story) -> None:
    the_leader_is_known_and_the_vote_dropped(s)
    s.promise("durable-votes")


def the_vote_came_with_the_kill(s: Story) -> None:
    s.state("n3", "unattached", 4)
    s.event("n3", "vote", epoch=4, peer="n1", granted=True, ts_ns=24 * SECOND - 1_000_000)
    s.stored("n3", 4)


def the_epoch_on_disk_is_lower(s: Story) -> None:
    s.state("n3", "unattached", 9, ts_ns=SECOND)
    s.event("n3", "fetch")
    s.state("n3", "follower", 9, leader="n1")
    s.stored("n3", 7, voted_for="n1")


def the_file_is_empty_after_a_power_cut(s: Story) -> None:
    s.state("n3", "unattached", 9, ts_ns=SECOND)
    s.event("n3", "fetch")
    s.life("n3", "power-cut", 20)
    s.stored("n3", None, problem="quorum-state holds 0 bytes and nothing in them: torn")


def the_file_is_empty_on_a_damaged_disk(s: Story) -> None:
    the_file_is_empty_after_a_power_cut(s)
    s.life("n3", "damage", 21)


def the_restart_recovers_no_vote(s: Story) -> None:
    s.event("n3", "vote", epoch=4, peer="n1", granted=True, ts_ns=SECOND)
    s.state("n3", "voted", 4)
    s.event("n3", "start", incarnation=2, epoch=4, ts_ns=5 * SECOND)
    s.stored("n3", 6, incarnation=2, voted_for="n2")


def votes_for_a_shorter_log(s: Story) -> None:
    s.event("n2", "vote", epoch=8, peer="n3", granted=True, offset=90, entry_epoch=6, log_end=91, log_epoch=6)


def votes_for_an_older_epoch_in_a_pre_vote(s: Story) -> None:
    s.event(
        "n2", "vote", epoch=8, peer="n3", granted=True, pre_vote=True, offset=99, entry_epoch=5, log_end=91, log_epoch=6
    )


def votes_for_equal_and_newer_logs(s: Story) -> None:
    s.event("n2", "vote", epoch=8, peer="n3", granted=True, offset=91, entry_epoch=6, log_end=91, log_epoch=6)
    s.event("n2", "vote", epoch=9, peer="n3", granted=True, offset=50, entry_epoch=7, log_end=91, log_epoch=6)
    s.event("n2", "vote", epoch=10, peer="n1", granted=False, offset=10, entry_epoch=1, log_end=91, log_epoch=6)


def the_epoch_falls_at_a_restart(s: Story) -> None:
    s.state("n1", "follower", 5, ts_ns=SECOND)
    s.event("n1", "start", incarnation=2, epoch=0, ts_ns=3 * SECOND)


def the_epoch_rises_and_a_wiped_disk_begins_anew(s: Story) -> None:
    s.state("n1", "follower", 5)
    s.event("n1", "start", incarnation=2, epoch=5)
    s.state("n1", "follower", 6, incarnation=2)
    s.event("n1", "start", incarnation=3, epoch=0, directory_id="n1-new")


def the_stored_epoch_falls(s: Story) -> None:
    s.stored("n1", 5)
    s.stored("n1", 4, collection=1, incarnation=2)


CASES = (
    Case(
        "two LeaderChange records name two leaders",
        two_records_name_leaders,
        ONE_LEADER_PER_EPOCH,
        "Epoch 7 has two leaders: the LeaderChange record at offset 10 on n2's disk (copy 0) names n1, and "
        "the LeaderChange record at offset 10 on n3's disk (copy 0) names n3.",
        (
            {"table": "log_entries", "node": "n2", "collection": 0, "offset": 10, "epoch": 7, "kind": "leader_change", "leader": "n1"},
            {"table": "log_entries", "node": "n3", "collection": 0, "offset": 10, "epoch": 7, "kind": "leader_change", "leader": "n3"},
        ),
    ),
    Case(
        "one leader is only known from a stored state",
        a_second_leader_is_only_heard_of,
        ONE_LEADER_PER_EPOCH,
        "Epoch 7 has two leaders: the stored quorum state of n3 (copy 0) names n1, and n2 answered as leader of epoch 7 at 2.500 s.",
        (
            {"table": "quorum_states", "node": "n3", "collection": 0, "incarnation": 1, "epoch": 7, "leader": "n1"},
            {"table": "quorum_samples", "node": "n2", "asked_ns": 2_490_000_000, "ts_ns": 2_500_000_000, "epoch": 7, "leader": "n2"},
        ),
    ),
    Case(
        "two disks of one node lead one epoch",
        two_disks_of_one_node_lead,
        ONE_LEADER_PER_EPOCH,
        "Epoch 3 has two leaders: n1 (incarnation 1) became leader of epoch 3, and n1 (incarnation 2) became leader of epoch 3.",
        (
            {"table": "node_events", "node": "n1", "directory_id": "disk-A", "incarnation": 1, "seq": 1, "kind": "state",
             "state": "leader", "epoch": 3},
            {"table": "node_events", "node": "n1", "directory_id": "disk-B", "incarnation": 2, "seq": 2, "kind": "state",
             "state": "leader", "epoch": 3},
        ),
    ),
    Case("a deposed leader answers with its old epoch", a_leader_answers_late_with_its_old_epoch, ONE_LEADER_PER_EPOCH),
    Case(
        "it leads the same epoch after a restart",
        it_leads_again_after_a_restart,
        LEADER_NOT_RESUMED,
        "n1 led epoch 5 in incarnation 1 at 1.000 s, was restarted, and led the same epoch again in incarnation 2 at 4.000 s.",
        (
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "seq": 1,
             "ts_ns": SECOND, "kind": "state", "state": "leader", "epoch": 5},
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 2, "seq": 3,
             "ts_ns": 4 * SECOND, "kind": "state", "state": "leader", "epoch": 5},
        ),
    ),
    Case("it wins the next epoch after a restart", it_leads_the_next_epoch_after_a_restart, LEADER_NOT_RESUMED),
    Case(
        "a voter votes for two, over a restart",
        votes_for_two,
        ONE_VOTE_PER_EPOCH,
        "n3 gave two votes in epoch 4: it voted for n1/n1-dis in incarnation 1 at 1.000 s, and it voted for n2/n2-dis in "
        "incarnation 2 at 3.000 s.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "vote", "epoch": 4, "peer": "n1", "peer_directory_id": disk_of("n1"), "granted": True},
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 2, "seq": 2, "ts_ns": 3 * SECOND,
             "kind": "vote", "epoch": 4, "peer": "n2", "peer_directory_id": disk_of("n2"), "granted": True},
        ),
    ),
    Case(
        "a candidate's vote for itself counts",
        a_candidate_votes_for_another,
        ONE_VOTE_PER_EPOCH,
        "n3 gave two votes in epoch 4: its stored quorum state (copy 0) says n2, and it was a candidate itself in incarnation 1 at "
        "1.000 s.",
        (
            {"table": "quorum_states", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "collection": 0,
             "ts_ns": 24 * SECOND, "epoch": 4, "voted_for": "n2"},
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "state", "state": "candidate", "epoch": 4},
        ),
    ),
    Case("pre-votes and refusals are no votes", votes_once_and_grants_pre_votes, ONE_VOTE_PER_EPOCH),
    Case("a wiped disk is another voter", a_wiped_disk_votes_anew, ONE_VOTE_PER_EPOCH),
    Case(
        "without identities the node is the voter",
        a_wiped_node_without_identity_votes_anew,
        ONE_VOTE_PER_EPOCH,
        "n3 gave two votes in epoch 4: it voted for n1 in incarnation 1, and it voted for n2 in incarnation 2.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "kind": "vote",
             "epoch": 4, "peer": "n1", "granted": True},
            {"table": "node_events", "node": "n3", "directory_id": "n3-new", "incarnation": 2, "seq": 2, "kind": "vote",
             "epoch": 4, "peer": "n2", "granted": True},
        ),
    ),
    Case(
        "the vote is not on the disk",
        the_vote_is_not_on_disk,
        VOTE_DURABLE,
        "n3 (incarnation 1) voted for n1 in epoch 4 at 1.000 s, no leader of that epoch was known, and after it ended its stored "
        "quorum state says no vote for epoch 4.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "vote", "epoch": 4, "peer": "n1", "granted": True},
            {"table": "quorum_states", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "collection": 0,
             "ts_ns": 24 * SECOND, "epoch": 4},
        ),
    ),
    Case("Kafka drops the vote once the leader is known", the_leader_is_known_and_the_vote_dropped, VOTE_DURABLE),
    Case(
        "a vote that is promised to last is dropped",
        a_vote_that_is_promised_to_last_is_dropped,
        VOTE_DURABLE,
        "n3 (incarnation 1) voted for n1 in epoch 4, its leader n1 became known, and after it ended its stored quorum state says no "
        "vote for epoch 4.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "kind": "vote",
             "epoch": 4, "peer": "n1", "granted": True},
            {"table": "quorum_states", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "collection": 0,
             "ts_ns": 24 * SECOND, "epoch": 4, "leader": "n1"},
        ),
    ),
    Case("the kill came before the vote could be stored", the_vote_came_with_the_kill, VOTE_DURABLE, idle=True),
    Case(
        "the epoch on the disk is lower",
        the_epoch_on_disk_is_lower,
        VOTE_DURABLE,
        "n3 (incarnation 1) was in epoch 9 at 1.000 s, and after it ended its stored quorum state was in epoch 7.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "state", "epoch": 9},
            {"table": "quorum_states", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "collection": 0,
             "ts_ns": 24 * SECOND, "epoch": 7, "voted_for": "n1"},
        ),
    ),
    Case(
        "a file that was never synced is empty after a power cut",
        the_file_is_empty_after_a_power_cut,
        VOTE_DURABLE,
        "n3 (incarnation 1) was in epoch 9 at 1.000 s, and after it ended its stored quorum state says nothing.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "state", "epoch": 9},
            {"table": "quorum_states", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "collection": 0,
             "ts_ns": 24 * SECOND},
        ),
    ),
    Case(
        "a file on a disk that the run itself had damaged is empty",
        the_file_is_empty_on_a_damaged_disk,
        VOTE_DURABLE,
        idle=True,
    ),
    Case(
        "the next incarnation recovers no vote",
        the_restart_recovers_no_vote,
        VOTE_DURABLE,
        "n3 (incarnation 1) voted for n1 in epoch 4 at 1.000 s, no leader of that epoch was known, and after it ended incarnation 2 "
        "says no vote for epoch 4.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "vote", "epoch": 4, "peer": "n1", "granted": True},
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 2, "seq": 3, "ts_ns": 5 * SECOND,
             "kind": "start", "epoch": 4},
        ),
    ),
    Case(
        "a vote for a shorter log",
        votes_for_a_shorter_log,
        VOTE_UP_TO_DATE,
        "n2 (incarnation 1), whose log ended at offset 91 in epoch 6, gave its vote in epoch 8 to n3, whose log ended at offset 90 "
        "in epoch 6.",
        (
            {"table": "node_events", "node": "n2", "directory_id": disk_of("n2"), "incarnation": 1, "seq": 1, "kind": "vote",
             "epoch": 8, "peer": "n3", "granted": True, "entry_epoch": 6, "offset": 90, "log_epoch": 6, "log_end": 91},
        ),
    ),
    Case(
        "a pre-vote for a longer log of an older epoch",
        votes_for_an_older_epoch_in_a_pre_vote,
        VOTE_UP_TO_DATE,
        "n2 (incarnation 1), whose log ended at offset 91 in epoch 6, gave a pre-vote in epoch 8 to n3, whose log ended at offset 99 "
        "in epoch 5.",
        (
            {"table": "node_events", "node": "n2", "directory_id": disk_of("n2"), "incarnation": 1, "seq": 1, "kind": "vote",
             "epoch": 8, "peer": "n3", "pre_vote": True, "granted": True, "entry_epoch": 5, "offset": 99, "log_epoch": 6, "log_end": 91},
        ),
    ),
    Case("votes for equal and newer logs", votes_for_equal_and_newer_logs, VOTE_UP_TO_DATE),
    Case(
        "the epoch falls at a restart",
        the_epoch_falls_at_a_restart,
        EPOCH_MONOTONE,
        "The epoch of n1 fell: incarnation 1 was in epoch 5 at 1.000 s, and after that incarnation 2 was in epoch 0 at 3.000 s.",
        (
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "seq": 1, "ts_ns": SECOND,
             "kind": "state", "state": "follower", "epoch": 5},
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 2, "seq": 2, "ts_ns": 3 * SECOND,
             "kind": "start", "epoch": 0},
        ),
    ),
    Case("a wiped disk begins at epoch 0", the_epoch_rises_and_a_wiped_disk_begins_anew, EPOCH_MONOTONE),
    Case(
        "the stored epoch falls",
        the_stored_epoch_falls,
        EPOCH_MONOTONE,
        "The epoch of n1 fell: its disk in copy 0 says epoch 5, and after that its disk in copy 1 says epoch 4.",
        (
            {"table": "quorum_states", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "collection": 0,
             "ts_ns": 24 * SECOND, "epoch": 5},
            {"table": "quorum_states", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 2, "collection": 1,
             "ts_ns": 24 * SECOND, "epoch": 4},
        ),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, CheckResult]:
    return judge_cases(spark, tmp_path_factory.mktemp("runs"), CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, results: dict[Case, CheckResult]) -> None:
    assert_case(case, results[case])
