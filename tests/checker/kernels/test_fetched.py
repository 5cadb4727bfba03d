"""A high watermark that a leader tells is one that a majority had fetched up to; all doubt is in its favour."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from checker.kernels.fetched import judge

VOTERS = frozenset({"n1", "n2", "n3"})
Row = dict[str, Any]


def fetch(voter: str, at: int, offset: int, *, epoch: int = 5, leader: str = "n1") -> Row:
    return {"kind": "request", "ts_ns": at, "src": voter, "dst": leader, "epoch": epoch, "offset": offset, "high_watermark": None,
            "leader": None}  # fmt: skip


def told(at: int, mark: int, *, epoch: int = 5, leader: str = "n1", to: str = "n2") -> Row:
    return {"kind": "response", "ts_ns": at, "src": leader, "dst": to, "epoch": epoch, "offset": None, "high_watermark": mark,
            "leader": leader}  # fmt: skip


def table(rows: list[Row]) -> pa.Table:
    kinds = {"ts_ns": pa.int64(), "offset": pa.int64(), "high_watermark": pa.int64(), "epoch": pa.int32()}
    names = ("kind", "ts_ns", "src", "dst", "epoch", "offset", "high_watermark", "leader")
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds.get(name, pa.string())) for name in names]))


def found(
    rows: list[Row], voters: frozenset[str] = VOTERS, blind: frozenset[str] = frozenset(), slack_ns: int = 0
) -> list[tuple[str, int, int]]:
    judged = judge(table(rows), voters=voters, blind=blind, slack_ns=slack_ns)
    return [(each.answer["src"], each.answer["high_watermark"], each.holders) for each in judged.found]


LEGAL: dict[str, list[Row]] = {
    "one of two others is a majority with the leader": [fetch("n2", 1, 10), told(2, 10)],
    "the highest counts, whatever came later": [fetch("n2", 1, 10), fetch("n2", 2, 8), told(3, 10)],
    "it had been told in an older epoch": [fetch("n2", 1, 10), told(2, 10), told(3, 10, epoch=6, leader="n3")],
    "answers of followers tell nothing": [{**told(2, 10), "leader": "n3"}],
}
WRONG: dict[str, list[Row]] = {
    "before anybody had fetched": [told(1, 10), fetch("n2", 2, 10)],
    "one record further": [fetch("n2", 1, 9), fetch("n3", 1, 9), told(2, 10)],
    "fetched in another epoch": [fetch("n2", 1, 10, epoch=4), told(2, 10)],
    "fetched from another leader": [fetch("n2", 1, 10, leader="n3"), told(2, 10)],
    "fetched by an observer": [fetch("n4", 1, 10), told(2, 10)],
    "told in a newer epoch only": [told(1, 10), fetch("n2", 2, 20, epoch=6), told(3, 20, epoch=6)],
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal(name: str) -> None:
    assert found(LEGAL[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    assert found(WRONG[name]) == [("n1", 10, 1)]


def test_only_the_first_telling_is_looked_at() -> None:
    rows = [fetch("n2", 1, 10), told(2, 10), told(3, 10, to="n3"), told(4, 9)]
    assert judge(table(rows), voters=VOTERS, blind=frozenset(), slack_ns=0).told == 1


def test_clocks_that_differ_and_captures_with_holes_count_for_the_leader() -> None:
    late = [told(10, 10), fetch("n2", 12, 10)]
    assert found(late) == [("n1", 10, 1)]
    assert found(late, slack_ns=5) == []
    assert found(late, blind=frozenset({"n2"})) == [], "when it was sent nobody knows"
    assert found([told(10, 10)], blind=frozenset({"n1"})) == [], "what it was sent nobody knows"


def test_of_four_voters_two_are_no_majority() -> None:
    voters = VOTERS | {"n4"}
    assert found([fetch("n2", 1, 10), told(2, 10)], voters) == [("n1", 10, 2)]
    assert found([fetch("n2", 1, 10), fetch("n4", 1, 10), told(2, 10)], voters) == []


def test_one_voter_is_its_own_majority() -> None:
    assert found([told(1, 10)], frozenset({"n1"})) == []
