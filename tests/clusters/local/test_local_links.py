"""Links of the local backend, asked of real packets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from clusters.links import OPEN, between, bridge, groups, majority_ring
from workloads.problem import Problem

pytestmark = pytest.mark.namespaces


def test_every_shape_is_made_exactly_from_whatever_was_before(make_lab: Callable[[int], Any]) -> None:
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
        OPEN,
    ]
    for links in shapes:
        lab.cluster.cut(links)
        arrived = lab.cluster.probe(pairs)
        assert {pair for pair in pairs if not arrived[pair]} == links.cut, links.texts()


def test_tcp_between_nodes_needs_both_directions_and_clients_pass_through_every_partition(lab: Any) -> None:
    lab.serve("n1", "n2")
    assert lab.ask("n1", f"dial {lab.address['n2']} 20") == "through"
    for links in (between(["n1"], ["n2"]), between(["n2"], ["n1"])):
        lab.cluster.cut(links)
        assert lab.ask("n1", f"dial {lab.address['n2']} 0.5") == "TimeoutError", links.texts()
        assert lab.ask("n2", "echo still here") == "still here"
    lab.cluster.cut(groups(*([name] for name in lab.names)))
    assert lab.ask("n1", "echo alone") == "alone"
    lab.cluster.cut(OPEN)
    assert lab.ask("n1", f"dial {lab.address['n2']} 20") == "through"


def test_no_way_leads_out_of_the_machine(lab: Any) -> None:
    lab.serve("n1")
    # The router answers for everything that it does not know: nothing waits for a packet that went somewhere.
    assert lab.ask("n1", "dial 192.0.2.1 20") == "OSError"
    with lab.cluster.client_socket() as client, pytest.raises(OSError, match="unreachable"):
        client.connect(("192.0.2.1", 80))


def test_labs_do_not_see_each_other_though_their_addresses_are_equal(make_lab: Callable[[int], Any]) -> None:
    one, other = make_lab(2), make_lab(2)
    one.serve("n1")
    one.cluster.cut(groups(["n1"], ["n2"]))
    assert other.cluster.probe([("n1", "n2")]) == {("n1", "n2"): True}
    assert one.ask("n1", "echo one") == "one"
    assert other.ask("n1", "echo one") is None


def test_a_cut_of_an_unknown_node_is_refused_and_changes_nothing(lab: Any) -> None:
    lab.cluster.cut(between(["n1"], ["n2"]))
    with pytest.raises(Problem, match="no node n9") as caught:
        lab.cluster.cut(between(["n9"], ["n2"]))
    assert caught.value.slug == "unknown-node"
    assert lab.cluster.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): False, ("n2", "n1"): True}
