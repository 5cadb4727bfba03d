"""High watermarks, states, identities and snapshots: each anomaly as a story, and the legal twin beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from checker.checks.high_watermark import (
    APPLIED_BELOW_HIGH_WATERMARK,
    HIGH_WATERMARK_MONOTONE,
    HIGH_WATERMARK_OWN_EPOCH,
    HIGH_WATERMARK_SUPPORTED,
)
from checker.checks.identity import IDENTITY
from checker.checks.snapshots import SNAPSHOT_PREFIX
from checker.checks.transitions import ANY, GENERATIONS, HIGHER, LEGAL_TRANSITIONS, SAME, SAME_LEADER
from checker.verdict import CheckResult, Verdict
from tests.checker.cases import Case, assert_case, judge_cases
from tests.checker.tables import SECOND, Row, Story, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VOTERS = [f"{node}/{disk_of(node)}" for node in ("n1", "n2", "n3")]


def move(s: Story, high_watermark: int, epoch: int = 2, **columns: Any) -> Row:
    return s.event(
        "n1",
        "high_watermark",
        **{"state": "leader", "epoch": epoch, "high_watermark": high_watermark, "voters": VOTERS, **columns},
    )


def fetch(s: Story, peer: str, offset: int, epoch: int = 2, **columns: Any) -> Row:
    return s.event(
        "n1", "fetch", **{"peer": peer, "peer_directory_id": disk_of(peer), "offset": offset, "epoch": epoch, **columns}
    )


def shown(row: Row) -> Row:
    """A node event as a witness shows it."""
    return {"table": "node_events", **{name: value for name, value in row.items() if value is not None}}


def own_epoch(s: Story) -> None:
    move(s, 10, entry_epoch=2)


def older_epoch(s: Story) -> None:
    move(s, 10, entry_epoch=1, ts_ns=SECOND)


def supported(s: Story) -> None:
    fetch(s, "n2", 10)
    move(s, 10)
    fetch(s, "n3", 12)
    move(s, 12)


def supported_by_another_epoch(s: Story) -> None:
    fetch(s, "n2", 10, epoch=1)
    fetch(s, "n3", 9)
    move(s, 10, ts_ns=SECOND)
    fetch(s, "n2", 10)


def supported_by_an_observer(s: Story) -> None:
    fetch(s, "n4", 10)
    fetch(s, "n2", 10, peer_directory_id="n2-wiped")
    move(s, 10, ts_ns=SECOND)


def supported_by_static_voters(s: Story) -> None:
    fetch(s, "n2", 10, peer_directory_id=None)
    move(s, 10, voters=["n1", "n2", "n3"])


def it_rises(s: Story) -> None:
    move(s, 10)
    move(s, 12)
    s.event("n1", "high_watermark", state="leader", epoch=3, high_watermark=5)
    s.sample("n1", 1.0, 2, 10)
    s.sample("n1", 1.2, 2, 12)
    s.sample("n1", 1.205, 2, 11)


def it_falls(s: Story) -> None:
    move(s, 12, ts_ns=SECOND)
    move(s, 10, ts_ns=2 * SECOND)


def answers_fall(s: Story) -> None:
    s.sample("n1", 1.0, 2, 12)
    s.sample("n1", 1.2, 2, 11)


def applied_what_is_committed(s: Story) -> None:
    s.event("n2", "apply", offset=10, high_watermark=10)
    s.event("n2", "read", offset=9, required_offset=9, high_watermark=10)


def applied_too_much(s: Story) -> None:
    s.event("n2", "apply", offset=11, high_watermark=10, ts_ns=SECOND)


def read_too_much(s: Story) -> None:
    s.event("n2", "read", offset=11, required_offset=9, high_watermark=10, ts_ns=SECOND)


def a_life(s: Story) -> None:
    for state, epoch in (
        ("unattached", 0), ("prospective", 0), ("candidate", 1), ("leader", 1), ("resigned", 1), ("unattached", 2), ("voted", 2),
        ("follower", 2), ("prospective", 2), ("follower", 2), ("follower", 3), ("prospective", 3), ("unattached", 3),
    ):  # fmt: skip
        s.state("n1", state, epoch, leader="n2" if state == "follower" else None)
    s.state("n1", "resigned", 3, incarnation=2)
    s.state("n1", "follower", 4, incarnation=2)


def an_older_life(s: Story) -> None:
    s.promise(generation="kip-595")
    for state, epoch in (
        ("unattached", 0),
        ("candidate", 1),
        ("candidate", 2),
        ("leader", 2),
        ("follower", 4),
        ("candidate", 5),
    ):
        s.state("n1", state, epoch)


def stands_without_asking(s: Story) -> None:
    s.state("n1", "follower", 2, leader="n2", ts_ns=SECOND)
    s.state("n1", "candidate", 3, ts_ns=2 * SECOND)


def follows_two_in_one_epoch(s: Story) -> None:
    s.state("n1", "follower", 2, leader="n2", ts_ns=SECOND)
    s.state("n1", "follower", 2, leader="n3", ts_ns=2 * SECOND)


def an_unknown_generation(s: Story) -> None:
    s.promise(generation="kip-9999")
    a_life(s)


def a_wiped_disk_acts(s: Story) -> None:
    s.life("n1", "start", 0)
    s.life("n1", "wipe", 5)
    s.life("n1", "format", 5.1, directory_id="n1-new")
    s.event("n1", "start", incarnation=2, epoch=0, ts_ns=6 * SECOND)


def a_wiped_disk_is_replaced(s: Story) -> None:
    s.life("n1", "start", 0)
    s.event("n1", "start", epoch=0)
    s.life("n1", "wipe", 5)
    s.life("n1", "start", 5.2, directory_id="n1-new", incarnation=2)
    s.event("n1", "start", directory_id="n1-new", incarnation=2, epoch=0)


def two_nodes_share_a_disk(s: Story) -> None:
    s.life("n1", "start", 0, directory_id="same")
    s.life("n2", "start", 0, directory_id="same")
    s.event("n1", "start", directory_id="same")


def nobody_acts(s: Story) -> None:
    s.life("n1", "start", 0)
    s.event("n1", "start", directory_id=None, ts_ns=SECOND)


def equal_states(s: Story) -> None:
    s.event("n1", "apply", offset=10, digest=5)
    s.event("n2", "apply", offset=10, digest=5)
    s.event("n2", "apply", offset=11, digest=6)


def other_states(s: Story) -> None:
    s.event("n1", "apply", offset=10, digest=5)
    s.event("n2", "apply", offset=10, digest=6)


def snapshot(s: Story, end_offset: int, **columns: Any) -> None:
    s.rows["snapshots"].append(
        {
            "node": "n1",
            "directory_id": disk_of("n1"),
            "collection": 0,
            "end_offset": end_offset,
            "epoch": 1,
            "complete": True,
            **columns,
        }
    )


def a_snapshot_of_the_committed_prefix(s: Story) -> None:
    snapshot(s, 4)
    s.log("n1", (1, 0, 5))
    s.event("n1", "high_watermark", epoch=1, high_watermark=4, state="follower")
    snapshot(s, 9, complete=False, collection=1)


def a_snapshot_of_more(s: Story) -> None:
    snapshot(s, 6)
    s.log("n1", (1, 0, 5))
    s.event("n1", "high_watermark", epoch=1, high_watermark=4, state="follower", ts_ns=SECOND)


def a_snapshot_of_another_epoch(s: Story) -> None:
    snapshot(s, 3, epoch=2)
    s.log("n1", (1, 0, 5))
    s.event("n1", "high_watermark", epoch=1, high_watermark=4, state="follower", ts_ns=SECOND)


def event(node: str, seq: int, kind: str, **columns: Any) -> Row:
    return {
        "table": "node_events",
        "node": node,
        "directory_id": disk_of(node),
        "incarnation": 1,
        "seq": seq,
        "kind": kind,
        **columns,
    }


CASES = (
    Case("over its own record", own_epoch, HIGH_WATERMARK_OWN_EPOCH),
    Case(
        "over an older epoch's record alone",
        older_epoch,
        HIGH_WATERMARK_OWN_EPOCH,
        "n1 (incarnation 1), leading epoch 2, moved its high watermark to 10 at 1.000 s although the record below it, at offset 9, is of "
        "epoch 1.",
        (event("n1", 1, "high_watermark", ts_ns=SECOND, state="leader", epoch=2, high_watermark=10, entry_epoch=1, voters=VOTERS),),
    ),
    Case("by a majority", supported, HIGH_WATERMARK_SUPPORTED),
    Case("by a majority of voters without directory ids", supported_by_static_voters, HIGH_WATERMARK_SUPPORTED),
    Case(
        "by fetches of an older epoch",
        supported_by_another_epoch,
        HIGH_WATERMARK_SUPPORTED,
        "n1 (incarnation 1), leading epoch 2, moved its high watermark to 10 at 1.000 s with 1 of 3 voters holding the records "
        f"({VOTERS[0]} leads, {VOTERS[1]} never fetched, {VOTERS[2]} fetched up to 9): no majority.",
        (event("n1", 3, "high_watermark", ts_ns=SECOND, state="leader", epoch=2, high_watermark=10, voters=VOTERS),),
    ),
    Case(
        "by an observer and a wiped voter",
        supported_by_an_observer,
        HIGH_WATERMARK_SUPPORTED,
        "n1 (incarnation 1), leading epoch 2, moved its high watermark to 10 at 1.000 s with 1 of 3 voters holding the records "
        f"({VOTERS[0]} leads, {VOTERS[1]} never fetched, {VOTERS[2]} never fetched): no majority.",
        (event("n1", 3, "high_watermark", ts_ns=SECOND, state="leader", epoch=2, high_watermark=10, voters=VOTERS),),
    ),
    Case("it rises, and answers that overtake each other say nothing", it_rises, HIGH_WATERMARK_MONOTONE),
    Case(
        "it falls",
        it_falls,
        HIGH_WATERMARK_MONOTONE,
        "The high watermark of n1, leading epoch 2, fell from 12 at 1.000 s to 10 at 2.000 s.",
        (
            event("n1", 1, "high_watermark", ts_ns=SECOND, state="leader", epoch=2, high_watermark=12, voters=VOTERS),
            event("n1", 2, "high_watermark", ts_ns=2 * SECOND, state="leader", epoch=2, high_watermark=10, voters=VOTERS),
        ),
    ),
    Case(
        "answers fall",
        answers_fall,
        HIGH_WATERMARK_MONOTONE,
        "The high watermark of n1, leading epoch 2, fell from 12 at 1.000 s to 11 at 1.200 s.",
        (
            {"table": "quorum_samples", "node": "n1", "asked_ns": 990_000_000, "ts_ns": SECOND, "epoch": 2, "high_watermark": 12},
            {"table": "quorum_samples", "node": "n1", "asked_ns": 1_190_000_000, "ts_ns": 1_200_000_000, "epoch": 2,
             "high_watermark": 11},
        ),
    ),
    Case("what is committed is applied and read", applied_what_is_committed, APPLIED_BELOW_HIGH_WATERMARK),
    Case(
        "more is applied",
        applied_too_much,
        APPLIED_BELOW_HIGH_WATERMARK,
        "n2 (incarnation 1) applied its log up to offset 11 at 1.000 s while its high watermark was 10: not committed.",
        (event("n2", 1, "apply", ts_ns=SECOND, offset=11, high_watermark=10),),
    ),
    Case(
        "more is read",
        read_too_much,
        APPLIED_BELOW_HIGH_WATERMARK,
        "n2 (incarnation 1) answered a read from a state that goes up to offset 11 at 1.000 s while its high watermark was 10: not "
        "committed.",
        (event("n2", 1, "read", ts_ns=SECOND, offset=11, required_offset=9, high_watermark=10),),
    ),
    Case("a life with pre-vote", a_life, LEGAL_TRANSITIONS),
    Case("a life before pre-vote", an_older_life, LEGAL_TRANSITIONS),
    Case(
        "a candidate that did not ask first",
        stands_without_asking,
        LEGAL_TRANSITIONS,
        "n1 (incarnation 1) went from follower in epoch 2 to candidate in epoch 3 at 2.000 s: there is no such step in kip-996.",
        (
            event("n1", 1, "state", ts_ns=SECOND, state="follower", epoch=2, leader="n2"),
            event("n1", 2, "state", ts_ns=2 * SECOND, state="candidate", epoch=3),
        ),
    ),
    Case(
        "a follower of two leaders in one epoch",
        follows_two_in_one_epoch,
        LEGAL_TRANSITIONS,
        "n1 (incarnation 1) went from follower in epoch 2 to follower in epoch 2 at 2.000 s: that step needs an epoch that is higher, or "
        "the same with the same leader.",
        (
            event("n1", 1, "state", ts_ns=SECOND, state="follower", epoch=2, leader="n2"),
            event("n1", 2, "state", ts_ns=2 * SECOND, state="follower", epoch=2, leader="n3"),
        ),
    ),
    Case(
        "a wiped disk acts again",
        a_wiped_disk_acts,
        IDENTITY,
        f"The disk {disk_of('n1')} of n1 was wiped after incarnation 1 at 5.000 s, yet n1 in incarnation 2 (start at 6.000 s) acts under "
        "the same directory id.",
        (
            {"table": "lifecycle", "node": "n1", "directory_id": disk_of("n1"), "assigned": False, "incarnation": 1, "kind": "wipe",
             "ts_ns": 5 * SECOND},
            {**event("n1", 1, "start", ts_ns=6 * SECOND, epoch=0), "incarnation": 2},
        ),
    ),
    Case("a wiped disk is replaced", a_wiped_disk_is_replaced, IDENTITY),
    Case(
        "two nodes share a disk",
        two_nodes_share_a_disk,
        IDENTITY,
        "One directory id, same, belongs to two nodes: n1 in incarnation 1 (start at 0.000 s) and n2 in incarnation 1 (start at 0.000 s).",
        (
            {"table": "lifecycle", "node": "n1", "directory_id": "same", "assigned": False, "incarnation": 1, "kind": "start", "ts_ns": 0},
            {"table": "lifecycle", "node": "n2", "directory_id": "same", "assigned": False, "incarnation": 1, "kind": "start", "ts_ns": 0},
        ),
    ),
    Case(
        "a node acts without identity",
        nobody_acts,
        IDENTITY,
        "n1 in incarnation 1 (start at 1.000 s) has no directory id although the candidate promises one.",
        ({"table": "node_events", "node": "n1", "incarnation": 1, "seq": 1, "ts_ns": SECOND, "kind": "start"},),
    ),
    Case("equal states at equal offsets", equal_states, SNAPSHOT_PREFIX),
    Case(
        "two states at one offset",
        other_states,
        SNAPSHOT_PREFIX,
        "Two states at one offset, 10: n1 (incarnation 1) had digest 5 after applying it, n2 (incarnation 1) had digest 6 after applying "
        "it.",
        (
            {"table": "node_events", "node": "n1", "incarnation": 1, "seq": 1, "kind": "apply", "offset": 10, "digest": 5},
            {"table": "node_events", "node": "n2", "incarnation": 1, "seq": 2, "kind": "apply", "offset": 10, "digest": 6},
        ),
    ),
    Case("a snapshot of the committed prefix", a_snapshot_of_the_committed_prefix, SNAPSHOT_PREFIX),
    Case(
        "a snapshot of more than is committed",
        a_snapshot_of_more,
        SNAPSHOT_PREFIX,
        "The snapshot on n1's disk (copy 0) ends at offset 6, above what was committed: n1 reported high watermark 4 in epoch 1 at "
        "1.000 s.",
        (
            {"table": "snapshots", "node": "n1", "collection": 0, "end_offset": 6, "epoch": 1},
            {"table": "node_events", "node": "n1", "epoch": 1, "high_watermark": 4, "ts_ns": SECOND},
        ),
    ),
    Case(
        "a snapshot of another epoch",
        a_snapshot_of_another_epoch,
        SNAPSHOT_PREFIX,
        "The snapshot on n1's disk (copy 0) ends at offset 3 in epoch 2, but offset 2 on n1's disk (copy 0) holds a record of epoch 1 "
        "with checksum 000003ea.",
        (
            {"table": "snapshots", "node": "n1", "collection": 0, "end_offset": 3, "epoch": 2},
            {"table": "log_entries", "node": "n1", "collection": 0, "offset": 2, "epoch": 1, "checksum": 1002},
        ),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, CheckResult]:
    return judge_cases(spark, tmp_path_factory.mktemp("runs"), CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, results: dict[Case, CheckResult]) -> None:
    assert_case(case, results[case])


def every_edge(generation: str) -> list[tuple[Story, bool]]:
    """All pairs of states in the same, a higher and a lower epoch, as stories, with whether the table allows them."""
    stories = []
    edges = GENERATIONS[generation]
    states = sorted({state for edge in edges for state in edge})
    for before in states:
        for after in states:
            for change in ("same", "higher", "lower"):
                rule = edges.get((before, after))
                legal = rule is not None and (
                    change == "higher" or (change == "same" and rule in (SAME, ANY, SAME_LEADER))
                )
                legal = (
                    legal and not (rule == SAME and change == "higher") and not (rule == HIGHER and change == "same")
                )
                story = Story().promise(generation=generation)
                story.state("n1", before, 5, leader="n2")
                story.state("n1", after, {"same": 5, "higher": 6, "lower": 4}[change], leader="n2")
                stories.append((story, legal))
    return stories


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_edge(generation: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The plan says of every pair of states what the table says: all pairs are nodes of one run."""
    merged = Story().promise(generation=generation)
    expected = set()
    for number, (story, legal) in enumerate(every_edge(generation)):
        for row in story.rows["node_events"]:
            merged.rows["node_events"].append({**row, "node": f"n{number}", "directory_id": "d"})
        if not legal:
            expected.add(f"n{number}")
    assert 0 < len(expected) < number
    case = Case(
        "edges", lambda story: story.rows.update(merged.rows) or story.promise(generation=generation), LEGAL_TRANSITIONS
    )
    result = judge_cases(spark, tmp_path_factory.mktemp("edges"), (case,))[case]
    assert result.anomaly_count == len(expected)
    assert {anomaly.witness[0]["node"] for anomaly in result.anomalies} <= expected
    assert result.exercised == number + 1


def test_a_generation_without_a_table_is_unknown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    case = Case("unknown generation", an_unknown_generation, LEGAL_TRANSITIONS)
    result = judge_cases(spark, tmp_path_factory.mktemp("edges"), (case,))[case]
    assert result.verdict is Verdict.UNKNOWN
    assert result.reason == "there is no table of legal transitions for generation kip-9999"
