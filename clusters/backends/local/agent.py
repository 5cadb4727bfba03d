"""The lab agent: ``python -m clusters.backends.local.agent SOCKET PARENT``, started by :mod:`.channel` and by nobody else.

It waits for the plan, leaves the host's namespaces and forks: the child is process 1 of the lab and serves requests, the parent
stays behind only to tie the child's life to the controller's. When the controller dies, even by kill -9, the kernel kills the
parent, hence the child, hence everything in the lab's process namespace. The child also ends when its socket does.

A message is one packet of JSON. A request ``{"id", "op", …}`` is answered by ``{"id", "value"}`` or ``{"id", "problem"}``, not
always in order: what takes time does not hold up the rest. File descriptors travel with the packet that announces them.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from clusters.backends.companions.company import Company
from clusters.backends.local.namespaces import die_with_parent, forget_name_servers, leave_host, mount_proc
from workloads.problem import Problem

if TYPE_CHECKING:
    from clusters.backends.local.network import Network
    from clusters.backends.local.processes import Processes
    from clusters.backends.pressure import Pressure
    from clusters.backends.probes import Probes

MESSAGE_BYTES = 1 << 20
_TICK_S = 0.01
_STOP_PATIENCE_S = 5.0
_KILL_PATIENCE_S = 5.0


def main() -> None:
    """Become the lab. Never returns."""
    sock, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    _tie_to(parent)
    packet = sock.recv(MESSAGE_BYTES)
    if not packet:
        os._exit(0)
    plan = json.loads(packet)
    try:
        leave_host()
    except Problem as problem:
        _reply(sock, plan["id"], problem=problem)
        os._exit(0)
    _tie_to(parent)
    alive, hold = os.pipe()
    child = os.fork()
    if child:
        sock.close()
        os.close(alive)
        os.waitpid(child, 0)
        os._exit(0)
    os.close(hold)
    die_with_parent()
    os.set_blocking(alive, False)
    with contextlib.suppress(BlockingIOError):
        os.read(alive, 1)
        os._exit(1)  # end of file: the parent died before its death could be watched
    _serve(sock, plan)
    os._exit(0)


def _tie_to(parent: int) -> None:
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def _serve(sock: socket.socket, plan: Mapping[str, Any]) -> None:
    host_pid = int(os.readlink("/proc/self"))
    own_proc = mount_proc()
    forget_name_servers()
    # Imported here because a user namespace can be entered only by a process without threads, which imports may start.
    from clusters.backends.local.network import Network
    from clusters.backends.local.processes import Processes
    from clusters.backends.pressure import Pressure
    from clusters.backends.probes import Probes

    network = Network(plan["addresses"])
    try:
        network.build()
    except Problem as problem:
        _reply(sock, plan["id"], problem=problem)
        return
    processes = Processes(network, own_proc=own_proc)
    agent = Agent(sock, network, Probes(network), processes, Pressure(processes))
    _reply(sock, plan["id"], {"host_pid": host_pid, "own_proc": own_proc})
    agent.run()


class Agent:
    """Serves the controller's requests on one thread."""

    def __init__(
        self, sock: socket.socket, network: Network, probes: Probes, processes: Processes, pressure: Pressure
    ) -> None:
        self._sock = sock
        self._network = network
        self._probes = probes
        self._processes = processes
        self._pressure = pressure
        self._company = Company(network.enter)
        processes.aside = self._company.processes
        self._answered: collections.deque[tuple[int, Future[Any]]] = collections.deque()
        self._waiting: list[tuple[int, Callable[[], Any], float]] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until the controller's end of the socket is closed."""
        wake, wakes = socket.socketpair()
        for end in (wake, wakes):
            end.setblocking(False)
        self._wakes = wakes
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._sock, selectors.EVENT_READ, self._request)
        self._selector.register(wake, selectors.EVENT_READ, lambda: _drain(wake))
        for probe_socket, node in self._probes.build().items():
            self._selector.register(probe_socket, selectors.EVENT_READ, lambda node=node: self._probes.receive(node))
        while True:
            for key, _ in self._selector.select(self._tick()):
                if key.data() is False:
                    return

    def _tick(self) -> float | None:
        """Do what is due; returns the seconds until something may be due again."""
        self._processes.reap()
        dying = self._processes.tick()
        for item in list(self._waiting):
            request, condition, deadline = item
            met = condition()
            if met or time.monotonic() >= deadline:
                self._waiting.remove(item)
                _reply(self._sock, request, bool(met))
        while self._answered:
            _reply_later(self._sock, *self._answered.popleft())
        due = self._probes.tick()
        if dying or self._waiting:
            return _TICK_S if due is None else min(due, _TICK_S)
        return due

    def _request(self) -> bool:
        packet = self._sock.recv(MESSAGE_BYTES)
        if not packet:
            return False
        request = json.loads(packet)
        try:
            getattr(self, "_do_" + request.pop("op"))(request.pop("id"), **request)
        except Problem as problem:
            _reply(self._sock, json.loads(packet)["id"], problem=problem)
        return True

    def _do_start(self, request: int, node: str, **launch: Any) -> None:
        _reply(self._sock, request, self._processes.start(node, **launch))

    def _do_alive(self, request: int, node: str) -> None:
        self._processes.reap()
        _reply(self._sock, request, self._processes.alive(node))

    def _do_status(self, request: int, node: str) -> None:
        self._processes.reap()
        _reply(self._sock, request, self._processes.status(node))

    def _do_signal(self, request: int, node: str, number: int) -> None:
        if number == signal.SIGKILL:
            self._processes.doom(node)
            self._await(request, lambda: self._processes.empty(node), _KILL_PATIENCE_S)
            return
        self._processes.send(node, number)
        if number == signal.SIGSTOP:
            self._await(request, lambda: self._processes.stopped(node), _STOP_PATIENCE_S)
            return
        _reply(self._sock, request, True)

    def _do_wait(self, request: int, node: str, timeout_s: float) -> None:
        self._await(request, lambda: self._processes.empty(node), timeout_s)

    def _do_cpu(self, request: int, node: str) -> None:
        _reply(self._sock, request, self._processes.cpu(node))

    def _do_press_cpu(self, request: int, node: str, burners: int, limit_s: float) -> None:
        _reply(self._sock, request, self._pressure.press_cpu(node, burners, limit_s))

    def _do_release_cpu(self, request: int, node: str) -> None:
        self._pressure.release_cpu(node)
        _reply(self._sock, request, True)

    def _do_limit_memory(self, request: int, node: str, headroom_bytes: int) -> None:
        _reply(self._sock, request, self._pressure.limit_memory(node, headroom_bytes))

    def _do_free_memory(self, request: int, node: str) -> None:
        self._pressure.free_memory(node)
        _reply(self._sock, request, True)

    def _do_cut(self, request: int, pairs: list[tuple[str, str]]) -> None:
        self._network.make_cut(frozenset((source, destination) for source, destination in pairs))
        _reply(self._sock, request, True)

    def _do_probe(self, request: int, pairs: list[tuple[str, str]]) -> None:
        known = [(source, destination) for source, destination in pairs]
        self._probes.ask(known, lambda arrived: _reply(self._sock, request, arrived))

    def _do_accompany(self, request: int, node: str, program: str, settings: dict[str, Any]) -> None:
        self._when_answered(request, self._company.accompany(node, program, settings))

    def _do_companion(self, request: int, node: str, program: str, asked: str, fields: dict[str, Any]) -> None:
        self._when_answered(request, self._company.ask(node, program, asked, fields))

    def _do_dismiss(self, request: int, node: str, program: str) -> None:
        self._when_answered(request, self._company.dismiss(node, program))

    def _when_answered(self, request: int, answer: Future[Any]) -> None:
        """Answer when a companion has: its thread only wakes this one."""

        def answered(answer: Future[Any]) -> None:
            self._answered.append((request, answer))
            with contextlib.suppress(BlockingIOError):  # it is awake
                self._wakes.send(b".")

        answer.add_done_callback(answered)

    def _do_sockets(self, request: int, count: int) -> None:
        with contextlib.ExitStack() as stack:
            made = [
                stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                for _ in range(count)
            ]
            _reply(self._sock, request, count, descriptors=[each.fileno() for each in made])

    def _await(self, request: int, condition: Callable[[], bool], patience_s: float) -> None:
        self._waiting.append((request, condition, time.monotonic() + patience_s))


def _reply(
    sock: socket.socket,
    request: int,
    value: Any = None,
    *,
    problem: Problem | None = None,
    descriptors: list[int] | None = None,
) -> None:
    message: dict[str, Any] = {"id": request, "value": value}
    if problem is not None:
        message = {"id": request, "problem": [problem.slug, problem.what, problem.remedy, problem.usage]}
    socket.send_fds(sock, [json.dumps(message).encode()], descriptors or [])


def _reply_later(sock: socket.socket, request: int, answer: Future[Any]) -> None:
    problem = answer.exception()
    if isinstance(problem, Problem):
        _reply(sock, request, problem=problem)
    else:
        _reply(sock, request, answer.result())


def _drain(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while sock.recv(4096):
            pass


if __name__ == "__main__":
    main()
