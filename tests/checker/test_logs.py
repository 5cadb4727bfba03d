"""Logs and what is committed in them: each anomaly as a story, and the legal twin beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from checker.checks.acknowledged import ACKNOWLEDGED_BELOW_HIGH_WATERMARK, ACKNOWLEDGED_LOST
from checker.checks.commitment import COMMITTED_DIVERGENCE, COMMITTED_TRUNCATION, LEADER_COMPLETENESS
from checker.checks.log_matching import LOG_EPOCHS_MONOTONE, LOG_MATCHING
from checker.verdict import CheckResult
from tests.checker.cases import Case, assert_case, judge_cases
from tests.checker.tables import SECOND, Row, Story, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NODES = ("n1", "n2", "n3")


def record(node: str, offset: int, epoch: int, *, kind: str = "data", collection: int = 0, **columns: Any) -> Row:
    """A record as a witness shows it."""
    checksum = columns.pop("checksum", 1000 * epoch + offset)
    return {
        "table": "log_entries", "node": node, "collection": collection, "offset": offset, "epoch": epoch, "kind": kind,
        "checksum": checksum, **columns,
    }  # fmt: skip


def claim(node: str, epoch: int, high_watermark: int, at_s: float) -> Row:
    """An answer as a witness shows it."""
    return {
        "table": "quorum_samples", "node": node, "epoch": epoch, "high_watermark": high_watermark, "ts_ns": round(at_s * SECOND),
    }  # fmt: skip


def equal_logs(s: Story) -> None:
    for node in NODES:
        s.log(node, (1, 0, 3), (2, 4, 6))
    s.sample("n1", 1.0, 1, 4)
    s.sample("n2", 5.0, 2, 7)


def other_bytes_at_one_place(s: Story) -> None:
    equal_logs(s)
    s.rows["log_entries"][5].update(checksum=77)


def records_follow_a_foreign_tail(s: Story) -> None:
    s.log("n1", (1, 0, 1), (2, 2, 4))
    s.log("n2", (1, 0, 3))
    s.record("n2", 4, 2)


def one_epoch_follows_two(s: Story) -> None:
    s.log("n1", (1, 0, 1), (3, 4, 5))
    s.log("n1", (2, 2, 3))
    s.log("n2", (1, 0, 3), (3, 4, 5))


def an_uncommitted_tail_differs(s: Story) -> None:
    s.log("n1", (1, 0, 5))
    s.log("n2", (1, 0, 3), (2, 4, 6))
    s.log("n3", (1, 0, 3), (2, 4, 6))
    s.sample("n1", 1.0, 1, 4)
    s.sample("n2", 5.0, 2, 7)


def a_snapshot_cuts_the_beginning(s: Story) -> None:
    s.log("n1", (1, 0, 3))
    for offset in (2, 3):
        s.record("n2", offset, 1)


def batches_differ(s: Story) -> None:
    s.event("n1", "append", offset=10, end_offset=12, epoch=3, checksum=5, state="leader")
    s.event("n2", "append", offset=10, end_offset=12, epoch=3, checksum=6, state="follower")
    s.event("n3", "append", offset=10, end_offset=11, epoch=3, checksum=9, state="follower")
    s.record("n1", 0, 1, kind="leader_change")


def an_epoch_falls(s: Story) -> None:
    s.log("n1", (1, 0, 1), (3, 2, 2), (2, 3, 4))


def an_epoch_begins_with_data(s: Story) -> None:
    s.log("n1", (1, 0, 1))
    s.record("n1", 2, 2)


def both_committed(s: Story) -> None:
    s.log("n1", (1, 0, 4))
    s.log("n2", (1, 0, 3), (2, 4, 6))
    s.sample("n1", 1.0, 1, 4)
    s.sample("n1", 1.5, 3, 5)
    s.sample("n2", 5.0, 2, 6)


def a_later_epoch_begins_below(s: Story) -> None:
    s.log("n1", (1, 0, 3), (2, 4, 6))
    s.log("n2", (1, 0, 3), (2, 4, 6))
    s.sample("n1", 1.0, 1, 6)
    s.sample("n2", 5.0, 2, 7)


def a_leader_begins_too_early_and_commits_nothing(s: Story) -> None:
    s.log("n1", (1, 0, 5))
    s.log("n2", (1, 0, 3))
    s.record("n2", 4, 2, kind="leader_change", leader="n2")
    s.sample("n1", 1.0, 1, 6)


def a_leader_has_another_record(s: Story) -> None:
    s.log("n1", (1, 0, 1), (2, 2, 3))
    s.log("n2", (1, 0, 1), (2, 2, 3))
    s.log("n3", (1, 0, 4), (3, 5, 5))
    s.sample("n1", 1.0, 2, 4)


def an_old_tail_is_no_leader(s: Story) -> None:
    s.log("n1", (1, 0, 1), (2, 2, 3), (3, 4, 4))
    s.log("n3", (1, 0, 6))
    s.sample("n1", 1.0, 2, 4)
    s.sample("n1", 2.0, 3, 5)


def truncates_below_its_own(s: Story) -> None:
    s.log("n1", (1, 0, 3))
    s.state("n1", "follower", 1, leader="n2")
    s.event("n1", "high_watermark", high_watermark=4, epoch=1, state="follower", ts_ns=SECOND)
    s.event("n1", "truncate", offset=2, log_end=6, high_watermark=4, ts_ns=2 * SECOND)
    s.event("n1", "append", offset=2, end_offset=4, epoch=1)


def truncates_and_does_not_say_from_where(s: Story) -> None:
    """As Apache Kafka's log lines tell it."""
    s.log("n1", (1, 0, 3))
    s.event("n1", "high_watermark", high_watermark=4, epoch=1, state="follower", ts_ns=SECOND)
    s.event("n1", "truncate", offset=2, ts_ns=2 * SECOND)


def truncates_its_uncommitted_tail(s: Story) -> None:
    s.log("n1", (1, 0, 3), (2, 4, 5))
    s.log("n2", (1, 0, 3), (2, 4, 5))
    s.event("n1", "append", offset=0, end_offset=4, epoch=1, state="leader")
    s.event("n1", "high_watermark", high_watermark=4, epoch=1, state="leader")
    s.event("n1", "append", offset=4, end_offset=6, epoch=1, state="leader")
    s.state("n1", "follower", 2, leader="n2")
    s.event("n1", "truncate", offset=4, log_end=6, high_watermark=4)
    s.event("n1", "append", offset=4, end_offset=6, epoch=2, state="follower")
    s.sample("n2", 5.0, 2, 6)


def drops_what_others_committed(s: Story) -> None:
    for node in ("n1", "n2"):
        s.log(node, (1, 0, 4))
    s.log("n3", (1, 0, 2))
    s.event("n3", "append", offset=3, end_offset=5, epoch=1, state="follower", checksum=9)
    s.state("n3", "follower", 2, leader="n2")
    s.event("n3", "truncate", offset=3, log_end=5, high_watermark=3, ts_ns=2 * SECOND)
    s.sample("n1", 1.0, 1, 5)


def drops_what_only_a_later_leader_commits(s: Story) -> None:
    s.log("n1", (1, 0, 4), (3, 5, 5))
    s.log("n3", (1, 0, 4), (3, 5, 5))
    s.event("n3", "append", offset=0, end_offset=3, epoch=1, state="follower")
    s.event("n3", "append", offset=3, end_offset=5, epoch=1, state="follower")
    s.state("n3", "follower", 2, leader="n2")
    s.event("n3", "truncate", offset=3, log_end=5, high_watermark=3)
    s.event("n3", "append", offset=3, end_offset=4, epoch=2, state="follower")
    s.state("n3", "follower", 3, leader="n1")
    s.event("n3", "truncate", offset=3, log_end=4, high_watermark=3)
    s.event("n3", "append", offset=3, end_offset=5, epoch=1, state="follower")
    s.sample("n1", 9.0, 3, 6)


def a_disk_ends_too_early(s: Story) -> None:
    s.log("n1", (1, 0, 3))
    s.sample("n1", 1.0, 1, 6)
    s.stored("n1", 1, log_start=0, log_end=4)


def a_wiped_disk_is_shorter(s: Story) -> None:
    s.log("n1", (1, 0, 1), directory_id="n1-new", collection=1)
    s.log("n1", (1, 0, 5), final=False)
    s.life("n1", "format", -1)
    s.life("n1", "wipe", 5)
    s.life("n1", "format", 5.1, directory_id="n1-new")
    s.stored("n1", 1, ts_ns=5 * SECOND, log_start=0, log_end=6)
    s.stored("n1", 1, directory_id="n1-new", incarnation=2, collection=1, log_start=0, log_end=2)
    s.sample("n1", 1.0, 1, 6)
    s.event("n1", "truncate", offset=6, log_end=6)


def a_disk_is_rewritten(s: Story) -> None:
    s.log("n1", (1, 0, 3), final=False)
    s.log("n1", (1, 0, 2), (2, 3, 4), collection=1)
    s.stored("n1", 1, ts_ns=5 * SECOND, log_start=0, log_end=4)
    s.stored("n1", 2, incarnation=2, collection=1, log_start=0, log_end=5)
    s.event("n1", "high_watermark", epoch=1, high_watermark=4, state="follower", ts_ns=SECOND)


def everything_acknowledged_is_kept(s: Story) -> None:
    for node in NODES:
        s.log(node, (1, 0, 6))
        _, *entries = s.rows["log_entries"][-7:]
        for entry, (f, key, value) in zip(
            entries,
            (
                ("write", 1, 50),
                ("cas", 1, 51),
                ("append", None, 7),
                ("add", None, 4000),
                ("register", None, 0),
                ("write", 2, 50),
            ),
            strict=True,
        ):
            entry.update(f=f, key=key, value=value)
    s.operation("write", 50, key=1)
    s.operation("cas", 50, 51, key=1)
    s.operation("append", 7, offset=3)
    s.operation("add", 1000, output=(3000,))
    s.operation("register", 12, output=(5,))
    s.operation("write", 52, key=1, status="info", completed_ns=None)
    s.sample("n1", 1.0, 1, 7)


def an_append_is_lost(s: Story) -> None:
    everything_acknowledged_is_kept(s)
    s.operation("append", 8, offset=4, client_node="n2")


def a_write_of_another_key_is_lost(s: Story) -> None:
    everything_acknowledged_is_kept(s)
    s.operation("write", 51, key=2)


def a_value_is_only_in_a_superseded_tail(s: Story) -> None:
    everything_acknowledged_is_kept(s)
    s.rows["log_entries"][6].update(epoch=9, checksum=1, f="append", key=None, value=9)
    s.operation("append", 9)
    s.rows["quorum_samples"].clear()
    s.sample("n2", 1.0, 1, 7)


def acknowledged_too_early(s: Story) -> None:
    s.event("n1", "acknowledge", offset=10, high_watermark=11, epoch=2)
    s.event("n1", "acknowledge", offset=11, high_watermark=11, epoch=2, ts_ns=SECOND)


def acknowledged_in_time(s: Story) -> None:
    s.event("n1", "acknowledge", offset=10, high_watermark=11, epoch=2)


def lost(op_id: int, f: str, value: int, **columns: Any) -> Row:
    """A lost operation as a witness shows it."""
    return {
        "table": "operations", "op_id": op_id, "process": 0, "client_node": "n1", "f": f, "input": [value], "output": [],
        "status": "ok", "invoked_ns": SECOND, "completed_ns": 2 * SECOND, **columns,
    }  # fmt: skip


AFTER = "but after recovery no log holds it as a committed record: they end at offset 7, and the high watermark was 7."

CASES = (
    Case("equal logs", equal_logs, LOG_MATCHING),
    Case(
        "other bytes at one place",
        other_bytes_at_one_place,
        LOG_MATCHING,
        "Two different records stand at offset 5 in epoch 2: n1's disk (copy 0) holds checksum 0000004d, n3's disk (copy 0) holds "
        "000007d5.",
        (record("n1", 5, 2, checksum=77), record("n3", 5, 2)),
    ),
    Case(
        "records were appended after a foreign tail",
        records_follow_a_foreign_tail,
        LOG_MATCHING,
        "Epoch 2 begins at offset 2 on n1's disk (copy 0) and at offset 4 on n2's disk (copy 0): the logs share records of that epoch "
        "and differ before them.",
        (
            {"table": "log_entries", "node": "n1", "collection": 0, "epoch": 2, "offset": 2, "kind": "leader_change",
             "last_offset": 4, "previous_epoch": 1},
            {"table": "log_entries", "node": "n2", "collection": 0, "epoch": 2, "offset": 4, "kind": "data",
             "last_offset": 4, "previous_epoch": 1},
        ),
    ),
    Case(
        "one epoch follows two others",
        one_epoch_follows_two,
        LOG_MATCHING,
        "Epoch 3 begins at offset 4 on both logs, but follows epoch 1 on n2's disk (copy 0) and epoch 2 on n1's disk (copy 0).",
        (
            {"table": "log_entries", "node": "n2", "collection": 0, "epoch": 3, "offset": 4, "kind": "leader_change",
             "last_offset": 5, "previous_epoch": 1},
            {"table": "log_entries", "node": "n1", "collection": 0, "epoch": 3, "offset": 4, "kind": "leader_change",
             "last_offset": 5, "previous_epoch": 2},
        ),
    ),
    Case("an uncommitted tail differs", an_uncommitted_tail_differs, LOG_MATCHING),
    Case("a log that starts behind a snapshot", a_snapshot_cuts_the_beginning, LOG_MATCHING),
    Case(
        "two nodes append different batches",
        batches_differ,
        LOG_MATCHING,
        "n1 (incarnation 1) and n2 (incarnation 1) appended different batches at offset 10 in epoch 3: checksums 00000005 and 00000006.",
        (
            {"table": "node_events", "node": "n1", "incarnation": 1, "seq": 1, "kind": "append", "offset": 10, "end_offset": 12,
             "epoch": 3, "checksum": 5, "state": "leader"},
            {"table": "node_events", "node": "n2", "incarnation": 1, "seq": 2, "kind": "append", "offset": 10, "end_offset": 12,
             "epoch": 3, "checksum": 6, "state": "follower"},
        ),
    ),
    Case("epochs rise", equal_logs, LOG_EPOCHS_MONOTONE),
    Case("a snapshot cuts an epoch", a_snapshot_cuts_the_beginning, LOG_EPOCHS_MONOTONE, idle=True),
    Case(
        "an epoch falls",
        an_epoch_falls,
        LOG_EPOCHS_MONOTONE,
        "Epochs fall on n1's disk (copy 0): records of epoch 3 begin at offset 2, yet an older epoch goes on until offset 4.",
        (
            {"table": "log_entries", "node": "n1", "collection": 0, "epoch": 3, "offset": 2, "kind": "leader_change",
             "last_offset": 2, "previous_epoch": 1},
        ),
    ),
    Case(
        "an epoch begins with data",
        an_epoch_begins_with_data,
        LOG_EPOCHS_MONOTONE,
        "Epoch 2 begins at offset 2 on n1's disk (copy 0) with a record of kind data, not with its LeaderChange record.",
        (
            {"table": "log_entries", "node": "n1", "collection": 0, "epoch": 2, "offset": 2, "kind": "data",
             "last_offset": 2, "previous_epoch": 1},
        ),
    ),
    Case("equal logs below both high watermarks", equal_logs, COMMITTED_DIVERGENCE),
    Case("an uncommitted tail is no divergence", an_uncommitted_tail_differs, COMMITTED_DIVERGENCE),
    Case(
        "a later epoch begins below what was committed",
        a_later_epoch_begins_below,
        COMMITTED_DIVERGENCE,
        "n1 reported high watermark 6 in epoch 1 at 1.000 s, so offset 4 was committed in epoch 1 or before; yet n2's disk (copy 0) "
        "holds a record of epoch 2 there, and n2 reported high watermark 7 in epoch 2 at 5.000 s.",
        (
            claim("n1", 1, 6, 1.0),
            {"table": "log_entries", "node": "n2", "collection": 0, "offset": 4, "epoch": 2},
            claim("n2", 2, 7, 5.0),
        ),
    ),
    Case(
        "a leader begins below what was committed",
        a_leader_begins_too_early_and_commits_nothing,
        LEADER_COMPLETENESS,
        "n1 reported high watermark 6 in epoch 1 at 1.000 s; epoch 2, led by n2, begins at offset 4 (on n2's disk (copy 0)): its leader "
        "lacked the committed records from offset 4 to 5.",
        (
            claim("n1", 1, 6, 1.0),
            {"table": "log_entries", "node": "n2", "collection": 0, "offset": 4, "epoch": 2, "kind": "leader_change", "leader": "n2"},
        ),
    ),
    Case(
        "a leader has another record at a committed offset",
        a_leader_has_another_record,
        LEADER_COMPLETENESS,
        "offset 2 on n1's disk (copy 0) holds a record of epoch 2 with checksum 000007d2, committed by epoch 2 (n1 reported high "
        "watermark 4 in epoch 2 at 1.000 s); but the log of epoch 3's leader, which begins its epoch at offset 5, has another there: "
        "offset 2 on n3's disk (copy 0) holds a record of epoch 1 with checksum 000003ea.",
        (record("n1", 2, 2, kind="leader_change"), claim("n1", 2, 4, 1.0), record("n3", 2, 1)),
    ),
    Case("an old uncommitted tail is no leader's log", an_old_tail_is_no_leader, LEADER_COMPLETENESS),
    Case("leaders begin above what was committed", equal_logs, LEADER_COMPLETENESS),
    Case(
        "it truncates below its own high watermark",
        truncates_below_its_own,
        COMMITTED_TRUNCATION,
        "n1 (incarnation 1) truncated its log from 6 to 2 at 2.000 s, below high watermark 4: n1 reported high watermark 4 in epoch 1 "
        "at 1.000 s.",
        (
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "seq": 3, "ts_ns": 2 * SECOND,
             "kind": "truncate", "offset": 2, "log_end": 6, "high_watermark": 4},
            {"table": "node_events", "node": "n1", "incarnation": 1, "seq": 2, "ts_ns": SECOND, "kind": "high_watermark",
             "epoch": 1, "high_watermark": 4},
        ),
    ),
    Case(
        "it truncates, and does not say where its log had ended",
        truncates_and_does_not_say_from_where,
        COMMITTED_TRUNCATION,
        "n1 (incarnation 1) truncated its log to 2 at 2.000 s, below high watermark 4: n1 reported high watermark 4 in epoch 1 at 1.000 s.",
        (
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "seq": 2, "ts_ns": 2 * SECOND,
             "kind": "truncate", "offset": 2},
            {"table": "node_events", "node": "n1", "incarnation": 1, "seq": 1, "ts_ns": SECOND, "kind": "high_watermark",
             "epoch": 1, "high_watermark": 4},
        ),
    ),
    Case("it truncates its uncommitted tail", truncates_its_uncommitted_tail, COMMITTED_TRUNCATION),
    Case(
        "it drops what others had committed",
        drops_what_others_committed,
        COMMITTED_TRUNCATION,
        "n3 (incarnation 1) truncated its log from 5 to 3 at 2.000 s while in epoch 2 and so removed offset 3 of epoch 1, which was "
        "committed in epoch 1: n1's disk (copy 0) holds it, and n1 reported high watermark 5 in epoch 1 at 1.000 s.",
        (
            {"table": "node_events", "node": "n3", "directory_id": disk_of("n3"), "incarnation": 1, "seq": 3, "ts_ns": 2 * SECOND,
             "kind": "truncate", "offset": 3, "log_end": 5, "high_watermark": 3},
            {"table": "node_events", "node": "n3", "incarnation": 1, "seq": 1, "kind": "append", "offset": 3, "end_offset": 5,
             "epoch": 1, "checksum": 9},
            {"table": "log_entries", "node": "n1", "collection": 0, "offset": 3, "epoch": 1},
            claim("n1", 1, 5, 1.0),
        ),
    ),
    Case("it drops what only a later leader commits", drops_what_only_a_later_leader_commits, COMMITTED_TRUNCATION),
    Case(
        "a disk ends below what its node had reported",
        a_disk_ends_too_early,
        COMMITTED_TRUNCATION,
        "n1 reported high watermark 6 in epoch 1 at 1.000 s, and afterwards n1's disk (copy 0) ends at offset 4: committed records are "
        "gone from it.",
        (
            claim("n1", 1, 6, 1.0),
            {"table": "quorum_states", "node": "n1", "collection": 0, "log_start": 0, "log_end": 4},
        ),
    ),
    Case("a wiped disk is another identity", a_wiped_disk_is_shorter, COMMITTED_TRUNCATION),
    Case(
        "a later copy of a disk holds another committed record",
        a_disk_is_rewritten,
        COMMITTED_TRUNCATION,
        "n1 reported high watermark 4 in epoch 1 at 1.000 s; offset 3 on n1's disk (copy 0) holds a record of epoch 1 with checksum "
        "000003eb, and later offset 3 on n1's disk (copy 1) holds a record of epoch 2 with checksum 000007d3.",
        (
            {"table": "node_events", "node": "n1", "epoch": 1, "high_watermark": 4, "ts_ns": SECOND},
            record("n1", 3, 1),
            record("n1", 3, 2, kind="leader_change", collection=1),
        ),
    ),
    Case("everything acknowledged is kept", everything_acknowledged_is_kept, ACKNOWLEDGED_LOST),
    Case(
        "an append is lost",
        an_append_is_lost,
        ACKNOWLEDGED_LOST,
        f"Operation 6 (append, value 8) was acknowledged by n2 for offset 4 at 2.000 s, {AFTER}",
        (lost(6, "append", 8, offset=4, client_node="n2"),),
    ),
    Case(
        "a write is lost though another key has the value",
        a_write_of_another_key_is_lost,
        ACKNOWLEDGED_LOST,
        f"Operation 6 (write of key 2, value 51) was acknowledged by n1 at 2.000 s, {AFTER}",
        (lost(6, "write", 51, key=2),),
    ),
    Case(
        "a value is only in a tail that was superseded",
        a_value_is_only_in_a_superseded_tail,
        ACKNOWLEDGED_LOST,
        f"Operation 6 (append, value 9) was acknowledged by n1 at 2.000 s, {AFTER}",
        (lost(6, "append", 9),),
    ),
    Case(
        "acknowledged before it was committed",
        acknowledged_too_early,
        ACKNOWLEDGED_BELOW_HIGH_WATERMARK,
        "n1 (incarnation 1), leading epoch 2, acknowledged the record at offset 11 at 1.000 s while its high watermark was 11: the "
        "record was not committed.",
        (
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "seq": 2, "ts_ns": SECOND,
             "kind": "acknowledge", "epoch": 2, "offset": 11, "high_watermark": 11},
        ),
    ),
    Case("acknowledged when committed", acknowledged_in_time, ACKNOWLEDGED_BELOW_HIGH_WATERMARK),
)  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, CheckResult]:
    return judge_cases(spark, tmp_path_factory.mktemp("runs"), CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, results: dict[Case, CheckResult]) -> None:
    assert_case(case, results[case])


def test_both_committed_is_a_divergence(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Both nodes reported the offset as committed; the claims are part of the witness."""
    case = Case("both committed", both_committed, COMMITTED_DIVERGENCE)
    result = judge_cases(spark, tmp_path_factory.mktemp("one"), (case,))[case]
    (anomaly,) = result.anomalies
    assert anomaly.message == (
        "Two committed records at one offset: offset 4 on n1's disk (copy 0) holds a record of epoch 1 with checksum 000003ec, "
        "offset 4 on n2's disk (copy 0) holds a record of epoch 2 with checksum 000007d4; n1 reported high watermark 5 in epoch 3 at "
        "1.500 s and n2 reported high watermark 6 in epoch 2 at 5.000 s."
    )
    assert anomaly.witness == (
        record("n1", 4, 1),
        record("n2", 4, 2, kind="leader_change"),
        claim("n1", 3, 5, 1.5),
        claim("n2", 2, 6, 5.0),
    )
