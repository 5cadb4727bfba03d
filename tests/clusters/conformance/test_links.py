"""Links of every backend, asked of real packets."""

from __future__ import annotations

import base64
import signal
import socket
import time
from collections.abc import Callable
from itertools import permutations

import pytest

from clusters.cluster import Clock
from clusters.collect.rpcs.packets import SYN, PacketFile, Segment
from clusters.links import OPEN, Links, between, groups
from nemesis.faults.shapes import SHAPES, isolation, shape
from tests.clusters.conformance.lab import Lab
from workloads.problem import Problem


@pytest.mark.shows("isolate", *sorted(SHAPES))
def test_every_shape_is_made_exactly_from_whatever_was_before(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(5)
    n1, n2, *_ = lab.names
    pairs = list(permutations(lab.names, 2))

    def named(name: str) -> Links:
        observers = lab.names[4:] if name == "split-leader-and-observers" else []
        return shape(name, n1, [node for node in lab.names if node not in observers], observers, 0.6).links

    shapes = [
        between([n1], [n2]),
        *(isolation([n2], lab.names, [], direction).links for direction in ("both", "in", "out")),
        *map(named, sorted(SHAPES)),
        groups(*([name] for name in lab.names)),
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


def test_what_two_nodes_say_is_captured_at_both_ends_and_nothing_else(lab: Lab) -> None:
    """With the kernel's times, in the order of the wire, cut or not; what clients and the controller say is not kept."""
    addresses = [spec.address for spec in lab.specs.values()]
    lab.serve("n1", "n2")
    began_ns = time.monotonic_ns()
    for name in ("n1", "n2"):
        lab.cluster.accompany(name, "capture", {"port": lab.specs[name].port, "addresses": addresses})
    assert lab.dial("n1", "n2", 5.0) == "through"
    lab.cluster.cut(groups(["n1"], ["n2"]))
    assert lab.dial("n1", "n2", 0.3) != "through"
    lab.cluster.cut(OPEN)
    ends = {name: socket.inet_aton(lab.specs[name].address) for name in ("n1", "n2")}
    seen = {name: captured(lab, name) for name in ends}
    for name, segments in seen.items():
        assert {segment.source for segment in segments} <= set(ends.values()), "clients are not kept"
        said = [(s.source, s.payload) for s in segments if s.payload]
        assert said == [(ends["n1"], b"echo through\n"), (ends["n2"], b"through\n")], name
        clock = lab.cluster.clocks().get(name, Clock(0, 0, 0))
        moments = [segment.ts_ns - clock.ahead_ns for segment in segments]
        assert began_ns - clock.error_ns <= min(moments) <= max(moments) <= time.monotonic_ns() + clock.error_ns, name
    opened = {name: sum(s.flags & SYN > 0 and s.source == ends["n1"] for s in seen[name]) for name in ends}
    assert opened["n1"] >= 2, "also what was sent into the cut"
    answers = sum(s.flags & SYN > 0 and s.source == ends["n2"] for s in seen["n1"])
    assert answers == 1, "which nobody answered"


def captured(lab: Lab, name: str) -> list[Segment]:
    """The whole capture of a node, which is over then."""
    file, found = PacketFile(), []
    while True:
        taken = lab.cluster.companion(name, "capture", "take", last=True)
        found += list(file.feed(base64.b64decode(taken["data"])))
        if not taken["left"]:
            assert taken["lost"] == 0
            lab.cluster.dismiss(name, "capture")
            return found
