"""Links of every backend, asked of real packets."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import permutations

import pytest

from clusters.links import OPEN, between, bridge, groups, majority_ring
from tests.clusters.conformance.lab import Lab
from workloads.problem import Problem


def test_every_shape_is_made_exactly_from_whatever_was_before(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(5)
    n1, n2, n3, n4, n5 = lab.names
    pairs = list(permutations(lab.names, 2))
    shapes = [
        between([n1], [n2]),
        between([n1], [n2, n3, n4, n5]),
        between([n2, n3, n4, n5], [n1]),
        groups([n1], [n2, n3, n4, n5]),
        groups([n1, n2], [n3, n4, n5]),
        groups([n1, n3], [n2, n4, n5]),
        majority_ring(lab.names),
        bridge([n1, n2], n3, [n4, n5]),
        groups([n1], [n2], [n3], [n4], [n5]),
        OPEN,
    ]
    for links in shapes:
        lab.cluster.cut(links)
        arrived = lab.cluster.probe(pairs)
        assert {pair for pair in pairs if not arrived[pair]} == links.cut, links.texts()


def test_a_connection_between_nodes_needs_both_directions_and_clients_pass_through_every_partition(lab: Lab) -> None:
    lab.serve("n1", "n2")
    assert lab.dial("n1", "n2", 20) == "through"
    for links in (between(["n1"], ["n2"]), between(["n2"], ["n1"])):
        lab.cluster.cut(links)
        assert lab.dial("n1", "n2", 0.5) == "TimeoutError", links.texts()
        assert lab.ask("n2", "echo still here") == "still here"
    lab.cluster.cut(groups(*([name] for name in lab.names)))
    assert lab.ask("n1", "echo alone") == "alone"
    lab.cluster.cut(OPEN)
    assert lab.dial("n1", "n2", 20) == "through"


def test_a_cut_link_stays_cut_while_its_nodes_are_killed_and_started(lab: Lab) -> None:
    lab.serve("n1", "n2")
    cut = groups(["n1"], ["n2", "n3"])
    lab.cluster.cut(cut)
    for name in ("n1", "n2"):
        lab.kill(name)
    lab.serve("n1", "n2")
    assert lab.dial("n1", "n2", 0.5) == "TimeoutError"
    assert lab.dial("n2", "n1", 0.5) == "TimeoutError"
    pairs = list(permutations(lab.names, 2))
    assert {pair for pair, arrived in lab.cluster.probe(pairs).items() if not arrived} == cut.cut
    lab.cluster.cut(OPEN)
    assert lab.dial("n1", "n2", 20) == "through"


def test_a_paused_node_does_not_open_or_close_links(lab: Lab) -> None:
    lab.serve("n1")
    lab.cluster.signal("n1", signal.SIGSTOP)
    lab.cluster.cut(between(["n2"], ["n1"]))
    asked = [("n1", "n2"), ("n2", "n1"), ("n3", "n1")]
    assert list(lab.cluster.probe(asked).values()) == [True, False, True]


def test_a_cut_of_an_unknown_node_is_refused_and_changes_nothing(lab: Lab) -> None:
    lab.cluster.cut(between(["n1"], ["n2"]))
    with pytest.raises(Problem, match="no node n9") as caught:
        lab.cluster.cut(between(["n9"], ["n2"]))
    assert caught.value.slug == "unknown-node"
    assert lab.cluster.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): False, ("n2", "n1"): True}
