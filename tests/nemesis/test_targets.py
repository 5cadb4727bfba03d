"""Who is meant by a role."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from nemesis.faults.parameters import ROLES
from nemesis.faults.targets import chosen, count_of, shuffled

VOTERS = ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("draw", [0.0, 0.49, 0.999])
def test_a_role_never_takes_more_voters_than_it_is_charged_for(role: str, draw: float) -> None:
    nodes = chosen(role, "n2", VOTERS, ("n6", "n7"), draw)
    assert nodes
    assert len(set(nodes) & set(VOTERS)) <= count_of(role, len(VOTERS))


def test_roles_around_the_leader() -> None:
    assert chosen("leader", "n2", VOTERS, (), 0.5) == ("n2",)
    assert chosen("followers", "n2", VOTERS, (), 0.5) == ("n1", "n3", "n4", "n5")
    assert "n2" not in {node for d in range(100) for node in chosen("follower", "n2", VOTERS, (), d / 100)}
    assert chosen("leader", None, VOTERS, (), 0.5) == ()
    assert chosen("observer", "n1", VOTERS, (), 0.5) == ()
    assert chosen("n4", None, VOTERS, (), 0.5) == ("n4",)
    assert chosen("n9", None, VOTERS, (), 0.5) == ()
    assert chosen("all", None, VOTERS, ("n6",), 0.5) == (*VOTERS, "n6")


def test_minority_and_majority_are_what_the_words_say() -> None:
    for count in range(3, 10):
        voters = [f"n{i}" for i in range(1, count + 1)]
        assert 2 * len(chosen("minority", None, voters, (), 0.3)) < count
        assert 2 * len(chosen("majority", None, voters, (), 0.3)) > count
        assert 2 * (len(chosen("majority", None, voters, (), 0.3)) - 1) <= count


def test_every_order_is_drawn_and_none_more_often_than_another() -> None:
    steps = 6000
    orders = Counter(tuple(shuffled(["a", "b", "c"], (i + 0.5) / steps)) for i in range(steps))
    assert set(orders) == set(itertools.permutations("abc"))
    assert max(orders.values()) - min(orders.values()) <= 1
