"""What the nodes said to each other, summed up: who asked for votes and what came of it, messages by API and pair, what was lost.

A *round* is one try of one candidate: its Vote requests of one epoch and one kind, to each voter at most one. A pre-vote round asks
whether it could win and raises nothing (KIP-996); a vote round is a candidacy, for which the epoch was raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workloads.history.operation import FaultRow

_NS_PER_S = 1e9
_ROUND_NS = 1_000_000_000
"""the longest time between the first and the last request of one round"""


@dataclass(slots=True)
class Round:
    """One try. ``answers``: voter → whether it granted; voters that were asked and did not answer are missing there."""

    candidate: str
    epoch: int
    pre_vote: bool
    started_ns: int
    asked: set[str] = field(default_factory=set)
    answers: dict[str, bool] = field(default_factory=dict)
    ended_ns: int = 0
    """of the last answer, or the last request"""

    @property
    def kind(self) -> str:
        """``pre-vote`` or ``vote``."""
        return "pre-vote" if self.pre_vote else "vote"

    @property
    def granted(self) -> int:
        """How many of the others granted it."""
        return sum(self.answers.values())

    def won(self, voters: int) -> bool:
        """Whether a majority of so many voters, the candidate among them, granted it."""
        return 2 * (self.granted + 1) > voters


@dataclass(frozen=True, slots=True)
class Return:
    """What nodes that a fault had cut off asked for, from its start until ``until_ns``, the next fault's start or the end."""

    fault: FaultRow
    until_ns: int
    pre_votes: int
    votes: int
    raised: int
    """by how much the epoch that they asked votes for was above that of the fault's beginning"""
    highest_epoch: int | None
    """the highest that anybody named in a message until then"""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages of one API from one node to another: requests, and their answers."""

    api: str
    source: str
    destination: str
    requests: int
    lost: int
    """of either direction: lost, unacknowledged, torn or unknown"""
    unanswered: int
    answer_ms: float | None
    """median from the request's sending to its answer's"""
    errors: tuple[tuple[str, int], ...]


def rounds(rpcs: pa.Table) -> tuple[Round, ...]:
    """All rounds, in order of time."""
    chosen = rpcs.filter(pc.and_(pc.equal(rpcs["api"], "Vote"), pc.is_null(rpcs["problem"])))
    made: list[Round] = []
    latest: dict[tuple[str, int, bool], Round] = {}
    by_request: dict[tuple[str, int], Round] = {}
    for row in chosen.sort_by("ts_ns").to_pylist():
        if row["kind"] == "request":
            key = (row["src"], row["epoch"], bool(row["pre_vote"]))
            current = latest.get(key)
            if current is None or row["dst"] in current.asked or row["ts_ns"] - current.started_ns > _ROUND_NS:
                current = latest[key] = Round(*key, started_ns=row["ts_ns"])
                made.append(current)
            current.asked.add(row["dst"])
            current.ended_ns = max(current.ended_ns, row["ts_ns"])
            by_request[row["connection"], row["correlation_id"]] = current
        elif row["fate"] == "delivered":
            answered = by_request.get((row["connection"], row["correlation_id"]))
            if answered is not None:
                answered.answers[row["src"]] = bool(row["granted"])
                answered.ended_ns = max(answered.ended_ns, row["delivered_ns"] or row["ts_ns"])
    return tuple(made)


def returns(faults: Sequence[FaultRow], tried: Iterable[Round], rpcs: pa.Table, end_ns: int) -> tuple[Return, ...]:
    """For each fault that cut followers off: what they asked for while they were away and after they had come back."""
    begun = sorted((each for each in faults if each.started_ns is not None), key=lambda each: each.started_ns or 0)
    tried = tuple(tried)
    made = []
    for at, fault in enumerate(begun):
        away = set(fault.isolated)
        if not away or fault.leader in away or fault.started_ns is None:
            continue
        following = next((each.started_ns for each in begun[at + 1 :] if each.started_ns is not None), None)
        until_ns = end_ns if following is None else following
        own = [each for each in tried if each.candidate in away and fault.started_ns <= each.started_ns < until_ns]
        epochs = [each.epoch for each in own if not each.pre_vote]
        told = rpcs.filter(pc.less(rpcs["ts_ns"], until_ns))
        made.append(
            Return(
                fault=fault,
                until_ns=until_ns,
                pre_votes=sum(each.pre_vote for each in own),
                votes=len(epochs),
                raised=max(0, max(epochs, default=0) - (fault.leader_epoch or 0)) if epochs else 0,
                highest_epoch=pc.max(told["epoch"]).as_py() if len(told) else None,
            )
        )
    return tuple(made)


def traffic(rpcs: pa.Table) -> tuple[Traffic, ...]:
    """Messages by API and pair, the most frequent first."""
    columns = ("connection", "correlation_id", "kind", "api", "src", "dst", "ts_ns", "fate", "error")
    asked: dict[tuple[str, Any], tuple[tuple[str, str, str], int]] = {}
    requests: Counter[tuple[str, str, str]] = Counter()
    lost: Counter[tuple[str, str, str]] = Counter()
    answered: dict[tuple[str, str, str], list[int]] = {}
    errors: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rpcs.select(columns).to_pylist():
        api = row["api"] or "unread"
        if row["kind"] == "request":
            pair = (api, row["src"], row["dst"])
            requests[pair] += 1
            asked[row["connection"], row["correlation_id"]] = (pair, row["ts_ns"])
        else:
            pair, asked_ns = asked.get(
                (row["connection"], row["correlation_id"]), ((api, row["dst"], row["src"]), None)
            )
            if asked_ns is not None and row["ts_ns"] is not None:
                answered.setdefault(pair, []).append(row["ts_ns"] - asked_ns)
            if row["error"] not in (None, "NONE"):
                errors.setdefault(pair, Counter())[row["error"]] += 1
        lost[pair] += row["fate"] != "delivered"
    return tuple(
        Traffic(
            *pair,
            requests=count,
            lost=lost[pair],
            unanswered=max(0, count - len(answered.get(pair, ()))),
            answer_ms=median(answered[pair]) / 1e6 if answered.get(pair) else None,
            errors=tuple(sorted(errors.get(pair, Counter()).items())),
        )
        for pair, count in sorted(requests.items(), key=lambda item: (-item[1], item[0]))
    )


def told(each: Round) -> str:
    """What a round was and what came of it, in a sentence."""
    silent = len(each.asked) - len(each.answers)
    outcome = f"{each.granted} of {len(each.asked)} asked granted it" + (f", {silent} did not answer" if silent else "")
    what = "asked whether it would get votes in" if each.pre_vote else "stood as candidate of"
    return f"{each.candidate} {what} epoch {each.epoch} at {each.started_ns / _NS_PER_S:.3f} s: {outcome}"
