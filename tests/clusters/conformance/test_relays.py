"""Relays on every backend: nodes talk through them, cuts and restarts are as without them, and they end with the lab or before."""

from __future__ import annotations

from collections.abc import Callable

from clusters.links import between
from nemesis.faults.relays import RELAY, begin_relays
from tests.clusters.conformance.lab import Lab


def test_nodes_talk_through_relays_and_cannot_go_around_them(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(2)
    cluster = lab.cluster
    begin_relays(cluster)

    def counts(node: str) -> dict[str, int]:
        told: dict[str, int] = cluster.companion(node, RELAY, "counts")
        return told

    lab.serve("n1", "n2")
    assert lab.dial("n1", "n2", 5.0) == "through"
    assert (counts("n1")["connections"], counts("n2")["connections"]) == (1, 0), "the node that connects has it"
    cluster.cut(between(["n2"], ["n1"]))
    assert lab.dial("n1", "n2", 0.5) != "through", "what the relay sends is cut as the node's own"
    cluster.cut(between((), ()))
    lab.kill("n1")
    assert not cluster.alive("n1"), "a relay is no member of the node"
    lab.serve("n1")
    assert lab.dial("n1", "n2", 5.0) == "through"
    assert counts("n1")["connections"] >= 2, "it outlives the node's process"
    cluster.dismiss("n1", RELAY)
    assert lab.dial("n1", "n2", 5.0) == "through", "without it they talk directly"
