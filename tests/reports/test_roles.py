"""Who led when: spans of states from events, of claims from samples, and of absences from the life cycle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from clusters.evidence.schema import TABLES
from reports.roles import Overlap, Roles, Span, overlaps, read_roles, reigns
from tests.reports.stored_runs import NEW_DISK, RUN_ID, S, event, life

END_NS = 100 * S


def roles(**rows: list[dict[str, Any]]) -> Roles:
    tables = {name: pa.Table.from_pylist(rows.get(name, []), schema=schema) for name, schema in TABLES.items()}
    return read_roles(tables, END_NS)


def sample(node: str, at_s: int, epoch: int, *, leads: bool, error: str | None = None) -> dict[str, Any]:
    return {
        "run_id": RUN_ID,
        "node": node,
        "ts_ns": at_s * S,
        "claims_leadership": leads,
        "leader": "n1",
        "epoch": epoch,
        "error": error,
    }


def test_a_state_lasts_until_the_next_one_of_the_same_process() -> None:
    read = roles(
        node_events=[
            event("n1", 0, 1 * S, "start", state="unattached", epoch=0),
            event("n1", 1, 3 * S, "state", state="leader", epoch=1),
            event("n1", 2, 4 * S, "append", epoch=1, state="leader"),
        ],
        lifecycle=[life("n1", "start", 1), life("n1", "kill", 9)],
    )
    assert [(s.role, s.epoch, s.start_ns // S, s.end_ns // S) for s in read.states] == [
        ("unattached", 0, 1, 3),
        ("leader", 1, 3, 9),
    ]
    assert [(s.role, s.start_ns // S, s.end_ns) for s in read.absences] == [("down", 9, END_NS)]


def test_answers_stand_in_where_a_node_has_no_events() -> None:
    read = roles(
        quorum_samples=[sample("n1", 1, 1, leads=True), sample("n1", 2, 1, leads=True), sample("n2", 2, 1, leads=False)]
    )
    assert [(s.node, s.role, s.source) for s in read.states] == [
        ("n1", "leader", "quorum_samples"),
        ("n2", "follower", "quorum_samples"),
    ]
    assert [(s.node, s.start_ns // S, s.end_ns // S) for s in read.claims] == [("n1", 1, 2)]


def test_an_unanswered_sample_ends_a_series_of_claims() -> None:
    asked = [
        sample("n1", 1, 1, leads=True),
        sample("n1", 2, 0, leads=False, error="TIMED_OUT"),
        sample("n1", 3, 1, leads=True),
    ]
    assert len(roles(quorum_samples=asked).claims) == 2


def test_a_pause_and_a_new_disk_are_seen() -> None:
    read = roles(
        lifecycle=[
            life("n1", "format", 0), life("n1", "start", 1), life("n1", "pause", 2), life("n1", "resume", 3), life("n1", "wipe", 4),
            life("n1", "format", 5, NEW_DISK, 1), life("n1", "start", 6, NEW_DISK, 1),
        ]
    )  # fmt: skip
    assert [(s.role, s.start_ns // S, s.end_ns // S) for s in read.absences] == [
        ("down", 0, 1),
        ("paused", 2, 3),
        ("down", 4, 6),
    ]
    assert [(s.directory_id, s.start_ns // S) for s in read.wipes] == [(NEW_DISK, 5)]


def leader(node: str, epoch: int, start: int, end: int) -> Span:
    return Span(node, "leader", epoch, start, end)


def test_two_leaders_of_one_epoch_are_forbidden_and_two_epochs_are_not() -> None:
    one, lingering, rival = leader("n1", 1, 0, 10), leader("n2", 2, 8, 20), leader("n3", 2, 15, 18)
    found = overlaps(Roles((one, lingering, rival), (), (), ()))
    assert found == (Overlap(15, 18, ("n2", "n3"), (2, 2)), Overlap(8, 10, ("n1", "n2"), (1, 2)))
    assert [overlap.forbidden for overlap in found] == [True, False]


def test_the_newest_leader_ends_the_reign_of_an_older_one() -> None:
    found = reigns(Roles((leader("n1", 1, 0, 10), leader("n2", 2, 8, 20)), (leader("n1", 1, 1, 12),), (), ()))
    assert [(s.node, s.start_ns, s.end_ns) for s in found] == [("n1", 0, 8), ("n2", 8, 20)]
