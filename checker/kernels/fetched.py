"""High watermarks that leaders told, against what the voters had fetched by then: one pass over the messages of one run.

A voter that fetches at an offset has the leader's log up to there, and a leader knows of it by that request alone. So whatever high
watermark a leader tells in an answer, a majority of the voters, itself among them, must have sent requests in its epoch at
that offset or beyond before the answer left; or it was told in an older epoch already.

All doubt is in the leader's favour: a request counts from its sending (``slack_ns`` earlier, where clocks differ), whether it arrived or
not, and the leader itself holds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A high watermark that too few held: the answer that told it, and how far each voter had fetched."""

    answer: Row
    fetched: Mapping[str, int]
    holders: int


@dataclass(frozen=True, slots=True)
class Judged:
    """``told``: high watermarks that were looked at; only the first telling of each in an epoch is."""

    told: int
    found: tuple[Unsupported, ...]


def judge(fetches: Iterable[Row], *, voters: frozenset[str], blind: frozenset[str], slack_ns: int) -> Judged:
    """Judge the Fetch messages of one run (columns of ``rpcs``). Leaders in ``blind`` are not judged: their captures have holes."""
    moves: list[tuple[int, int, Row]] = []
    for row in fetches:
        if row["ts_ns"] is None or row["epoch"] is None:
            continue
        if row["kind"] == "request" and row["offset"] is not None and row["src"] in voters:
            since_ns = row["ts_ns"] - slack_ns if row["src"] not in blind else -(1 << 62)
            moves.append((since_ns, 0, row))
        elif row["kind"] == "response" and row["high_watermark"] is not None and row["leader"] == row["src"]:
            moves.append((row["ts_ns"], 1, row))
    moves.sort(key=lambda move: move[:2])
    highest = _highest(row for _, kind, row in moves if kind == 1)
    reached: dict[tuple[str, int], dict[str, int]] = {}
    seen: dict[tuple[str, int], int] = {}
    told = 0
    found = []
    for _, kind, row in moves:
        leader = row["src"] if kind else row["dst"]
        fetched = reached.setdefault((leader, row["epoch"]), {})
        if not kind:
            fetched[row["src"]] = max(row["offset"], fetched.get(row["src"], -1))
            continue
        mark = row["high_watermark"]
        if leader in blind or mark <= seen.get((leader, row["epoch"]), -1):
            continue
        seen[leader, row["epoch"]] = mark
        told += 1
        holders = sum(voter == leader or fetched.get(voter, -1) >= mark for voter in voters)
        if 2 * holders <= len(voters) and mark > _before(highest, row["epoch"]):
            found.append(Unsupported(row, dict(fetched), holders))
    return Judged(told, tuple(found))


def _highest(answers: Iterable[Row]) -> dict[int, int]:
    """Epoch → the highest high watermark that was told in it."""
    highest: dict[int, int] = {}
    for row in answers:
        highest[row["epoch"]] = max(row["high_watermark"], highest.get(row["epoch"], -1))
    return highest


def _before(highest: Mapping[int, int], epoch: int) -> int:
    return max((mark for each, mark in highest.items() if each < epoch), default=-1)
