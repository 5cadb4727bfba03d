"""Each defect replaces one decision, is told apart from the others, and decides differently in a running quorum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from clusters.candidates.reference.core.defects import DEFECTS, Defect, decisions, defect
from clusters.candidates.reference.core.messages import BeginQuorumEpochRequest, EpochEnd
from tests.clusters.reference.core.quorum import Quorum
from tests.clusters.reference.core.single import ME, THIRD, ask, fetched, following, records
from tests.clusters.reference.core.storms import storm
from workloads.problem import Problem

NUMBERS = [f"M-{number}" for number in (1, 2, 3, 5, 6, 9, 13, 14, 16, 19, 25, 28, 29, 30, 31, 32, 39, 59, 60, 63)]
ASKED_BY_WHO_FORMATS = {"directory_id"}


def test_the_twenty() -> None:
    assert [known.number for known in DEFECTS] == NUMBERS
    assert len({known.name for known in DEFECTS}) == 20
    assert all(known.sentence.endswith(".") for known in DEFECTS)
    assert all(set(known.overrides) <= {field.name for field in fields(Decisions)} for known in DEFECTS)


@pytest.mark.parametrize("known", DEFECTS, ids=lambda known: known.name)
def test_found_by_name_and_by_number(known: Defect) -> None:
    assert defect(known.name) is known
    assert defect(known.number) is defect(known.number.lower()) is known


@pytest.mark.parametrize(
    ("text", "near"), [("vote-not-persistd", "vote-not-persisted"), ("prevote", "no-pre-vote"), ("m-64", "m-6")]
)
def test_an_unknown_defect_is_answered_with_what_is_near(text: str, near: str) -> None:
    with pytest.raises(Problem) as caught:
        defect(text)
    assert (caught.value.slug, caught.value.usage) == ("unknown-defect", True)
    assert near in caught.value.remedy


def test_without_defects_every_decision_is_the_correct_one() -> None:
    assert decisions([]) == CORRECT


def test_two_defects_of_one_decision_exclude_each_other() -> None:
    with pytest.raises(Problem, match="stored_quorum_state") as caught:
        decisions(["M-1", "epoch-not-persisted"])
    assert caught.value.slug == "defects-conflict"
    both = decisions(["M-1", "m-19", "M-1"])
    assert both.stored_quorum_state is not CORRECT.stored_quorum_state
    assert both.pre_vote_is_won is not CORRECT.pre_vote_is_won


class Noted:
    """A defect's decisions, noting how often one decided otherwise than the correct one would have."""

    def __init__(self, known: Defect) -> None:
        self.hits = 0
        self.decisions = Decisions(**{name: self._beside(name, wrong) for name, wrong in known.overrides.items()})

    def _beside(self, name: str, wrong: Callable[..., Any]) -> Callable[..., Any]:
        right = getattr(CORRECT, name)

        def decided(*arguments: Any) -> Any:
            answer = wrong(*arguments)
            self.hits += answer != right(*arguments)
            return answer

        return decided


@pytest.mark.parametrize(
    "known",
    [known for known in DEFECTS if not set(known.overrides) & ASKED_BY_WHO_FORMATS],
    ids=lambda known: known.name,
)
def test_a_defect_decides_otherwise_in_a_running_quorum(known: Defect) -> None:
    noted = Noted(known)
    for seed in range(60):
        storm(seed, voters=3, observers=1, decisions=noted.decisions)
        if noted.hits:
            return
    pytest.fail(f"{known.name} never decided otherwise")


def test_a_wiped_disk_gets_the_identity_before_it_only_by_defect() -> None:
    assert CORRECT.directory_id("before", "fresh") == CORRECT.directory_id(None, "fresh") == "fresh"
    wrong = decisions(["wiped-node-keeps-identity"])
    assert wrong.directory_id("before", "fresh") == "before"
    assert wrong.directory_id(None, "fresh") == "fresh"


def test_an_isolated_leader_stays_only_by_defect() -> None:
    for names, stays in (([], False), (["no-check-quorum"], True)):
        quorum = Quorum(1, decisions=decisions(names))
        leader = quorum.run_until_led()
        quorum.cut = {(a, b) for a in quorum.places for b in quorum.places if leader in (a, b)}
        quorum.run_ms(5000)
        assert (quorum.node(leader).leadership is not None) is stays


def test_a_returning_follower_disturbs_only_by_defect() -> None:
    for names, disturbed in (([], False), (["no-pre-vote"], True)):
        quorum = Quorum(1, decisions=decisions(names))
        leader = quorum.run_until_led()
        epoch = quorum.node(leader).epoch
        away = next(number for number in quorum.places if number != leader)
        quorum.cut = {(a, b) for a in quorum.places for b in quorum.places if away in (a, b)}
        quorum.run_ms(10_000)
        quorum.cut = set()
        quorum.run_ms(2000)
        assert (quorum.node(quorum.run_until_led()).epoch > epoch) is disturbed


def test_a_late_word_to_truncate_is_obeyed_only_by_defect() -> None:
    """M-39: asked in epoch 1, the leader of which answers when THIRD has led epoch 2 for a while."""
    for names, end in (([], 3), (["stale-fetch-answer-obeyed"], 1)):
        node = following(log=records(1, 1), decisions=decisions(names))
        ask(node, BeginQuorumEpochRequest(2, THIRD.node_id, ME))
        core.on_response(node, 2, fetched(2, THIRD.node_id, 3, batches=records(1, 1, 2)[2:]), 1)
        core.take(node)
        assert (node.epoch, node.log.end_offset, node.high_watermark) == (2, 3, 3)
        core.on_response(node, 1, fetched(diverging=EpochEnd(1, 1)), 2)
        assert (node.log.end_offset, node.high_watermark) == (end, end)


def test_a_deposed_leader_answers_reads_only_by_defect() -> None:
    """M-59: cut off, and asked before it resigns."""
    for names, stale in (([], False), (["unconfirmed-reads"], True)):
        quorum = Quorum(1, decisions=decisions(names))
        leader = quorum.run_until_led()
        quorum.cut = {(a, b) for a in quorum.places for b in quorum.places if leader in (a, b)}
        quorum.run_ms(100)
        read = quorum.read(leader, 1)
        quorum.run_ms(100)
        assert read.ok is stale


def test_an_uncommitted_write_is_read_only_by_defect() -> None:
    """M-63: followers confirm the leader and do not fetch."""
    for names, dirty in (([], False), (["applied-on-append"], True)):
        quorum = Quorum(1, decisions=decisions(names))
        leader = quorum.run_until_led()
        quorum.write(leader, 1, 5)
        node = quorum.node(leader)
        assert node.machine.applied_end == (node.log.end_offset if dirty else node.high_watermark)
        assert (node.machine.value(1) == 5) is dirty
