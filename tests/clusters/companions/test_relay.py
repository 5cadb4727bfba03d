"""The relay on real connections in a network namespace of the test's own: what passes, what rules do, and that nothing goes around it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from clusters.backends.companions.company import Companion
from clusters.backends.local.namespaces import CLONE_NEWNET, enter_network, network_descriptor, unshare
from tests.clusters.conformance.lab import within

pytestmark = pytest.mark.namespaces

NODE, PEER, PORT = "10.99.0.1", "10.99.0.2", 9093
PATIENCE_S = 10.0
API_VERSIONS, FETCH = 18, 1


class Lab:
    """A namespace with the addresses of two nodes; what :meth:`inside` runs is in it."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.descriptor: int = self.pool.submit(self._make).result()
        self.companion = Companion("n1", "relay", lambda: enter_network(self.descriptor))
        self.listener: socket.socket | None = None

    def inside(self, do: Callable[[], Any]) -> Any:
        return self.pool.submit(do).result()

    def begin(self) -> None:
        assert self.ask("begin", node="n1", peers={"n2": [PEER, PORT]})["port"]

    def ask(self, op: str, **fields: Any) -> Any:
        return self.companion.ask(op, fields).result(PATIENCE_S)

    def rule(self, **values: Any) -> None:
        self.ask("add", rules=[{"id": "r", "part": "response", **values}])

    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("events")["events"]
        return found

    def listen(self) -> socket.socket:
        self.listener = self.inside(lambda: socket.create_server((PEER, PORT)))
        self.listener.settimeout(PATIENCE_S)
        return self.listener

    def dial(self) -> socket.socket:
        made: socket.socket = self.inside(lambda: socket.create_connection((PEER, PORT), PATIENCE_S, (NODE, 0)))
        return made

    def close(self) -> None:
        self.companion.dismiss().result(PATIENCE_S)
        if self.listener is not None:
            self.listener.close()
        os.close(self.descriptor)
        self.pool.shutdown()

    def _make(self) -> int:
        unshare(CLONE_NEWNET)
        with IPRoute() as routes:
            loopback = routes.link_lookup(ifname="lo")[0]
            routes.link("set", index=loopback, state="up")
            for address in (NODE, PEER):
                routes.addr("add", index=loopback, address=address, prefixlen=32)
        return network_descriptor()


@pytest.fixture
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("a test's own namespace needs root")
    made = Lab()
    yield made
    made.close()


def request(correlation: int, body: bytes = b"", api: int = API_VERSIONS) -> bytes:
    return framed(struct.pack(">hhih", api, 3, correlation, -1) + body)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def receive(sock: socket.socket, count: int) -> bytes:
    sock.settimeout(PATIENCE_S)
    data = b""
    while len(data) < count and (part := sock.recv(count - len(data))):
        data += part
    return data


def frame_of(sock: socket.socket) -> bytes:
    head = receive(sock, 4)
    return head + receive(sock, int.from_bytes(head, "big"))


def silent(sock: socket.socket, for_s: float) -> bool:
    sock.settimeout(for_s)
    try:
        sock.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    return False


def was_reset(sock: socket.socket) -> bool:
    sock.settimeout(PATIENCE_S)
    try:
        return sock.recv(1) == b"" and False
    except ConnectionResetError:
        return True


def connected(lab: Lab) -> tuple[socket.socket, socket.socket]:
    """The two ends of a relayed connection."""
    near = lab.dial()
    assert lab.listener is not None
    far, source = lab.listener.accept()
    assert source[0] == NODE, "the peer sees the node's own address"
    assert source[1] != near.getsockname()[1], "it is another connection"
    return near, far


def test_frames_pass_in_order_whole_and_both_ways(lab: Lab) -> None:
    lab.listen()
    lab.begin()
    near, far = connected(lab)
    with near, far:
        large = request(2, os.urandom(1 << 20))
        oversized = framed(os.urandom(17 << 20))
        sent = [request(1), large, oversized, request(3)]
        threading.Thread(target=near.sendall, args=(b"".join(sent),), daemon=True).start()
        assert [frame_of(far) for _ in sent] == sent
        answers = [framed(struct.pack(">i", number) + b"answer") for number in (1, 2, 3)]
        far.sendall(b"".join(answers))
        assert [frame_of(near) for _ in answers] == answers
        near.shutdown(socket.SHUT_WR)
        assert far.recv(1) == b""
        far.sendall(answers[0])
        assert frame_of(near) == answers[0], "half closed is not closed"
        far.close()
        assert near.recv(1) == b""
    counts = lab.ask("counts")
    assert (counts["connections"], counts["unread"], counts["around"], counts["failed"]) == (1, 1, 0, 0)


def test_a_reset_and_a_refusal_go_through(lab: Lab) -> None:
    lab.listen()
    lab.begin()
    near, far = connected(lab)
    near.sendall(request(1))
    assert frame_of(far) == request(1)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    assert was_reset(near)
    near.close()
    assert lab.listener is not None
    lab.listener.close()
    began = time.monotonic()
    with lab.dial() as refused:
        assert was_reset(refused)
    assert time.monotonic() - began < 1.0
    assert lab.ask("counts")["failed"] == 1


def test_nothing_goes_around(lab: Lab) -> None:
    lab.listen()
    before = lab.dial()
    assert lab.listener is not None
    direct, _ = lab.listener.accept()
    lab.begin()
    before.sendall(request(1))
    assert was_reset(before), "what was connected before the relay is cut"
    assert silent(direct, 0.1)
    assert lab.ask("counts")["around"] >= 1
    os.kill(lab.companion.pid, signal.SIGSTOP)
    try:
        with lab.dial() as held:
            held.sendall(request(2))
            lab.listener.settimeout(0.3)
            with pytest.raises(TimeoutError):
                lab.listener.accept()
    finally:
        os.kill(lab.companion.pid, signal.SIGCONT)
    before.close()
    direct.close()


def test_the_door_is_gone_with_the_relay(lab: Lab) -> None:
    lab.listen()
    lab.begin()
    near, far = connected(lab)
    os.kill(lab.companion.pid, signal.SIGKILL)
    lab.companion.ended.result(PATIENCE_S)
    assert was_reset(near) or near.recv(1) == b""
    assert lab.listener is not None
    with lab.dial() as again:
        direct, source = lab.listener.accept()
        assert source == again.getsockname()
        direct.close()
    near.close()
    far.close()


def test_what_rules_do_to_answers(lab: Lab) -> None:
    lab.listen()
    lab.begin()
    near, far = connected(lab)
    answer = framed(struct.pack(">i", 1) + b"answer")

    def ask() -> None:
        near.sendall(request(1))
        frame_of(far)
        far.sendall(answer)

    lab.rule(id="drop", action="drop", api="ApiVersions", limit=1)
    ask()
    assert silent(near, 0.1)
    ask()
    assert frame_of(near) == answer

    lab.rule(id="delay", action="delay", delay_ms=200)
    began = time.monotonic()
    ask()
    assert frame_of(near) == answer
    assert 0.2 <= time.monotonic() - began < 2.0
    lab.ask("remove", ids=["delay"])

    lab.rule(id="hold", action="hold")
    ask()
    assert silent(near, 0.1)
    assert lab.ask("counts")["rules"]["hold"] == {"matched": 1, "applied": 1, "holding": 1}
    assert lab.ask("release", id="hold") == 1
    assert frame_of(near) == answer
    ask()
    assert within(PATIENCE_S, lambda: lab.ask("counts")["rules"]["hold"]["holding"] == 1)
    lab.ask("remove", ids=["hold"])
    assert frame_of(near) == answer, "what a rule holds passes when the rule is gone"

    lab.rule(id="close", action="close")
    ask()
    assert was_reset(near)
    assert was_reset(far)
    near.close()
    far.close()
    seen = [(each["rule"], each["action"]) for each in lab.events()]
    assert seen == [
        ("drop", "drop"),
        ("delay", "delay"),
        ("hold", "hold"),
        ("hold", "release"),
        ("hold", "hold"),
        ("hold", "release"),
        ("close", "close"),
    ]


def test_a_duplicate_request_is_handled_twice_and_answered_once(lab: Lab) -> None:
    lab.listen()
    lab.begin()
    near, far = connected(lab)
    lab.rule(part="request", action="duplicate", nth=2)
    for number in (1, 2, 3):
        near.sendall(request(number))
    arrived = [frame_of(far) for _ in range(4)]
    assert arrived == [request(1), request(2), request(2), request(3)]
    for number, frame in enumerate(arrived):
        far.sendall(framed(frame[8:12] + bytes([number])))
    assert [frame_of(near)[-1] for _ in range(3)] == [0, 1, 3]
    assert silent(near, 0.05)
    near.close()
    far.close()


def test_a_source_that_sends_and_nobody_reads_is_held_back(lab: Lab) -> None:
    lab.listen()
    lab.begin()
    near, far = connected(lab)
    near.settimeout(1.0)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            sent += near.send(request(1, bytes(1 << 16)))
    assert sent < 64 << 20
    resident_pages = int(Path(f"/proc/{lab.companion.pid}/statm").read_text().split()[1])
    assert resident_pages * os.sysconf("SC_PAGE_SIZE") < 100 << 20
    near.close()
    far.close()


def test_what_makes_no_sense_is_refused_and_the_relay_goes_on(lab: Lab) -> None:
    from workloads.problem import Problem

    lab.begin()
    for op, fields in (
        ("add", {"rules": [{"id": "x", "part": "response", "action": "eat"}]}),
        ("fly", {}),
        ("release", {}),
    ):
        with pytest.raises(Problem, match="relay of n1"):
            lab.ask(op, **fields)
    assert lab.ask("counts")["rules"] == {}
