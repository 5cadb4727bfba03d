"""Shapes of partitions: what each must cut and what it must leave open, for any number of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.links import OPEN, Links, between, bridge, groups, majority_ring, union


def names(count: int) -> list[str]:
    return [f"n{i}" for i in range(1, count + 1)]


def seen_by(node: str, nodes: list[str], links: Links) -> frozenset[str]:
    """The nodes that ``node`` can talk with, both ways, itself included."""
    return frozenset(
        other for other in nodes if other == node or ((node, other) not in links.cut and (other, node) not in links.cut)
    )


def is_symmetric(links: Links) -> bool:
    return all((b, a) in links.cut for a, b in links.cut)


rings = st.integers(min_value=4, max_value=15).flatmap(lambda count: st.permutations(names(count)))
clusters = st.integers(min_value=3, max_value=9).flatmap(lambda count: st.permutations(names(count)))


@given(rings)
def test_in_a_ring_every_node_sees_a_majority_and_no_two_see_the_same(nodes: list[str]) -> None:
    links = majority_ring(nodes)
    views = [seen_by(node, nodes, links) for node in nodes]
    assert all(2 * len(view) > len(nodes) for view in views)
    assert len(set(views)) == len(nodes)
    assert is_symmetric(links)


@pytest.mark.parametrize(("count", "seen"), [(5, 3), (7, 5)])
def test_a_ring_leaves_no_more_than_a_majority_and_one(count: int, seen: int) -> None:
    nodes = names(count)
    links = majority_ring(nodes)
    assert {len(seen_by(node, nodes, links)) for node in nodes} == {seen}


def test_the_ring_of_five_cuts_exactly_the_two_that_are_not_neighbours() -> None:
    assert [pair for pair in majority_ring(names(5)).texts() if pair.startswith("n1>")] == ["n1>n3", "n1>n4"]


@pytest.mark.parametrize("nodes", [names(3), ["n1", "n2", "n3", "n4", "n4"]])
def test_a_ring_that_would_cut_nothing_or_count_a_node_twice_is_refused(nodes: list[str]) -> None:
    with pytest.raises(ValueError, match="at least four different nodes"):
        majority_ring(nodes)


@given(clusters, st.data())
def test_halves_leave_the_leader_with_its_company_and_the_others_a_majority(
    nodes: list[str], data: st.DataObject
) -> None:
    leader = data.draw(st.sampled_from(nodes))
    others = [node for node in nodes if node != leader]
    company = (len(nodes) - 1) // 2 - 1
    small, large = frozenset([leader, *others[:company]]), frozenset(others[company:])
    links = groups(small, large)
    assert 2 * len(large) > len(nodes)
    assert all(seen_by(node, nodes, links) == large for node in large)
    assert all(seen_by(node, nodes, links) == small for node in small)


@given(clusters, st.data())
def test_a_node_alone_sees_itself_and_the_others_see_each_other(nodes: list[str], data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(nodes))
    rest = frozenset(nodes) - {node}
    links = groups([node], rest)
    assert seen_by(node, nodes, links) == {node}
    assert all(seen_by(other, nodes, links) == rest for other in rest)


@given(clusters, st.data())
def test_a_one_way_cut_is_silent_in_one_direction_only(nodes: list[str], data: st.DataObject) -> None:
    leader = data.draw(st.sampled_from(nodes))
    others = [node for node in nodes if node != leader]
    out, back = between([leader], others), between(others, [leader])
    assert out.cut == {(leader, other) for other in others}
    assert back.cut == {(other, leader) for other in others}
    assert union(out, back) == groups([leader], others)


@given(clusters, st.data())
def test_across_a_bridge_only_the_middle_sees_everybody(nodes: list[str], data: st.DataObject) -> None:
    middle = data.draw(st.sampled_from(nodes))
    rest = [node for node in nodes if node != middle]
    left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    links = bridge(left, middle, right)
    assert seen_by(middle, nodes, links) == frozenset(nodes)
    assert all(seen_by(node, nodes, links) == {*left, middle} for node in left)
    assert all(seen_by(node, nodes, links) == {*right, middle} for node in right)
    assert is_symmetric(links)


def test_the_bridge_stands_on_no_side() -> None:
    with pytest.raises(ValueError, match="n2 is the bridge"):
        bridge(["n1", "n2"], "n2", ["n3"])


def test_groups_of_one_side_cut_nothing() -> None:
    assert groups(names(3)) == OPEN


def test_a_link_from_a_node_to_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="not n1 twice"):
        Links(frozenset({("n1", "n1")}))


def test_texts_are_sorted_and_say_the_direction() -> None:
    assert between(["n2", "n1"], ["n3"]).texts() == ("n1>n3", "n2>n3")
