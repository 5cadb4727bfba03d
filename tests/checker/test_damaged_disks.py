"""What a node is held to after a fault of its disk: each kind of memory × each fault, and what the cluster is held to whatever happened.

In every story a node does, promises or reports something in incarnation 1, a fault happens at 10 s, and afterwards it has forgotten.
What it should have kept is blamed; what the fault took from its disk is not. The nodes of one run play the same story, each with another
fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from checker.check import Check
from checker.checks.acknowledged import ACKNOWLEDGED_LOST
from checker.checks.commitment import COMMITTED_DIVERGENCE, COMMITTED_TRUNCATION, LEADER_COMPLETENESS
from checker.checks.elections import LEADER_NOT_RESUMED, ONE_LEADER_PER_EPOCH
from checker.checks.epochs import EPOCH_MONOTONE
from checker.checks.high_watermark import HIGH_WATERMARK_MONOTONE
from checker.checks.snapshots import SNAPSHOT_PREFIX
from checker.checks.votes import ONE_VOTE_PER_EPOCH, VOTE_DURABLE
from checker.verdict import CheckResult, Verdict
from tests.checker.cases import Case, judge_cases
from tests.checker.tables import SECOND, Story, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FAULT_S = 10
KEEPS_ALL = ("kill", "power-cut", "swap")
FAULTS: dict[str, dict[str, Any]] = {
    "kill": {"kind": "kill"},
    "power-cut": {"kind": "power-cut"},
    "swap": {"kind": "swap"},
    "segment": {"kind": "damage", "detail": "segment log/000.log: 2000 bytes cut off its end"},
    "quorum-state": {"kind": "damage", "detail": "quorum-state log/quorum-state: bits flipped at bytes 7"},
    "untold": {"kind": "damage"},
    "restore": {"kind": "restore", "detail": "the disk of 0 is back"},
}
"""how a disk fares between the incarnations of its node"""
NODES = {fault: f"n{number}" for number, fault in enumerate(FAULTS, start=11)}


def the_epoch_is_lower(s: Story, node: str) -> None:
    s.state(node, "unattached", 9, ts_ns=SECOND)
    s.event(node, "fetch")
    s.stored(node, 7)


def the_restart_recovers_no_vote(s: Story, node: str) -> None:
    s.event(node, "vote", epoch=4, peer="n1", granted=True, ts_ns=SECOND)
    s.state(node, "voted", 4)
    s.event(node, "start", incarnation=2, epoch=4, ts_ns=12 * SECOND)
    s.stored(node, 4, incarnation=2, voted_for="n1")


def the_epoch_begins_anew(s: Story, node: str) -> None:
    s.state(node, "follower", 5, ts_ns=SECOND)
    s.event(node, "start", incarnation=2, epoch=0, ts_ns=12 * SECOND)
    s.stored(node, 5, incarnation=2)


def it_votes_again(s: Story, node: str) -> None:
    s.event(node, "vote", epoch=4, peer="n1", granted=True)
    s.event(node, "vote", epoch=4, peer="n2", granted=True, incarnation=2)
    s.stored(node, 4, incarnation=2)


def it_says_twice_that_it_votes(s: Story, node: str) -> None:
    for at_s, candidate in ((3, "n1"), (13, "n2")):
        s.said(
            node,
            candidate,
            "Vote",
            "response",
            at_s,
            asked_epoch=4,
            granted=True,
            replica=candidate,
            replica_directory_id=disk_of(candidate),
            voter_directory_id=disk_of(node),
        )
    s.stored(node, 4, incarnation=2)


def it_leads_the_epoch_again(s: Story, node: str) -> None:
    s.state(node, "leader", 4)
    s.state(node, "leader", 4, incarnation=2)
    s.stored(node, 4, incarnation=2)


def its_high_watermark_falls(s: Story, node: str) -> None:
    s.event(node, "high_watermark", epoch=4, state="leader", high_watermark=9)
    s.event(node, "high_watermark", epoch=4, state="leader", high_watermark=5, incarnation=2)
    s.stored(node, 4, incarnation=2)


def the_high_watermark_that_it_answers_falls(s: Story, node: str) -> None:
    s.sample(node, 3, 4, 9)
    s.sample(node, 13, 4, 5)
    s.stored(node, 4, incarnation=2)


def its_log_is_short(s: Story, node: str) -> None:
    s.event(node, "high_watermark", epoch=1, state="follower", high_watermark=5)
    s.log(node, (1, 0, 2))
    s.stored(node, 1, log_start=0, log_end=3)


def it_truncates_what_it_had_reported(s: Story, node: str) -> None:
    s.event(node, "high_watermark", epoch=1, state="follower", high_watermark=5)
    s.event(node, "truncate", incarnation=2, offset=3, log_end=6)
    s.log(node, (1, 0, 4))
    s.stored(node, 1, incarnation=2, log_start=0, log_end=5)


def it_removes_what_was_committed(s: Story, node: str) -> None:
    s.event("n1", "high_watermark", epoch=1, state="leader", high_watermark=5)
    s.log("n1", (1, 0, 4))
    s.stored("n1", 1, log_start=0, log_end=5)
    s.event(node, "append", offset=3, end_offset=5, epoch=1, checksum=7)
    s.event(node, "start", incarnation=2, epoch=1)
    s.event(node, "truncate", incarnation=2, offset=3, log_end=6)
    s.log(node, (1, 0, 4))
    s.stored(node, 1, incarnation=2, log_start=0, log_end=5)


def its_old_tail_is_back(s: Story, node: str) -> None:
    """Offset 2 of epoch 1 had been replaced by epoch 2's, which was committed."""
    s.event("n1", "high_watermark", epoch=2, state="leader", high_watermark=4)
    s.event(node, "high_watermark", epoch=2, state="follower", high_watermark=3)
    s.log("n1", (1, 0, 1), (2, 2, 3))
    s.stored("n1", 2, log_start=0, log_end=4)
    s.log(node, (1, 0, 2))
    s.stored(node, 1, log_start=0, log_end=3)


def its_later_copy_differs(s: Story, node: str) -> None:
    s.event(node, "high_watermark", epoch=2, state="follower", high_watermark=3)
    s.log(node, (1, 0, 1), (2, 2, 3), final=False)
    s.stored(node, 2, ts_ns=9 * SECOND, log_start=0, log_end=4)
    s.log(node, (1, 0, 2), collection=1)
    s.stored(node, 2, collection=1, log_start=0, log_end=3)


@dataclass(frozen=True, slots=True)
class Memory:
    """A story in which something is forgotten, and the faults after which that is blamed all the same."""

    build: Callable[[Story, str], None]
    check: Check
    blamed: tuple[str, ...]


_PROMISES = (*KEEPS_ALL, "segment")
_LOG = (*KEEPS_ALL, "quorum-state")

MEMORIES = (
    Memory(the_epoch_is_lower, VOTE_DURABLE, _PROMISES),
    Memory(the_restart_recovers_no_vote, VOTE_DURABLE, _PROMISES),
    Memory(the_epoch_begins_anew, EPOCH_MONOTONE, _PROMISES),
    Memory(it_votes_again, ONE_VOTE_PER_EPOCH, _PROMISES),
    Memory(it_says_twice_that_it_votes, ONE_VOTE_PER_EPOCH, _PROMISES),
    Memory(it_leads_the_epoch_again, LEADER_NOT_RESUMED, _PROMISES),
    Memory(its_high_watermark_falls, HIGH_WATERMARK_MONOTONE, _PROMISES),
    Memory(the_high_watermark_that_it_answers_falls, HIGH_WATERMARK_MONOTONE, _PROMISES),
    Memory(its_log_is_short, COMMITTED_TRUNCATION, _LOG),
    Memory(it_truncates_what_it_had_reported, COMMITTED_TRUNCATION, _LOG),
    Memory(it_removes_what_was_committed, COMMITTED_TRUNCATION, _LOG),
    Memory(its_later_copy_differs, COMMITTED_TRUNCATION, _LOG),
)


def strike(s: Story, fault: str, node: str = "n3") -> None:
    s.life(node, at_s=FAULT_S, **FAULTS[fault])


def on_every_node(memory: Memory) -> Case:
    def build(s: Story) -> None:
        voter = s.manifest.nodes[0]
        more = tuple(msgspec.structs.replace(voter, name=node) for node in NODES.values())
        s.manifest = msgspec.structs.replace(s.manifest, nodes=(*s.manifest.nodes, *more))
        for fault, node in NODES.items():
            memory.build(s, node)
            strike(s, fault, node)

    return Case(memory.build.__name__, build, memory.check)


def on_one_node(story: Callable[[Story, str], None], fault: str) -> Callable[[Story], None]:
    def build(s: Story) -> None:
        story(s, "n3")
        strike(s, fault)

    return build


def _again_after_the_damage(s: Story) -> None:
    """Both votes are given after the fault: what a node did since is held against it."""
    strike(s, "restore")
    for candidate in ("n1", "n2"):
        s.event("n3", "vote", epoch=4, peer=candidate, granted=True, incarnation=2)


def _truncates_after_the_damage(s: Story) -> None:
    strike(s, "segment")
    s.event("n3", "high_watermark", epoch=1, state="follower", high_watermark=5, incarnation=2)
    s.event("n3", "truncate", incarnation=3, offset=3, log_end=6)
    s.log("n3", (1, 0, 4))


def _another_disk_was_damaged(s: Story) -> None:
    the_epoch_begins_anew(s, "n3")
    s.life("n3", at_s=FAULT_S, directory_id="n3-old", **FAULTS["restore"])
    s.life("n2", at_s=FAULT_S, directory_id=disk_of("n2"), **FAULTS["restore"])


def _votes_in_the_log(s: Story) -> None:
    """Nobody knows where this program keeps its promises; it may be the log."""
    s.state("n3", "follower", 5)
    strike(s, "segment")
    s.event("n3", "start", incarnation=2, epoch=0)


def _an_observer_loses_its_tail(s: Story) -> None:
    its_log_is_short(s, "n3")
    strike(s, "power-cut")
    nodes = [msgspec.structs.replace(n, role="observer") if n.name == "n3" else n for n in s.manifest.nodes]
    s.manifest = msgspec.structs.replace(s.manifest, nodes=tuple(nodes))


def _led_on_the_other_disk(s: Story) -> None:
    """Without identities a node may lead on an empty disk; what it answers then says nothing of the disk that was out."""
    s.life("n3", "format", 0)
    s.life("n3", "swap", 5)
    s.life("n3", "format", 5, directory_id="n3-empty")
    s.sample("n3", 8, 4, 90)
    s.life("n3", "wipe", FAULT_S, directory_id="n3-empty")
    s.life("n3", "swap", FAULT_S)
    s.log("n3", (1, 0, 2))
    s.stored("n3", 1, log_start=0, log_end=3)


def _led_before_the_swap(s: Story) -> None:
    _led_on_the_other_disk(s)
    s.sample("n3", 3, 1, 5)


def _a_snapshot_of_before(s: Story) -> None:
    """The old disk's snapshot reaches beyond what has been reported since."""
    strike(s, "restore")
    s.event("n3", "high_watermark", epoch=1, state="follower", high_watermark=2, incarnation=2)
    s.log("n3", (1, 0, 4))
    s.stored("n3", 1, incarnation=2, log_start=0, log_end=5)
    row = {"node": "n3", "directory_id": disk_of("n3"), "collection": 0, "end_offset": 4, "epoch": 1, "complete": True}
    s.rows["snapshots"].append(row)


def _acknowledged_and_gone(s: Story) -> None:
    strike(s, "restore")
    s.operation("write", 7, key=0)
    for node in ("n1", "n2", "n3"):
        s.log(node, (1, 0, 1))
        s.record(node, 2, 1, f="write", key=0, value=8)


def _led_without_the_committed(s: Story) -> None:
    strike(s, "restore")
    s.event("n1", "high_watermark", epoch=1, state="leader", high_watermark=5)
    s.log("n3", (1, 0, 2), (2, 3, 4))


def _two_lead(s: Story) -> None:
    strike(s, "restore")
    s.state("n1", "leader", 4)
    s.state("n2", "leader", 4)


OTHERS = (
    (
        "an old tail is where a committed record was",
        on_one_node(its_old_tail_is_back, "swap"),
        COMMITTED_DIVERGENCE,
        True,
    ),
    ("an old tail is back", on_one_node(its_old_tail_is_back, "restore"), COMMITTED_DIVERGENCE, False),
    ("since the damage it voted twice", _again_after_the_damage, ONE_VOTE_PER_EPOCH, True),
    ("since the damage it reported and truncated", _truncates_after_the_damage, COMMITTED_TRUNCATION, True),
    ("another disk was damaged", _another_disk_was_damaged, EPOCH_MONOTONE, True),
    ("it may keep its promises in the damaged log", _votes_in_the_log, EPOCH_MONOTONE, False),
    ("an observer loses its tail with the power", _an_observer_loses_its_tail, COMMITTED_TRUNCATION, False),
    ("it led while the disk was out", _led_on_the_other_disk, COMMITTED_TRUNCATION, False),
    ("it led on the disk before that was taken out", _led_before_the_swap, COMMITTED_TRUNCATION, True),
    ("a snapshot of before the damage", _a_snapshot_of_before, SNAPSHOT_PREFIX, False),
    ("an acknowledged value is gone", _acknowledged_and_gone, ACKNOWLEDGED_LOST, True),
    ("a leader lacks what was committed", _led_without_the_committed, LEADER_COMPLETENESS, True),
    ("two lead one epoch", _two_lead, ONE_LEADER_PER_EPOCH, True),
)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    cases = [on_every_node(memory) for memory in MEMORIES] + [
        Case(name, build, check) for name, build, check, _ in OTHERS
    ]
    results = judge_cases(spark, tmp_path_factory.mktemp("damaged"), cases)
    return {case.name: result for case, result in results.items()}


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda memory: memory.build.__name__)
def test_a_node_is_held_to_what_the_fault_left_it(memory: Memory, judged: dict[str, CheckResult]) -> None:
    anomalies = judged[memory.build.__name__].anomalies
    found = {anomaly.witness[0].get("node") or anomaly.witness[0].get("src") for anomaly in anomalies}
    assert {fault for fault, node in NODES.items() if node in found} == set(memory.blamed)


@pytest.mark.parametrize(("name", "blamed"), [(name, blamed) for name, _, _, blamed in OTHERS], ids=str)
def test_what_came_after_a_fault_and_what_the_cluster_shows_is_judged(
    name: str, blamed: bool, judged: dict[str, CheckResult]
) -> None:
    result = judged[name]
    told = [anomaly.message for anomaly in result.anomalies]
    assert result.verdict is (Verdict.INVALID if blamed else Verdict.VALID), (result.reason, told)
    assert bool(told) is blamed
