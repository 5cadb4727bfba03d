"""What the nodes said to each other, summed up for a person: rounds of votes, followers that came back, messages by pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from clusters.evidence.schema import RPCS
from reports.compose import compose
from reports.load import read_run
from reports.messages import returns, rounds, traffic
from tests.reports import stored_runs
from tests.reports.stored_runs import MS, S
from workloads.history.manifest import CaptureEntry
from workloads.history.operation import FaultRow

Row = dict[str, Any]


def message(src: str, dst: str, kind: str, at_ns: int, number: int, **columns: Any) -> Row:
    """A delivered message of the API Vote, unless told otherwise."""
    asks = kind == "request"
    row = {
        "run_id": "r",
        "ts_ns": at_ns,
        "delivered_ns": at_ns + MS,
        "connection": f"{src}-{dst}#1" if asks else f"{dst}-{src}#1",
        "correlation_id": number,
        "src": src,
        "dst": dst,
        "kind": kind,
        "fate": "delivered",
        "api": "Vote",
        "size_bytes": 80,
        "is_news": True,
    }
    return {**row, **columns}


def asks(candidate: str, epoch: int, at_s: float, answers: dict[str, bool | None], *, pre_vote: bool) -> list[Row]:
    """One round, with the answer of each other node; None: the answer got lost."""
    rows = []
    for at, (voter, granted) in enumerate(answers.items()):
        begin, number = round(at_s * S) + at * MS, round(at_s * 1000)
        rows.append(
            message(candidate, voter, "request", begin, number, epoch=epoch, replica=candidate, pre_vote=pre_vote)
        )
        told = {"asked_epoch": epoch, "granted": bool(granted), "pre_vote": pre_vote, "error": "NONE"}
        lost = {} if granted is not None else {"fate": "lost", "delivered_ns": None}
        rows.append(message(voter, candidate, "response", begin + 2 * MS, number, **told, **lost))
    return rows


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, RPCS)


def isolation(number: int, node: str, started_s: float, ended_s: float, *, epoch: int) -> FaultRow:
    return FaultRow(
        fault_id=number,
        fault="isolate-follower",
        targets=(node,),
        links=(),
        planned_ns=round(started_s * S),
        started_ns=round(started_s * S),
        ended_ns=round(ended_s * S),
        verified=True,
        isolated=(node,),
        leader="n3",
        leader_epoch=epoch,
    )


def test_requests_of_one_try_are_one_round() -> None:
    tried = rounds(
        table(
            [
                *asks("n1", 4, 5.0, {"n2": True, "n3": None}, pre_vote=True),
                *asks("n1", 5, 5.1, {"n2": True, "n3": False}, pre_vote=False),
                *asks("n1", 5, 5.3, {"n2": False, "n3": False}, pre_vote=False),
                *asks("n2", 5, 5.2, {"n3": False}, pre_vote=False),
                message("n1", "n2", "request", 6 * S, 9, api="Fetch", epoch=5),
            ]
        )
    )
    assert [(each.candidate, each.kind, each.epoch, each.answers, len(each.asked)) for each in tried] == [
        ("n1", "pre-vote", 4, {"n2": True}, 2),
        ("n1", "vote", 5, {"n2": True, "n3": False}, 2),
        ("n2", "vote", 5, {"n3": False}, 1),
        ("n1", "vote", 5, {"n2": False, "n3": False}, 2),
    ]
    assert [each.won(3) for each in tried] == [True, True, False, False]
    assert not tried[0].won(5)


def test_a_follower_that_comes_back_raises_the_epoch_without_pre_votes_and_asks_with_them() -> None:
    """KIP-996 as a person sees it: the same fault, twice."""
    said = table(
        [
            *asks("n1", 9, 4.5, {"n2": False, "n3": False}, pre_vote=False),
            *asks("n3", 10, 4.8, {"n1": True, "n2": True}, pre_vote=False),
            *asks("n2", 10, 14.5, {"n1": False, "n3": False}, pre_vote=True),
        ]
    )
    faults = (
        isolation(0, "n1", 1, 4, epoch=3),
        isolation(1, "n2", 11, 14, epoch=10),
        isolation(2, "n3", 20, 22, epoch=10),  # the leader's own isolation is no return of a follower
    )
    without, with_pre_vote = returns(faults, rounds(said), said, 25 * S)
    assert (without.pre_votes, without.votes, without.raised, without.highest_epoch) == (0, 1, 6, 10)
    assert (with_pre_vote.pre_votes, with_pre_vote.votes, with_pre_vote.raised, with_pre_vote.until_ns) == (
        1,
        0,
        0,
        20 * S,
    )


def test_messages_are_counted_by_api_and_pair() -> None:
    rows = asks("n1", 9, 4.5, {"n2": None, "n3": True}, pre_vote=False)
    rows.append(message("n1", "n2", "request", 5 * S, 77, fate="lost", delivered_ns=None))
    rows.append(message("n2", "n1", "response", 6 * S, 78, api="Fetch", error="FENCED_LEADER_EPOCH"))
    by_pair = {(each.api, each.source, each.destination): each for each in traffic(table(rows))}
    lossy = by_pair["Vote", "n1", "n2"]
    assert (lossy.requests, lossy.lost, lossy.unanswered, lossy.answer_ms) == (2, 2, 1, 2.0)
    assert (by_pair["Vote", "n1", "n3"].lost, by_pair["Vote", "n1", "n3"].unanswered) == (0, 0)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    manifest = msgspec.structs.replace(
        stored_runs.manifest(),
        captures=(
            CaptureEntry(node="n1", packets=90, lost=10),
            CaptureEntry(node="n2", packets=90),
            CaptureEntry(node="n3", problem="it was ended at 1024 MiB"),
        ),
    )
    rows = asks("n1", 9, 8.0, {"n2": True, "n3": None}, pre_vote=True)
    return stored_runs.store(
        tmp_path,
        manifest,
        stored_runs.verdict(),
        tables={"operations": [], "faults": [], "rpcs": [{**row, "run_id": manifest.run_id} for row in rows]},
    )


def test_a_page_shows_rounds_messages_and_what_captures_lost(stored: Path) -> None:
    page = compose(read_run(stored))
    (figure,) = [each for each in page.timeline if each.slug == "rounds"]
    assert (
        "n1 asked whether it would get votes in epoch 9 at 8.000 s: 1 of 2 asked granted it, 1 did not answer"
        in figure.svg
    )
    assert [grid.caption for grid in page.messages] == ["Requests by API and pair of nodes"]
    assert any("n1 lost 10 of 100 packets" in warning for warning in page.warnings)
    assert any("n3 were not all captured: it was ended" in warning for warning in page.warnings)
    assert not any("n2" in warning for warning in page.warnings)


def test_a_page_of_a_run_without_captures_says_nothing_of_messages(tmp_path: Path) -> None:
    page = compose(read_run(stored_runs.store(tmp_path, stored_runs.manifest(), stored_runs.verdict())))
    assert page.messages == ()
    assert all(figure.slug != "rounds" for figure in page.timeline)
    assert not any("captur" in warning for warning in page.warnings)
