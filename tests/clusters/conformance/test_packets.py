"""Delay, loss, repetition, other order, a narrow pipe and resets on one directed link, as the nodes themselves feel it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from clusters.links import OPEN, between
from tests.clusters.conformance.lab import PATIENCE_S, Lab, within
from workloads.problem import Problem

COUNT = 200
LATE_MS = 100
"""no round trip on this machine takes as long; the fastest of several counts"""

PEER = r"""
import json, socket, sys, threading, time
address, port = sys.argv[1], int(sys.argv[2])
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((address, port + 1))
sink = socket.create_server((address, port + 2))
came, held, accepted, ends = [], [], [], []

def receive():
    while True:
        data, sender = datagrams.recvfrom(2000)
        if data.startswith(b"?"):
            datagrams.sendto(b"!" + data[1:], sender)
        else:
            came.append(int(data))

def drain(peer):
    try:
        while data := peer.recv(65536):
            if data.endswith(b"."):
                peer.sendall(b"all")
        ends.append("closed")
    except OSError as error:
        ends.append(type(error).__name__)

def accept():
    while True:
        peer, _ = sink.accept()
        threading.Thread(target=drain, args=(peer,), daemon=True).start()

def trips(host, count):
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1.0)
        for number in range(int(count)):
            began = time.monotonic()
            sock.sendto(b"?%d" % number, (host, port + 1))
            try:
                while sock.recv(100) != b"!%d" % number:
                    pass
            except OSError:
                continue
            found.append((time.monotonic() - began) * 1000)
    return sorted(found)

def send(host, count, gap_ms):
    for number in range(int(count)):
        datagrams.sendto(b"%d" % number, (host, port + 1))
        time.sleep(float(gap_ms) / 1000)

def got():
    taken, came[:] = list(came), []
    late = sum(later < earlier for earlier, later in zip(taken, taken[1:]))
    return {"all": len(taken), "distinct": len(set(taken)), "late": late}

def waiting():
    return len(came)

def transfer(host, size):
    with socket.create_connection((host, port + 2), 10) as far:
        began = time.monotonic()
        far.sendall(bytes(int(size)) + b".")
        assert far.recv(3) == b"all"
        return time.monotonic() - began

def knock(host, to):
    began = time.monotonic()
    with socket.create_connection((host, int(to)), 10) as far:
        far.sendall(b"got      \n")
        assert far.makefile().readline(), "it was refused"
    return (time.monotonic() - began) * 1000

def hold(host):
    held.append(socket.create_connection((host, port + 2), 10))

def use():
    try:
        held[-1].sendall(b".")
        return held[-1].recv(3).decode() or "closed"
    except OSError as error:
        return type(error).__name__

def ended():
    return ends

for work in (receive, accept):
    threading.Thread(target=work, daemon=True).start()
listener = socket.create_server((address, port))
while True:
    peer, _ = listener.accept()
    with peer, peer.makefile("rw") as lines:
        for line in lines:
            verb, *arguments = line.split()
            lines.write(json.dumps(globals()[verb](*arguments)) + "\n")
            lines.flush()
"""
"""one node's program: it calls one of its functions for a line, and answers with the value"""


class Peers:
    """Nodes that run :data:`PEER`, and a shaper beside the first of them; :attr:`unable` is why it does without netem."""

    def __init__(self, lab: Lab, by: str) -> None:
        self.lab = lab
        for name in lab.names:
            spec = lab.specs[name]
            lab.start(name, PEER, spec.address, str(spec.port))
        for name in lab.names:
            assert within(PATIENCE_S, lambda name=name: lab.ask(name, "waiting", 2.0) == "0"), lab.output(name)
        settings = {"address": lab.specs["n1"].address, "by": by}
        self.unable = lab.cluster.accompany("n1", "shaper", settings)

    def call(self, node: str, verb: str, *arguments: object) -> Any:
        answer = self.lab.ask(node, " ".join(map(str, [verb, *arguments])))
        assert answer is not None, f"{node} does not answer {verb}"
        return json.loads(answer)

    def address(self, node: str) -> str:
        return self.lab.specs[node].address

    def shape(self, *, key: str = "a", to: tuple[str, ...] = ("n2",), **shape: float | str) -> str:
        """What n1 sends to n2, or others; the answer is why it is not netem."""
        towards = [self.address(node) for node in to]
        asked = {"key": key, "towards": towards, "shape": shape, "seed": "seed"}
        return str(self.lab.cluster.companion("n1", "shaper", "shape", **asked))

    def clear(self, key: str = "a") -> dict[str, Any]:
        counts = self.lab.cluster.companion("n1", "shaper", "clear", key=key)
        return dict(counts[self.address("n2")])

    def seen(self) -> int:
        """How many packets the shaper has met."""
        counts = self.lab.cluster.companion("n1", "shaper", "counts", key="a")
        return int(counts[self.address("n2")]["seen"])

    def sent(self) -> tuple[dict[str, Any], dict[str, int]]:
        """n1 sends datagrams to n2 under a shape, which then ends: its counts, and what has arrived."""
        self.call("n1", "send", self.address("n2"), COUNT, 0.2)
        assert within(PATIENCE_S, lambda: self.seen() >= COUNT)
        counts = self.clear()
        return counts, self.arrived(counts["sent"])

    def arrived(self, count: int) -> dict[str, int]:
        """What n2 has got, as soon as so many are there."""
        assert within(PATIENCE_S, lambda: self.call("n2", "waiting") >= count)
        return dict(self.call("n2", "got"))


@pytest.fixture
def peers(lab: Lab) -> Iterator[Peers]:
    made = Peers(lab, "userspace")
    yield made
    lab.cluster.dismiss("n1", "shaper")


@pytest.fixture
def by_netem(lab: Lab) -> Iterator[Peers]:
    made = Peers(lab, "")
    if made.unable:
        lab.cluster.dismiss("n1", "shaper")
        pytest.skip(made.unable)
    yield made
    lab.cluster.dismiss("n1", "shaper")


@pytest.mark.shows("delay", "loss", "duplicate", "reorder", "bandwidth")
def test_one_directed_link_is_shaped_and_exact_again_afterwards(peers: Peers) -> None:
    n1, n2, n3 = (peers.address(node) for node in peers.lab.names)
    assert peers.call("n1", "trips", n2, 5)[0] < LATE_MS

    peers.shape(delay_ms=LATE_MS)
    assert peers.call("n1", "trips", n2, 2)[0] >= LATE_MS
    assert peers.call("n1", "trips", n3, 5)[0] < LATE_MS
    peers.lab.cluster.cut(between(["n1"], ["n2"]))
    assert peers.call("n1", "trips", n2, 1) == []
    peers.lab.cluster.cut(OPEN)
    assert len(peers.call("n1", "trips", n2, 2)) == 2
    counts = peers.clear()
    assert counts["delayed"] == counts["seen"] == 5
    assert counts["echo_ms"][0] >= LATE_MS

    peers.shape(loss_percent=30, loss_run=3)
    counts, got = peers.sent()
    assert (counts["seen"], got["all"]) == (COUNT, COUNT - counts["lost"])
    assert 0 < counts["lost"] < COUNT

    peers.shape(duplicate_percent=30)
    counts, got = peers.sent()
    assert (got["distinct"], got["all"]) == (COUNT, COUNT + counts["duplicated"])
    assert counts["duplicated"] > 0

    peers.shape(reorder_percent=20, reorder_ms=20)
    counts, got = peers.sent()
    assert (got["distinct"], got["all"]) == (COUNT, COUNT)
    assert got["late"] > 0
    assert counts["reordered"] > 0

    peers.shape(rate_kbit=8_000)
    assert peers.call("n1", "transfer", n2, 400_000) > 0.38
    assert peers.clear()["delayed"] > 0

    assert peers.lab.cluster.companion("n1", "shaper", "counts", key="a") == {}
    assert peers.call("n1", "trips", n2, 5)[0] < LATE_MS
    assert peers.call("n2", "trips", n1, 5)[0] < LATE_MS
    peers.call("n1", "send", n2, COUNT, 0.2)
    assert peers.arrived(COUNT) == {"all": COUNT, "distinct": COUNT, "late": 0}


def test_what_is_under_way_when_a_fault_ends_leaves_at_once(peers: Peers) -> None:
    peers.shape(delay_ms=60_000)
    peers.call("n1", "send", peers.address("n2"), 20, 0)
    assert within(PATIENCE_S, lambda: peers.seen() == 20)
    assert peers.call("n2", "got")["all"] == 0
    peers.clear()
    assert peers.arrived(20) == {"all": 20, "distinct": 20, "late": 0}


@pytest.mark.shows("connection-reset")
def test_both_ends_of_an_established_connection_see_its_reset_and_a_new_one_holds(peers: Peers) -> None:
    peers.call("n1", "hold", peers.address("n2"))
    assert peers.call("n1", "use") == "all"
    peers.shape(reset_every_ms=600_000)
    assert peers.call("n1", "use") == "ConnectionResetError"
    assert within(PATIENCE_S, lambda: peers.call("n2", "ended") == ["ConnectionResetError"])
    peers.call("n1", "hold", peers.address("n2"))
    assert peers.call("n1", "use") == "all"
    assert peers.clear()["reset"] == 1
    assert peers.call("n1", "use") == "all"


def test_a_companion_outlives_its_node_and_is_no_part_of_it(peers: Peers) -> None:
    lab = peers.lab
    peers.shape(delay_ms=LATE_MS)
    lab.kill("n1")
    assert lab.cluster.cpu("n1") is None
    spec = lab.specs["n1"]
    lab.start("n1", PEER, spec.address, str(spec.port))
    assert within(PATIENCE_S, lambda: lab.ask("n1", "waiting", 2.0) == "0")
    assert peers.call("n1", "trips", peers.address("n2"), 3)[0] >= LATE_MS
    with pytest.raises(Problem) as caught:
        lab.cluster.accompany("n1", "shaper", {})
    assert caught.value.slug == "companion-runs"
    lab.cluster.dismiss("n1", "shaper")
    lab.cluster.dismiss("n1", "shaper")
    assert peers.call("n1", "trips", peers.address("n2"), 3)[0] < LATE_MS
    with pytest.raises(Problem) as caught:
        lab.cluster.companion("n1", "shaper", "counts", key="a")
    assert caught.value.slug == "companion-missing"


def test_what_a_relay_sends_is_shaped_too(peers: Peers) -> None:
    lab = peers.lab
    for name in ("n1", "n2"):
        others = [lab.specs[other] for other in lab.names if other != name]
        settings = {"node": name, "peers": {other.name: (other.address, other.port) for other in others}}
        lab.cluster.accompany(name, "relay", settings)
    try:
        n2 = lab.specs["n2"]
        assert peers.call("n1", "knock", n2.address, n2.port) < LATE_MS
        peers.shape(delay_ms=LATE_MS)
        assert peers.call("n1", "knock", n2.address, n2.port) >= LATE_MS
        assert peers.clear()["refused"] == 0
        assert peers.call("n1", "knock", n2.address, n2.port) < LATE_MS
    finally:
        for name in ("n1", "n2"):
            lab.cluster.dismiss(name, "relay")


def test_netem_shapes_one_directed_link_where_the_kernel_has_it(by_netem: Peers) -> None:
    peers = by_netem
    n1, n2, n3 = (peers.address(node) for node in peers.lab.names)

    for late in ({"delay_ms": 120}, {"delay_ms": LATE_MS, "jitter_ms": 10, "distribution": "pareto"}):
        assert peers.shape(**late) == ""
        assert peers.call("n1", "trips", n2, 5)[0] >= LATE_MS
        assert peers.call("n1", "trips", n3, 5)[0] < LATE_MS
        counts = peers.clear()
        assert (counts["by"], counts["delayed"], counts["seen"]) == ("netem", 5, 5)
        assert counts["echo_ms"][0] >= LATE_MS
        assert counts["waiting"] > 0

    assert peers.shape(delay_ms=30, jitter_ms=20, distribution="normal") == ""
    assert peers.sent()[1] == {"all": COUNT, "distinct": COUNT, "late": 0}

    for lossy in ({"loss_percent": 30}, {"loss_percent": 30, "loss_run": 3}):
        assert peers.shape(**lossy) == ""
        counts, got = peers.sent()
        assert (counts["seen"], got["all"]) == (COUNT, COUNT - counts["lost"])
        assert 0 < counts["lost"] < COUNT

    assert peers.shape(duplicate_percent=30, to=("n2", "n3")) == ""
    counts, got = peers.sent()
    assert (got["distinct"], got["all"]) == (COUNT, COUNT + counts["duplicated"])
    assert counts["duplicated"] > 0

    assert peers.shape(reorder_percent=20, reorder_ms=20) == ""
    counts, got = peers.sent()
    assert (got["distinct"], got["all"]) == (COUNT, COUNT)
    assert 0 < counts["reordered"] < COUNT
    assert got["late"] > 0

    assert peers.shape(rate_kbit=8_000) == ""
    assert peers.call("n1", "transfer", n2, 400_000) > 0.38
    assert peers.clear()["delayed"] > 0

    assert peers.call("n1", "trips", n2, 5)[0] < LATE_MS
    assert peers.call("n2", "trips", n1, 5)[0] < LATE_MS
    peers.call("n1", "send", n2, COUNT, 0.2)
    assert peers.arrived(COUNT) == {"all": COUNT, "distinct": COUNT, "late": 0}


def test_what_netem_cannot_do_or_does_already_is_done_in_userspace_at_the_same_time(by_netem: Peers) -> None:
    peers = by_netem
    n2 = peers.address("n2")
    assert peers.shape(delay_ms=LATE_MS) == ""
    assert "another fault" in peers.shape(key="b", delay_ms=LATE_MS)
    assert peers.call("n1", "trips", n2, 3)[0] >= 2 * LATE_MS
    assert peers.clear()["by"] == "netem"
    assert LATE_MS <= peers.call("n1", "trips", n2, 3)[0] < 2 * LATE_MS
    assert peers.clear("b")["by"] == "userspace"

    assert "overtake" in peers.shape(key="b", delay_ms=LATE_MS, reorder_percent=1, reorder_ms=1)
    assert peers.shape(delay_ms=LATE_MS) == ""
    assert peers.call("n1", "trips", n2, 3)[0] >= 2 * LATE_MS
    assert peers.clear("b")["by"] == "userspace"
    assert peers.call("n1", "trips", n2, 3)[0] >= LATE_MS
    assert peers.clear()["seen"] == 6
    assert "connection" in peers.shape(reset_every_ms=600_000)
    peers.clear()
    assert peers.call("n1", "trips", n2, 5)[0] < LATE_MS


def test_what_waits_in_netem_arrives_when_it_is_due_and_its_queues_go_with_their_maker(by_netem: Peers) -> None:
    peers, n2 = by_netem, by_netem.address("n2")
    peers.shape(delay_ms=500)
    peers.call("n1", "send", n2, 20, 0)
    assert within(PATIENCE_S, lambda: peers.seen() == 20)
    peers.clear()
    assert peers.call("n1", "trips", n2, 3)[0] < LATE_MS
    assert peers.arrived(20) == {"all": 20, "distinct": 20, "late": 0}

    peers.shape(delay_ms=LATE_MS)
    peers.lab.cluster.dismiss("n1", "shaper")
    assert peers.call("n1", "trips", n2, 5)[0] < LATE_MS
