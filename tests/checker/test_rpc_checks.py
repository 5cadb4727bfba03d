"""What nodes said to each other convicts by itself: each anomaly told by messages alone, and the legal twin beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from checker.checks.elections import ONE_LEADER_PER_EPOCH
from checker.checks.fetched import HIGH_WATERMARK_FETCHED
from checker.checks.identity import IDENTITY
from checker.checks.votes import ONE_VOTE_PER_EPOCH
from checker.run import check_runs
from checker.tables import read_runs
from checker.verdict import CheckResult, Verdict
from tests.checker.cases import Case, assert_case, judge_cases
from tests.checker.tables import SECOND, Story, disk_of, manifest
from workloads.history.manifest import CaptureEntry

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def grants(s: Story, voter: str, candidate: str, at_s: float, **columns: object) -> None:
    """A voter's answer to a candidate."""
    told = {
        "asked_epoch": 4,
        "epoch": 4,
        "granted": True,
        "pre_vote": False,
        "error": "NONE",
        "replica": candidate,
        "replica_directory_id": disk_of(candidate),
        "voter": voter,
        "voter_directory_id": disk_of(voter),
    }
    s.said(voter, candidate, "Vote", "response", at_s, **{**told, **columns})


def a_voter_answers_two_candidates(s: Story) -> None:
    grants(s, "n3", "n1", 1.0)
    grants(s, "n3", "n2", 1.5, fate="lost", delivered_ns=None)


def a_candidate_votes_for_a_rival(s: Story) -> None:
    s.said(
        "n3", "n2", "Vote", "request", 1.0, epoch=4, replica="n3", replica_directory_id=disk_of("n3"), pre_vote=False
    )
    grants(s, "n3", "n1", 1.5)


def it_answers_pre_votes_refusals_and_twice_the_same(s: Story) -> None:
    grants(s, "n3", "n1", 1.0)
    grants(s, "n3", "n1", 1.1)
    grants(s, "n3", "n2", 1.2, granted=False)
    grants(s, "n3", "n2", 1.3, pre_vote=True)
    grants(s, "n3", "n2", 1.4, asked_epoch=5, epoch=5)


def another_disk_votes_anew(s: Story) -> None:
    grants(s, "n3", "n1", 1.0)
    s.life("n3", "wipe", 1.2)
    grants(s, "n3", "n2", 1.5, voter_directory_id="n3-new")


def the_wiped_voter_is_not_named(s: Story) -> None:
    """Vote before version 1: nobody knows which disk of the node answered."""
    grants(s, "n3", "n1", 1.0, voter_directory_id=None, version=0)
    s.life("n3", "wipe", 1.2)
    grants(s, "n3", "n2", 1.5, voter_directory_id=None, version=0)
    grants(s, "n2", "n1", 1.6, voter_directory_id=None, version=0)


def two_lead_by_their_own_words(s: Story) -> None:
    s.said("n1", "n3", "BeginQuorumEpoch", "request", 2.0, epoch=7, leader="n1")
    s.said("n2", "n3", "Fetch", "response", 2.5, epoch=7, leader="n2", error="NONE")


def a_deposed_one_and_errors(s: Story) -> None:
    s.said("n1", "n3", "BeginQuorumEpoch", "request", 2.0, epoch=7, leader="n1")
    s.said("n2", "n3", "Fetch", "response", 2.5, epoch=6, leader="n2", error="FENCED_LEADER_EPOCH")
    s.said("n3", "n2", "Fetch", "response", 2.6, epoch=0, leader="n0", error="UNKNOWN_SERVER_ERROR")
    s.said("n3", "n2", "Vote", "response", 2.7, epoch=7, leader=None, error="NONE", granted=False)
    s.said("n3", "n2", "BeginQuorumEpoch", "request", 2.8, epoch=7, leader="n3", problem="3 bytes follow it")


def a_fetch_names_no_disk(s: Story) -> None:
    s.said("n2", "n1", "Fetch", "request", 3.0, epoch=4, replica="n2", offset=10)


def a_connection_names_two_disks(s: Story) -> None:
    s.said("n2", "n1", "Fetch", "request", 3.0, epoch=4, replica="n2", replica_directory_id=disk_of("n2"))
    s.said("n2", "n1", "Fetch", "request", 3.5, epoch=4, replica="n2", replica_directory_id="n2-other")


def clients_old_versions_and_wiped_disks(s: Story) -> None:
    s.said("n2", "n1", "Fetch", "request", 3.0, epoch=4, replica="n2", replica_directory_id=disk_of("n2"))
    s.said("n2", "n1", "Fetch", "request", 3.1, epoch=4, replica="n2", version=12)
    s.said("n2", "n1", "Fetch", "request", 3.2, replica=None)
    s.said("n2", "n1", "Fetch", "request", 3.5, replica="n2", replica_directory_id="n2-new", connection="n2-n1#2")
    s.life("n2", "wipe", 3.4)


CASES = (
    Case(
        "a voter answers two candidates, one answer lost on its way",
        a_voter_answers_two_candidates,
        ONE_VOTE_PER_EPOCH,
        "n3 gave two votes in epoch 4: it answered n1 at 1.000 s that it votes for n1/n1-dis, and it answered n2 at 1.500 s that it "
        "votes for n2/n2-dis.",
        (
            {"table": "rpcs", "connection": "n1-n3#1", "correlation_id": 0, "kind": "response", "ts_ns": SECOND, "src": "n3",
             "dst": "n1", "api": "Vote", "fate": "delivered", "asked_epoch": 4, "epoch": 4, "replica": "n1",
             "replica_directory_id": disk_of("n1"), "voter_directory_id": disk_of("n3"), "granted": True},
            {"table": "rpcs", "connection": "n2-n3#1", "correlation_id": 1, "kind": "response", "ts_ns": 1_500_000_000, "src": "n3",
             "dst": "n2", "api": "Vote", "fate": "lost", "asked_epoch": 4, "epoch": 4, "replica": "n2",
             "replica_directory_id": disk_of("n2"), "voter_directory_id": disk_of("n3"), "granted": True},
        ),
    ),
    Case(
        "a candidate's request is its vote for itself",
        a_candidate_votes_for_a_rival,
        ONE_VOTE_PER_EPOCH,
        "n3 gave two votes in epoch 4: it answered n1 at 1.500 s that it votes for n1/n1-dis, and it asked n2 for its vote at 1.000 s, a "
        "candidate itself.",
        (
            {"table": "rpcs", "connection": "n1-n3#1", "correlation_id": 1, "kind": "response", "ts_ns": 1_500_000_000, "src": "n3",
             "dst": "n1", "api": "Vote", "fate": "delivered", "asked_epoch": 4, "epoch": 4, "replica": "n1",
             "replica_directory_id": disk_of("n1"), "voter_directory_id": disk_of("n3"), "granted": True},
            {"table": "rpcs", "connection": "n3-n2#1", "correlation_id": 0, "kind": "request", "ts_ns": SECOND, "src": "n3",
             "dst": "n2", "api": "Vote", "fate": "delivered", "epoch": 4, "replica": "n3", "replica_directory_id": disk_of("n3")},
        ),
    ),
    Case("pre-votes, refusals and repetitions", it_answers_pre_votes_refusals_and_twice_the_same, ONE_VOTE_PER_EPOCH),
    Case("another disk is another voter", another_disk_votes_anew, ONE_VOTE_PER_EPOCH),
    Case("a wiped voter that is not named", the_wiped_voter_is_not_named, ONE_VOTE_PER_EPOCH),
    Case(
        "two nodes lead by their own words",
        two_lead_by_their_own_words,
        ONE_LEADER_PER_EPOCH,
        "Epoch 7 has two leaders: n1 told n3 in a BeginQuorumEpoch request at 2.000 s that n1 leads it, and n2 told n3 in a Fetch response "
        "at 2.500 s that n2 leads it.",
        (
            {"table": "rpcs", "connection": "n1-n3#1", "correlation_id": 0, "kind": "request", "ts_ns": 2 * SECOND, "src": "n1",
             "dst": "n3", "api": "BeginQuorumEpoch", "fate": "delivered", "epoch": 7, "leader": "n1"},
            {"table": "rpcs", "connection": "n3-n2#1", "correlation_id": 1, "kind": "response", "ts_ns": 2_500_000_000, "src": "n2",
             "dst": "n3", "api": "Fetch", "fate": "delivered", "epoch": 7, "leader": "n2", "error": "NONE"},
        ),
    ),
    Case("a deposed leader, errors, and what cannot be read", a_deposed_one_and_errors, ONE_LEADER_PER_EPOCH),
    Case(
        "a Fetch names no disk",
        a_fetch_names_no_disk,
        IDENTITY,
        "n2 in a Fetch request to n1 at 3.000 s has no directory id although the candidate promises one.",
        (
            {"table": "rpcs", "connection": "n2-n1#1", "correlation_id": 0, "kind": "request", "ts_ns": 3 * SECOND, "src": "n2",
             "dst": "n1", "api": "Fetch", "version": 17, "replica": "n2"},
        ),
    ),
    Case(
        "one connection names two disks",
        a_connection_names_two_disks,
        IDENTITY,
        f"n2 acts under two directory ids in one connection to n1: {disk_of('n2')} and n2-other.",
        (
            {"table": "rpcs", "connection": "n2-n1#1", "correlation_id": 0, "kind": "request", "ts_ns": 3 * SECOND, "src": "n2",
             "dst": "n1", "api": "Fetch", "version": 17, "replica": "n2", "replica_directory_id": disk_of("n2")},
            {"table": "rpcs", "connection": "n2-n1#1", "correlation_id": 1, "kind": "request", "ts_ns": 3_500_000_000, "src": "n2",
             "dst": "n1", "api": "Fetch", "version": 17, "replica": "n2", "replica_directory_id": "n2-other"},
        ),
    ),
    Case("clients, old versions and wiped disks", clients_old_versions_and_wiped_disks, IDENTITY),
)  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, CheckResult]:
    return judge_cases(spark, tmp_path_factory.mktemp("stories"), CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, results: dict[Case, CheckResult]) -> None:
    assert_case(case, results[case])


def test_only_news_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """A message that repeats another but for offsets is a row for people and none for the checks."""
    story = Story()
    grants(story, "n3", "n1", 1.0)
    grants(story, "n3", "n2", 1.5, is_news=False)
    run = story.write(tmp_path)
    assert read_runs([run])[0].rows["rpcs"] == 1
    (verdict,) = check_runs(spark, [run], checks=[ONE_VOTE_PER_EPOCH], write=False)
    assert verdict.checks[0].verdict is Verdict.VALID
    assert verdict.checks[0].evidence_rows == 1


def test_a_high_watermark_that_nobody_fetched_up_to(spark: SparkSession, tmp_path: Path) -> None:
    """By captured messages alone; without a capture of the leader nobody judges it, without any the check does not apply."""
    story = Story()
    story.manifest = msgspec.structs.replace(
        story.manifest, captures=tuple(CaptureEntry(node=node.name, packets=9) for node in story.manifest.nodes)
    )
    story.said("n2", "n1", "Fetch", "request", 1.0, epoch=4, replica="n2", offset=9, is_news=False)
    story.said("n1", "n2", "Fetch", "response", 1.1, epoch=4, leader="n1", high_watermark=10, error="NONE")
    whole = story.write(tmp_path / "whole")
    entries = (CaptureEntry(node="n1", packets=9, lost=1), *story.manifest.captures[1:])
    story.manifest = msgspec.structs.replace(story.manifest, run_id="story/2", captures=entries)
    holes = story.write(tmp_path / "holes")
    silent = Story(manifest(run_id="story/3")).write(tmp_path / "silent")
    verdicts = check_runs(spark, [whole, holes, silent], checks=[HIGH_WATERMARK_FETCHED], write=False)
    convicted, blind, none = (verdict.checks[0] for verdict in verdicts)
    (anomaly,) = convicted.anomalies
    assert anomaly.message == (
        "n1, leading epoch 4, told n2 at 1.100 s the high watermark 10, which 1 of the voters could hold, itself among them: until "
        "then had fetched n2 up to 9."
    )
    assert (blind.verdict, blind.exercised) == (Verdict.VALID, 0)
    assert (none.verdict, none.reason) == (None, "no messages between the nodes were captured")
