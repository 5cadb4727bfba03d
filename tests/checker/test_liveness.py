"""Bounded liveness and the framework's own checks: each finding as a story, and the legal twin beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from checker.checks.disruption import NO_DISRUPTION
from checker.checks.framework import EVIDENCE_COMPLETE, FAULTS_HAPPENED, NOT_STARVED
from checker.checks.recovery import RECOVERY
from checker.checks.resignation import LEADER_RESIGNS
from checker.verdict import CheckResult, Kind
from tests.checker.cases import Case, assert_case, judge_cases
from tests.checker.tables import SECOND, Row, Story, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def change(s: Story, **fields: Any) -> None:
    s.manifest = msgspec.structs.replace(s.manifest, **fields)


def cut_leader(s: Story, *, ended_s: float = 9.0, **columns: Any) -> None:
    """n1 leads epoch 6 and is cut off at 2 s; the bound is 3 s."""
    s.life("n1", "start", 0)
    s.sample("n1", 1.5, 6)
    s.cut("n1", 2.0, ended_s, **{"leader": "n1", "leader_epoch": 6, **columns})
    s.sample("n1", 4.9, 6)


def still_leads(s: Story) -> None:
    cut_leader(s)
    s.sample("n1", 6.0, 6, 40)
    s.sample("n1", 8.5, 6, 40)


def resigns_in_time(s: Story) -> None:
    cut_leader(s)
    s.sample("n1", 5.5, 6, claims_leadership=False, error="NOT_LEADER_OR_FOLLOWER")
    s.sample("n2", 5.5, 7)
    s.sample("n1", 9.5, 8)


def was_paused(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "pause", 3.0)
    s.life("n1", "resume", 6.0)
    s.sample("n1", 8.5, 6)


def cut_twice_without_healing(s: Story) -> None:
    cut_leader(s, ended_s=4.5, replaced=True)
    s.cut("n1", 4.5, 9.0, leader="n2", leader_epoch=7)
    s.sample("n1", 6.0, 6)


def healed_between(s: Story) -> None:
    cut_leader(s, ended_s=4.5)
    s.cut("n1", 4.8, 7.8, leader="n1", leader_epoch=6)
    s.sample("n1", 7.0, 6)
    s.cut("n1", 10.0, 15.0, leader="n1", leader_epoch=6)


def hears_but_is_not_heard(s: Story) -> None:
    s.life("n1", "start", 0)
    s.fault(2.0, 9.0, links=["n1>n2", "n1>n3"], isolated=["n1"], leader="n1", leader_epoch=6)
    s.sample("n1", 8.0, 6)


def is_heard_but_hears_nothing(s: Story) -> None:
    s.life("n1", "start", 0)
    s.fault(2.0, 9.0, links=["n2>n1", "n3>n1"], isolated=["n1"], leader="n1", leader_epoch=6)
    s.sample("n1", 8.0, 6)


def was_not_verified(s: Story) -> None:
    cut_leader(s, verified=False)
    s.sample("n1", 8.5, 6)


def the_controller_stalled(s: Story) -> None:
    cut_leader(s)
    change(s, stalls=((5 * SECOND, 6 * SECOND),))
    s.sample("n1", 8.5, 6)


def the_controller_stalled_early(s: Story) -> None:
    cut_leader(s)
    change(s, stalls=((1 * SECOND, 2 * SECOND + 1),))
    s.sample("n1", 8.5, 6)


def its_clock_was_set_back(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "clock", 2.5, detail="steady, set back 2.500 s")
    s.sample("n1", 7.9, 6)


def its_clock_was_set_back_before(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "clock", 1.0, detail="steady, set back 4.500 s")
    s.sample("n1", 8.4, 6)


def its_clock_was_set_back_by_less(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "clock", 2.5, detail="steady, set back 1.000 s")
    s.sample("n1", 8.5, 6)


def its_clock_drifts(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "clock", 1.0, detail="unsteady, set back 0.000 s")
    s.sample("n1", 8.5, 6)


def its_clock_drifted_before(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "clock", 1.0, detail="unsteady, set back 0.000 s")
    s.life("n1", "clock", 1.5, detail="steady, set back 0.400 s")
    s.sample("n1", 8.5, 6)


def another_clock_was_set_back(s: Story) -> None:
    cut_leader(s)
    s.life("n2", "clock", 2.5, detail="steady, set back 9.000 s")
    s.sample("n1", 8.5, 6)


def isolated_at(started_s: float = 2.0, ended_s: float = 9.0, **columns: Any) -> Row:
    """The fault that cut n1 off, as a witness shows it."""
    links = [link for other in ("n2", "n3") for link in (f"n1>{other}", f"{other}>n1")]
    return {
        "table": "faults", "fault_id": 0, "fault": "isolate-leader", "links": links, "isolated": ["n1"],
        "started_ns": round(started_s * SECOND), "ended_ns": round(ended_s * SECOND), "leader": "n1", "leader_epoch": 6, **columns,
    }  # fmt: skip


def answer(node: str, at_s: float, epoch: int, **columns: Any) -> Row:
    ts_ns = round(at_s * SECOND)
    return {
        "table": "quorum_samples",
        "node": node,
        "asked_ns": ts_ns - SECOND // 100,
        "ts_ns": ts_ns,
        "epoch": epoch,
        **columns,
    }


def cut_follower(s: Story, **columns: Any) -> None:
    """n2 leads epoch 6; n1 is cut off from 2 s to 9 s."""
    s.life("n1", "start", 0)
    s.cut("n1", 2.0, 9.0, **{"fault": "isolate-follower", "leader": "n2", "leader_epoch": 6, **columns})
    s.sample("n2", 3.0, 6)
    s.sample("n2", 8.9, 6)


def comes_back_in_peace(s: Story) -> None:
    cut_follower(s)
    s.sample("n2", 9.5, 6)
    s.cut("n3", 11.5, 14.0, leader="n2", leader_epoch=6)
    s.sample("n2", 15.0, 7)


def dethrones_the_leader(s: Story) -> None:
    cut_follower(s)
    s.sample("n2", 9.2, 6)
    s.sample("n3", 10.0, 13)


def makes_the_leader_win_again(s: Story) -> None:
    cut_follower(s)
    s.sample("n2", 10.0, 8)


def the_leader_had_changed_before(s: Story) -> None:
    cut_follower(s)
    s.sample("n3", 8.95, 7)
    s.sample("n3", 10.0, 8)


def the_leader_had_resigned_before(s: Story) -> None:
    s.life("n1", "start", 0)
    s.cut("n1", 2.0, 9.0, fault="isolate-follower", leader="n2", leader_epoch=6)
    s.sample("n2", 4.0, 6)
    s.sample("n2", 10.0, 8)


def another_node_was_killed(s: Story) -> None:
    cut_follower(s)
    s.life("n2", "kill", 9.1)
    s.sample("n3", 10.0, 8)


def it_had_led_a_moment_ago(s: Story) -> None:
    s.cut("n1", 0.1, 1.0, leader="n1", leader_epoch=5)
    cut_follower(s)
    s.sample("n3", 10.0, 8)


def another_fault_goes_on(s: Story) -> None:
    s.fault(1.0, 12.0, fault="flapping", targets=["n2"])
    cut_follower(s)
    s.sample("n3", 10.0, 8)


def stands_while_cut_off(s: Story) -> None:
    cut_follower(s)
    s.state("n1", "prospective", 6, ts_ns=3 * SECOND)
    s.state("n1", "candidate", 7, ts_ns=4 * SECOND)


def stood_when_it_was_cut_off(s: Story) -> None:
    cut_follower(s)
    s.state("n1", "candidate", 6, ts_ns=2 * SECOND + SECOND // 2)
    s.state("n1", "prospective", 6, ts_ns=4 * SECOND)
    s.state("n1", "candidate", 7, ts_ns=9 * SECOND + 1)


def recovers(s: Story) -> None:
    s.sample("n2", 21.5, 9)
    s.operation("read", phase="final", invoked_ns=22 * SECOND, completed_ns=23 * SECOND)
    s.operation("read", phase="final", status="info", invoked_ns=22 * SECOND, completed_ns=None, client_node="n3")


def nobody_leads(s: Story) -> None:
    s.sample("n2", 19.0, 9)
    s.operation("read", phase="final", status="info", invoked_ns=22 * SECOND, completed_ns=None)


def recovers_when_the_clocks_have_caught_up(s: Story) -> None:
    s.life("n1", "clock", 20.0, detail="steady, set back 60.000 s")
    s.sample("n2", 85.0, 9)
    s.operation("read", phase="final", invoked_ns=86 * SECOND, completed_ns=87 * SECOND)


def nothing_succeeds(s: Story) -> None:
    s.sample("n2", 21.5, 9)
    s.operation(
        "read", phase="recovery", status="fail", error="TIMEOUT", invoked_ns=22 * SECOND, completed_ns=23 * SECOND
    )


def nothing_succeeds_in_time(s: Story) -> None:
    change(s, recovery_limit_s=1.5)
    s.sample("n2", 21.5, 9)
    s.operation("read", phase="recovery", invoked_ns=22 * SECOND, completed_ns=23 * SECOND)


def nothing_succeeds_for_lack_of_cpu(s: Story) -> None:
    nothing_succeeds(s)
    s.life("n1", "starved", 21.5)


def final_reads_fail(s: Story) -> None:
    s.sample("n2", 21.5, 9)
    s.operation("write", 1, phase="recovery", invoked_ns=21 * SECOND, completed_ns=22 * SECOND)
    s.operation("read", phase="final", status="fail", error="TIMEOUT", invoked_ns=22 * SECOND, completed_ns=23 * SECOND)


def was_stopped_before_healing(s: Story) -> None:
    change(s, phases=(), finished=False, interrupted=True)
    s.sample("n2", 19.0, 9)
    s.operation("read")


def everything_happened(s: Story) -> None:
    change(s, needs={"isolations": 1, "leader_changes": 1, "cut_off_operations": 1, "faults": 1})
    cut_leader(s)
    s.sample("n2", 6.0, 7)
    s.operation("write", 1, invoked_ns=3 * SECOND, completed_ns=None, status="info")


def a_fault_was_not_verified(s: Story) -> None:
    s.cut("n1", 2, 9, verified=False, detail="datagrams disagree with the link matrix on n1>n2")
    s.operation("read")


def a_fault_never_began(s: Story) -> None:
    s.fault(2, 9, started_ns=None, ended_ns=None, verified=None)
    s.operation("read")


def a_fault_was_not_reached(s: Story) -> None:
    change(s, interrupted=True)
    s.fault(2, 9, started_ns=None, ended_ns=None, verified=None)
    s.cut("n1", 1, 2)
    s.operation("read")


def nobody_was_asked_on_the_other_side(s: Story) -> None:
    change(s, needs={"cut_off_operations": 1})
    s.cut("n1", 2, 9)
    s.operation("write", 1, client_node="n2", invoked_ns=3 * SECOND)
    s.operation("write", 1, client_node="n1", invoked_ns=10 * SECOND)


def a_state_is_unreadable(s: Story) -> None:
    s.cut("n1", 2, 9)
    s.life("n1", "start", 0)
    s.operation("read")
    s.stored("n1", None, problem="quorum-state is no JSON")


def a_damaged_disk_is_unreadable(s: Story) -> None:
    a_state_is_unreadable(s)
    s.life("n1", "damage", 20)


def an_output_is_not_understood(s: Story) -> None:
    all_is_readable(s)
    s.event("n2", "problem", seq=7, detail="3 lines are not understood, the first: became king")


def all_is_readable(s: Story) -> None:
    s.cut("n1", 2, 9)
    s.life("n1", "start", 0)
    s.operation("read")
    s.stored("n1", 3)


def lag_without_a_breach(s: Story) -> None:
    cut_leader(s)
    s.life("n1", "starved", 3.0)
    s.operation("read")


BOUND = "it must resign within 3.0 s (2 × check-quorum)."

CASES = (
    Case(
        "a leader that is cut off goes on leading",
        still_leads,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 6.5 s later at 8.500 s; {BOUND}",
        (isolated_at(), answer("n1", 8.5, 6, high_watermark=40)),
    ),
    Case("it resigns in time", resigns_in_time, LEADER_RESIGNS),
    Case("it was paused", was_paused, LEADER_RESIGNS),
    Case(
        "one partition replaces another",
        cut_twice_without_healing,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 4.0 s later at 6.000 s; {BOUND}",
        (isolated_at(), answer("n1", 6.0, 6)),
    ),
    Case("the links were healed in between", healed_between, LEADER_RESIGNS),
    Case("it hears the others, who do not hear it", hears_but_is_not_heard, LEADER_RESIGNS, idle=True),
    Case(
        "it is heard and hears nobody",
        is_heard_but_hears_nothing,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 6.0 s later at 8.000 s; {BOUND}",
        (isolated_at(links=["n2>n1", "n3>n1"]), answer("n1", 8.0, 6)),
    ),
    Case("the cut was not verified", was_not_verified, LEADER_RESIGNS, idle=True),
    Case("the controller stalled in the window", the_controller_stalled, LEADER_RESIGNS),
    Case(
        "the controller stalled long before",
        the_controller_stalled_early,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 6.5 s later at 8.500 s; {BOUND}",
        (isolated_at(), answer("n1", 8.5, 6)),
    ),
    Case("its clock was set back", its_clock_was_set_back, LEADER_RESIGNS),
    Case("its clock was set back before it was cut off", its_clock_was_set_back_before, LEADER_RESIGNS),
    Case("its clock drifts", its_clock_drifts, LEADER_RESIGNS),
    Case(
        "its clock was set back by less than it took longer",
        its_clock_was_set_back_by_less,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 6.5 s later at 8.500 s; {BOUND}",
        (isolated_at(), answer("n1", 8.5, 6)),
    ),
    Case(
        "its clock drifted before it was cut off",
        its_clock_drifted_before,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 6.5 s later at 8.500 s; {BOUND}",
        (isolated_at(), answer("n1", 8.5, 6)),
    ),
    Case(
        "another node's clock was set back",
        another_clock_was_set_back,
        LEADER_RESIGNS,
        f"n1 could hear nothing of n2, n3 from 2.000 s on, and still answered as leader of epoch 6 6.5 s later at 8.500 s; {BOUND}",
        (isolated_at(), answer("n1", 8.5, 6)),
    ),
    Case("it comes back in peace", comes_back_in_peace, NO_DISRUPTION),
    Case(
        "it dethrones the leader",
        dethrones_the_leader,
        NO_DISRUPTION,
        "n1, cut off for 7.0 s, came back and disturbed n2, which had led epoch 6 with its majority all the time: 1.0 s after the heal "
        "the epoch is 13 and n3 leads instead.",
        (isolated_at(fault="isolate-follower", leader="n2"), answer("n3", 10.0, 13)),
    ),
    Case(
        "the leader has to win again",
        makes_the_leader_win_again,
        NO_DISRUPTION,
        "n1, cut off for 7.0 s, came back and disturbed n2, which had led epoch 6 with its majority all the time: 1.0 s after the heal "
        "the epoch is 8 and it had to win a new election.",
        (isolated_at(fault="isolate-follower", leader="n2"), answer("n2", 10.0, 8)),
    ),
    Case("the leader had changed before", the_leader_had_changed_before, NO_DISRUPTION, idle=True),
    Case("the leader had resigned before", the_leader_had_resigned_before, NO_DISRUPTION, idle=True),
    Case("the leader was killed", another_node_was_killed, NO_DISRUPTION, idle=True),
    Case("another fault goes on", another_fault_goes_on, NO_DISRUPTION, idle=True),
    Case("it had led a moment ago", it_had_led_a_moment_ago, NO_DISRUPTION, idle=True),
    Case(
        "it stands while it is cut off",
        stands_while_cut_off,
        NO_DISRUPTION,
        "n1 stood as candidate of epoch 7 at 4.000 s, 2.0 s after it was cut off: too few voters could reach it to grant it a pre-vote.",
        (
            isolated_at(fault="isolate-follower", leader="n2"),
            {"table": "node_events", "node": "n1", "directory_id": disk_of("n1"), "incarnation": 1, "seq": 2, "ts_ns": 4 * SECOND,
             "kind": "state", "state": "candidate", "epoch": 7},
        ),
    ),
    Case("it stood at the moment of the cut, and stands after the heal", stood_when_it_was_cut_off, NO_DISRUPTION),
    Case("it recovers", recovers, RECOVERY),
    Case("it recovers when the clocks have caught up", recovers_when_the_clocks_have_caught_up, RECOVERY),
    Case(
        "nobody leads",
        nobody_leads,
        RECOVERY,
        "Nobody answered as leader within 30.0 s after the last fault was healed: not one ever.",
        (
            {"table": "phases", "name": "heal", "ended_ns": 21 * SECOND},
            {"table": "operations", "op_id": 0, "process": 0, "client_node": "n1", "f": "read", "status": "info",
             "invoked_ns": 22 * SECOND},
        ),
    ),
    Case(
        "nothing succeeds",
        nothing_succeeds,
        RECOVERY,
        "No operation succeeded within 30.0 s after the last fault was healed: not one ever, of 1 tried.",
        (
            {"table": "phases", "name": "heal", "ended_ns": 21 * SECOND},
            {"table": "operations", "op_id": 0, "process": 0, "client_node": "n1", "f": "read", "status": "fail", "error": "TIMEOUT",
             "invoked_ns": 22 * SECOND, "completed_ns": 23 * SECOND},
        ),
    ),
    Case(
        "nothing succeeds in time",
        nothing_succeeds_in_time,
        RECOVERY,
        "No operation succeeded within 1.5 s after the last fault was healed: the first one 2.0 s after it, of 1 tried.",
        (
            {"table": "phases", "name": "heal", "ended_ns": 21 * SECOND},
            {"table": "operations", "op_id": 0, "process": 0, "client_node": "n1", "f": "read", "status": "ok",
             "invoked_ns": 22 * SECOND, "completed_ns": 23 * SECOND},
        ),
    ),
    Case("nothing succeeds, for lack of CPU", nothing_succeeds_for_lack_of_cpu, RECOVERY),
    Case(
        "the final reads fail",
        final_reads_fail,
        RECOVERY,
        "None of the 1 final operations succeeded.",
        (
            {"table": "phases", "name": "heal", "ended_ns": 21 * SECOND},
            {"table": "operations", "op_id": 1, "process": 0, "client_node": "n1", "f": "read", "status": "fail", "error": "TIMEOUT",
             "invoked_ns": 22 * SECOND, "completed_ns": 23 * SECOND},
        ),
    ),
    Case("it was stopped before healing", was_stopped_before_healing, RECOVERY, idle=True),
    Case("everything happened", everything_happened, FAULTS_HAPPENED),
    Case(
        "a fault was not verified",
        a_fault_was_not_verified,
        FAULTS_HAPPENED,
        "Fault 0 (isolate-leader), planned at 2.000 s, was not verified: datagrams disagree with the link matrix on n1>n2.",
        (
            {"table": "faults", "fault_id": 0, "fault": "isolate-leader", "targets": ["n1"], "planned_ns": 2 * SECOND,
             "started_ns": 2 * SECOND, "ended_ns": 9 * SECOND, "verified": False,
             "detail": "datagrams disagree with the link matrix on n1>n2"},
        ),
    ),
    Case(
        "a fault never began",
        a_fault_never_began,
        FAULTS_HAPPENED,
        "Fault 0 (isolate-leader), planned at 2.000 s, was due and never began.",
        ({"table": "faults", "fault_id": 0, "fault": "isolate-leader", "targets": [], "planned_ns": 2 * SECOND, "detail": ""},),
    ),
    Case("a fault was not reached", a_fault_was_not_reached, FAULTS_HAPPENED),
    Case(
        "nobody was asked on the cut-off side",
        nobody_was_asked_on_the_other_side,
        FAULTS_HAPPENED,
        "The scenario needs 1 operations on the cut-off side; there were 0.",
    ),
    Case(
        "a stored state is unreadable",
        a_state_is_unreadable,
        EVIDENCE_COMPLETE,
        "What n1 had on its disk (copy 0) cannot be read: quorum-state is no JSON.",
        (
            {"table": "quorum_states", "node": "n1", "collection": 0, "incarnation": 1, "ts_ns": 24 * SECOND,
             "problem": "quorum-state is no JSON"},
        ),
    ),
    Case("a disk that the run itself had damaged is unreadable", a_damaged_disk_is_unreadable, EVIDENCE_COMPLETE),
    Case("everything is readable", all_is_readable, EVIDENCE_COMPLETE),
    Case(
        "a node's output is not understood",
        an_output_is_not_understood,
        EVIDENCE_COMPLETE,
        "Not all that n2 (incarnation 1) said of itself is understood: 3 lines are not understood, the first: became king.",
        (
            {"table": "node_events", "node": "n2", "incarnation": 1, "seq": 7, "kind": "problem",
             "detail": "3 lines are not understood, the first: became king"},
        ),
    ),
    Case(
        "a late answer fell into a stall",
        the_controller_stalled,
        NOT_STARVED,
        "n1 still answered as leader of epoch 6 6.5 s after it was cut off, but the controller stalled or the node lacked CPU in that "
        "time, so this is no finding.",
        (answer("n1", 8.5, 6),),
    ),
    Case(
        "a failed recovery fell into starvation",
        nothing_succeeds_for_lack_of_cpu,
        NOT_STARVED,
        "No operation succeeded within 30.0 s after the last fault was healed: not one ever, of 1 tried. But the controller stalled or a "
        "node lacked CPU in that time, so this is no finding.",
        (
            {"table": "operations", "op_id": 0, "process": 0, "client_node": "n1", "f": "read", "status": "fail", "error": "TIMEOUT",
             "invoked_ns": 22 * SECOND, "completed_ns": 23 * SECOND},
        ),
    ),
    Case("starvation without a finding", lag_without_a_breach, NOT_STARVED),
    Case("a breach that no stall excuses", the_controller_stalled_early, NOT_STARVED),
)  # fmt: skip


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[Case, CheckResult]:
    return judge_cases(spark, tmp_path_factory.mktemp("runs"), CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, results: dict[Case, CheckResult]) -> None:
    assert_case(case, results[case], unknown=case.check.kind is Kind.FRAMEWORK)


def test_recovery_is_measured(results: dict[Case, CheckResult]) -> None:
    (case,) = (case for case in CASES if case.build is recovers)
    assert results[case].metrics == {"leader_after_s": 0.5, "operation_after_s": 2.0}
