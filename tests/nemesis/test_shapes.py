"""Partitions by their names: who is cut from whom, and who has no majority."""

from __future__ import annotations

import pytest

from nemesis.faults.shapes import SHAPES, shape

VOTERS = ("n1", "n2", "n3", "n4", "n5")


def heard_by(cut: frozenset[tuple[str, str]], node: str, nodes: tuple[str, ...]) -> set[str]:
    return {other for other in nodes if other != node and (other, node) not in cut}


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("draw", [0.0, 0.3, 0.99])
def test_whoever_cannot_hear_or_reach_a_majority_is_named_isolated(name: str, draw: float) -> None:
    cut = shape(name, "n2", VOTERS, ("n6",), draw)
    for node in VOTERS:
        heard = heard_by(cut.links.cut, node, VOTERS)
        reached = {other for other in VOTERS if other != node and (node, other) not in cut.links.cut}
        assert (len(heard & reached) + 1 < 3) is (node in cut.isolated), (name, node)


def test_the_leader_is_cut_both_ways_and_nobody_else_is() -> None:
    cut = shape("isolate-leader", "n3", VOTERS, (), 0.5)
    assert cut.links.cut == {pair for other in VOTERS if other != "n3" for pair in (("n3", other), (other, "n3"))}


def test_a_deaf_leader_sends_and_an_unheard_one_hears() -> None:
    deaf = shape("leader-deaf", "n1", ("n1", "n2", "n3"), (), 0.0)
    unheard = shape("leader-unheard", "n1", ("n1", "n2", "n3"), (), 0.0)
    assert deaf.links.cut == {("n2", "n1"), ("n3", "n1")}
    assert unheard.links.cut == {("n1", "n2"), ("n1", "n3")}


def test_the_leader_with_the_observers_is_a_minority_of_the_voters() -> None:
    cut = shape("split-leader-and-observers", "n1", ("n1", "n2", "n3"), ("n4",), 0.0)
    assert cut.isolated == ("n1", "n4")
    assert ("n1", "n4") not in cut.links.cut
