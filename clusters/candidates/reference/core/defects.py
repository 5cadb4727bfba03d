"""Known ways of being wrong, each a replaced decision (numbers are those of the literature on KRaft's and Raft's defects).

A checker is worth what it convicts: each defect here must be found, and nothing without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from workloads.problem import Problem


@dataclass(frozen=True, slots=True)
class Defect:
    """One way of being wrong. ``overrides`` maps names of :class:`Decisions` to what decides instead."""

    number: str
    name: str
    sentence: str
    overrides: Mapping[str, Callable[..., Any]]


def _defect(number: str, name: str, sentence: str, **overrides: Callable[..., Any]) -> Defect:
    return Defect(number, name, sentence, MappingProxyType(overrides))


DEFECTS: tuple[Defect, ...] = (
    _defect(
        "M-1",
        "vote-not-persisted",
        "A vote is not written to the disk, so that a restarted voter votes again in the same epoch.",
        stored_quorum_state=lambda state: replace(state, voted_for=None),
    ),
    _defect(
        "M-2",
        "second-vote-granted",
        "A voter that has voted for one candidate of an epoch votes for the next one too.",
        vote_is_free=lambda _voted_for, _candidate: True,
    ),
    _defect(
        "M-3",
        "log-not-compared",
        "Votes and pre-votes are granted to candidates whose log is behind the voter's.",
        log_is_up_to_date=lambda _candidate, _own: True,
    ),
    _defect(
        "M-5",
        "half-is-a-majority",
        "n div 2 of n voters count as a majority, for elections, commits and confirmations.",
        majority=lambda voters: max(1, voters // 2),
    ),
    _defect(
        "M-6",
        "epoch-not-persisted",
        "Promises are not written to the disk and the log's epoch is ignored: a restarted node begins at epoch 0.",
        stored_quorum_state=lambda _state: None,
        recovered_epoch=lambda stored, _in_log: stored,
    ),
    _defect(
        "M-9",
        "wiped-node-keeps-identity",
        "A node whose disk was wiped comes back under its old directory id and is counted as the voter it was.",
        directory_id=lambda previous, fresh: previous if previous is not None else fresh,
    ),
    _defect(
        "M-13",
        "leader-resumes-epoch",
        "A leader that restarts leads on in the same epoch.",
        resumes_leadership=lambda was_leader: was_leader,
    ),
    _defect(
        "M-14",
        "acknowledged-before-fsync",
        "Records are acknowledged before they are synced to the disk.",
        syncs_log=lambda: False,
    ),
    _defect(
        "M-16",
        "quorum-state-not-synced",
        "Epoch and vote are written without being synced to the disk.",
        syncs_quorum_state=lambda: False,
    ),
    _defect(
        "M-19",
        "no-pre-vote",
        "A node raises its epoch and stands for election without asking whether it could win.",
        pre_vote_is_won=lambda _granted, _needed: True,
    ),
    _defect(
        "M-25",
        "no-check-quorum",
        "A leader that a majority has stopped fetching from does not resign.",
        leadership_lapsed=lambda _silence_ms, _check_quorum_ms: False,
    ),
    _defect(
        "M-28",
        "old-epoch-committed-by-count",
        "A leader commits records of earlier epochs by counting their copies.",
        may_commit=lambda _entry_epoch, _leader_epoch: True,
    ),
    _defect(
        "M-29",
        "acknowledged-on-append",
        "A leader acknowledges a write when it has appended it to its own log.",
        acknowledged_end=lambda _applied_end, log_end: log_end,
    ),
    _defect(
        "M-30",
        "fetch-position-not-validated",
        "A leader takes a follower's fetch position as it comes, whether the logs agree below it or not.",
        position_is_valid=lambda _fetch_offset, _last_fetched_epoch, _leader_end: True,
    ),
    _defect(
        "M-31",
        "observers-counted",
        "Observers count towards the majority that commits.",
        replicated_end=lambda voters, observers, needed: sorted([*voters, *observers], reverse=True)[needed - 1],
    ),
    _defect(
        "M-32",
        "truncates-to-own-high-watermark",
        "A follower whose log diverges truncates it to its own high watermark, which may lag behind what is committed.",
        truncation_offset=min,
    ),
    _defect(
        "M-39",
        "stale-fetch-answer-obeyed",
        "A follower acts on whatever answer to a fetch arrives, of an older epoch and another leader too.",
        fetch_answer_counts=lambda _is_current, _answer_epoch, _own_epoch: True,
    ),
    _defect(
        "M-59",
        "unconfirmed-reads",
        "A leader answers linearizable reads without proving that it still leads.",
        read_is_confirmed=lambda _confirmations, _needed: True,
    ),
    _defect(
        "M-60",
        "follower-reads-before-apply",
        "A follower answers a read before it has applied what ReadOffset told it to wait for.",
        read_is_covered=lambda _applied_end, _required_offset: True,
    ),
    _defect(
        "M-63",
        "applied-on-append",
        "State machines apply records when they are appended, and reads answer what is not committed.",
        applicable_end=lambda _high_watermark, log_end: log_end,
    ),
)


def defect(name_or_number: str) -> Defect:
    """Find a defect by its name or number. Raises Problem, naming what comes near, when there is none."""
    wanted = name_or_number.strip().lower()
    for known in DEFECTS:
        if wanted in (known.name, known.number.lower()):
            return known
    names = [known.name for known in DEFECTS] + [known.number.lower() for known in DEFECTS]
    near = get_close_matches(wanted, names, n=3, cutoff=0.4)
    remedy = f"Did you mean {', '.join(near)}?" if near else f"Known are {', '.join(d.name for d in DEFECTS)}."
    raise Problem("unknown-defect", f"There is no defect {name_or_number!r}.", remedy, usage=True)


def decisions(defects: Iterable[str]) -> Decisions:
    """The decisions of a node that has these defects, given by name or number.

    Raises Problem for an unknown one and for two that replace the same decision.
    """
    overrides: dict[str, Callable[..., Any]] = {}
    owners: dict[str, Defect] = {}
    for chosen in {known.name: known for known in map(defect, defects)}.values():
        for decision, decided in chosen.overrides.items():
            if decision in owners:
                what = f"Defects {owners[decision].name} and {chosen.name} replace the same decision, {decision}."
                raise Problem("defects-conflict", what, "Run them one at a time.", usage=True)
            owners[decision] = chosen
            overrides[decision] = decided
    return replace(CORRECT, **overrides)
