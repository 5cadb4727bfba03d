"""The worker: process 1 of the machine's lab. Serves the controller's requests, one at a time, and waits on behalf of some.

A request ``{"id", "op", …}`` is answered by ``{"id", "value"}`` or ``{"id", "problem": [slug, text]}``, not always in order: what
takes time does not hold up the rest. Every request is a sign of life from the controller, which the guardian is told of.
"""

from __future__ import annotations

import collections
import contextlib
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from clusters.backends.companions.company import Company
from clusters.backends.pressure import Pressure
from clusters.backends.ssh.agent import facts
from clusters.backends.ssh.agent.cache import Cache, CacheError
from clusters.backends.ssh.agent.files import Files, FilesError
from clusters.backends.ssh.agent.frames import Decoder, FrameError, encode
from clusters.backends.ssh.agent.links import Links, LinksError
from clusters.backends.ssh.agent.probes import Probes
from clusters.backends.ssh.agent.processes import NodeRuns, Processes
from clusters.backends.ssh.agent.shelf import Shelf
from workloads.problem import Problem

BEAT, REMOVE = b".", b"r"
"""what the worker tells the guardian: the controller lives; the files of the run shall go at the end"""

_TICK_S = 0.01
_STOP_PATIENCE_S = 5.0
_KILL_PATIENCE_S = 5.0
_READ_BYTES = 1 << 16
_BEAT_S, _WORK_MAX_S = 0.5, 120.0


@dataclass(frozen=True)
class _Waiting:
    request: int
    condition: Callable[[], bool]
    deadline: float
    value: Callable[[], Any]


class Refused(Exception):
    """A request that cannot be met; (slug, text) go to the controller."""


class Worker:
    """Serves on descriptors 0 and 1; ``heart`` is the pipe to the guardian."""

    def __init__(
        self,
        *,
        heart: int,
        files: Files,
        cache: Cache,
        shelf: Shelf,
        links: Links,
        probes: Probes,
        processes: Processes,
    ) -> None:
        self._heart = heart
        self._shelf = shelf
        self._files = files
        self._cache = cache
        self._links = links
        self._probes = probes
        self._processes = processes
        self._pressure = Pressure(processes)
        self._company = Company(lambda _: None)
        self._answered: collections.deque[tuple[int, Future[Any]]] = collections.deque()
        processes.aside = lambda: self._pressure.burners() | self._company.processes()
        self._decoder = Decoder()
        self._waiting: list[_Waiting] = []
        self._selector = selectors.DefaultSelector()
        self._ending = False

    def run(self) -> None:
        """Serve until the controller ends the work or its end of the stream is closed."""
        wake, wakes = socket.socketpair()
        for end in (wake, wakes):
            end.setblocking(False)
        self._wakes = wakes
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(0, selectors.EVENT_READ, self._requests)
        self._selector.register(wake, selectors.EVENT_READ, lambda: _drain(wake))
        self._selector.register(self._probes.socket, selectors.EVENT_READ, self._probes.receive)
        while not self._ending:
            for key, _ in self._selector.select(self._tick()):
                if key.data() is False:
                    return

    def _tick(self) -> float | None:
        """Do what is due; returns the seconds until something may be due again."""
        self._processes.reap()
        dying = self._processes.tick()
        for each in list(self._waiting):
            if each.condition() or time.monotonic() >= each.deadline:
                self._waiting.remove(each)
                _reply({"id": each.request, "value": each.value()})
        while self._answered:
            _reply_later(*self._answered.popleft())
        return _TICK_S if dying or self._waiting else None

    def _requests(self) -> bool:
        data = os.read(0, _READ_BYTES)
        if not data:
            return False
        try:
            messages = self._decoder.feed(data)
        except FrameError:
            return False
        if messages:
            os.write(self._heart, BEAT)
        for message, blob in messages:
            self._serve(message, blob)
        return True

    def _serve(self, message: dict[str, Any], blob: bytes) -> None:
        request, op = message.pop("id"), message.pop("op")
        if blob:
            message["blob"] = blob
        try:
            value = getattr(self, "_do_" + op)(request, **message)
        except Refused as refusal:
            _reply({"id": request, "problem": list(refusal.args)})
        except (LinksError, FilesError, CacheError) as error:
            _reply({"id": request, "problem": [type(error).__name__, str(error)]})
        except Problem as problem:
            _reply({"id": request, "problem": [problem.slug, problem.what, problem.remedy]})
        except OSError as error:
            _reply({"id": request, "problem": ["OSError", f"{error.strerror}: {error.filename}"]})
        else:
            if value is not NotImplemented:
                data = b""
                if isinstance(value, tuple):
                    value, data = value
                _reply({"id": request, "value": value}, data)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """While it lasts, for a bounded time, the lease is not counted: what takes long here is no silence of the controller."""
        done = threading.Event()

        def beat() -> None:
            for _ in range(round(_WORK_MAX_S / _BEAT_S)):
                if done.wait(_BEAT_S):
                    return
                os.write(self._heart, BEAT)

        beating = threading.Thread(target=beat)
        beating.start()
        try:
            yield
        finally:
            done.set()
            beating.join()

    def _await(self, request: int, condition: Callable[[], bool], patience_s: float, value: Callable[[], Any]) -> Any:
        """Answer with ``value`` as soon as the condition holds or the time is over."""
        self._waiting.append(_Waiting(request, condition, time.monotonic() + patience_s, value))
        return NotImplemented

    def _do_ping(self, _: int) -> list[int]:
        return [time.monotonic_ns(), time.time_ns()]

    def _do_facts(self, _: int) -> dict[str, Any]:
        return facts.facts(self._files.root, self._links.kind)

    def _do_python(self, _: int, command: str) -> list[str] | None:
        with self._at_work():
            return facts.find_python(command)

    def _do_java(self, _: int, command: str) -> list[Any] | None:
        with self._at_work():
            return facts.find_java(command)

    def _do_start(self, _: int, argv: list[str], env: dict[str, str], cwd: str, output: str) -> bool:
        self._files.make_directory(cwd)
        descriptor = self._files.open_output(output)
        try:
            self._processes.reap()
            self._processes.start(argv, env, os.path.join(self._files.root, cwd), descriptor)
        except NodeRuns:
            raise Refused("node-runs", "") from None
        except OSError as error:
            raise Refused("node-not-started", f"{error.strerror}: {error.filename}") from error
        finally:
            os.close(descriptor)
        return True

    def _do_alive(self, _: int) -> bool:
        self._processes.reap()
        return self._processes.alive()

    def _do_status(self, _: int) -> int | None:
        self._processes.reap()
        return self._processes.status()

    def _do_signal(self, request: int, number: int) -> Any:
        if number == signal.SIGKILL:
            self._processes.doom()
            return self._await(request, self._processes.empty, _KILL_PATIENCE_S, self._processes.empty)
        self._processes.send(number)
        if number == signal.SIGSTOP:
            return self._await(request, self._processes.stopped, _STOP_PATIENCE_S, self._processes.stopped)
        return True

    def _do_wait(self, request: int, timeout_s: float) -> Any:
        return self._await(request, self._processes.empty, timeout_s, self._processes.empty)

    def _do_cpu(self, _: int) -> list[float] | None:
        use = self._processes.cpu()
        return None if use is None else list(use)

    def _do_press_cpu(self, _: int, burners: int, limit_s: float) -> int:
        return self._pressure.press_cpu("", burners, limit_s)

    def _do_release_cpu(self, _: int) -> bool:
        self._pressure.release_cpu("")
        return True

    def _do_limit_memory(self, _: int, headroom_bytes: int) -> int:
        return self._pressure.limit_memory("", headroom_bytes)

    def _do_free_memory(self, _: int) -> bool:
        self._pressure.free_memory("")
        return True

    def _do_accompany(self, request: int, node: str, program: str, settings: dict[str, Any]) -> Any:
        return self._when_answered(request, self._company.accompany(node, program, settings))

    def _do_companion(self, request: int, node: str, program: str, asked: str, fields: dict[str, Any]) -> Any:
        return self._when_answered(request, self._company.ask(node, program, asked, fields))

    def _do_dismiss(self, request: int, node: str, program: str) -> Any:
        return self._when_answered(request, self._company.dismiss(node, program))

    def _when_answered(self, request: int, answer: Future[Any]) -> Any:
        """Answer when a companion has: its thread only wakes this one."""

        def answered(answer: Future[Any]) -> None:
            self._answered.append((request, answer))
            with contextlib.suppress(BlockingIOError):  # it is awake
                self._wakes.send(b".")

        answer.add_done_callback(answered)
        return NotImplemented

    def _do_cut(self, _: int, sources: list[str]) -> bool:
        self._links.cut(sources)
        return True

    def _do_send(self, _: int, nonce: str, addresses: list[str]) -> bool:
        self._probes.send(bytes.fromhex(nonce), addresses)
        return True

    def _do_arrived(self, request: int, nonce: str, wanted: list[str], patience_s: float) -> Any:
        """Wait until datagrams from all ``wanted`` have come, or the time is over; the answer is from whom they have."""
        question, expected = bytes.fromhex(nonce), set(wanted)
        return self._await(
            request,
            lambda: expected <= self._probes.arrived(question),
            patience_s,
            lambda: sorted(self._probes.arrived(question)),
        )

    def _do_list(self, _: int, path: str) -> list[list[Any]]:
        return self._files.entries(path)

    def _do_read(self, _: int, path: str, offset: int) -> tuple[dict[str, Any], bytes]:
        return self._files.read(path, offset)

    def _do_write(self, _: int, path: str, offset: int, size: int, mode: int, blob: bytes = b"") -> bool:
        self._files.write(path, offset, blob, size, mode)
        return True

    def _do_make(self, _: int, path: str) -> bool:
        self._files.make_directory(path)
        return True

    def _do_rename(self, _: int, old: str, new: str) -> bool:
        self._files.rename(old, new)
        return True

    def _do_remove(self, _: int, path: str) -> bool:
        self._files.remove(path)
        return True

    def _do_script(self, _: int, path: str, blob: bytes) -> bool:
        """A program of ours, for the node to run."""
        self._files.remove(path)
        self._files.write(path, -1, b"", 0, 0o755)
        self._files.write(path, 0, blob, 0, 0o755)
        return True

    def _do_missing(self, _: int, names: list[str]) -> list[str]:
        self._shelf.open()
        with self._at_work():
            return self._cache.missing(names)

    def _do_bring(self, _: int, name: str, offset: int, blob: bytes = b"") -> bool:
        self._cache.write(name, offset, blob)
        return True

    def _do_commit(self, _: int, name: str, tree: bool) -> bool:
        with self._at_work():
            self._cache.commit(name, tree)
        return True

    def _do_link(self, _: int, links: dict[str, str]) -> bool:
        """Show cached content at paths of the run; from then on the cache cannot be written."""
        for path, name in links.items():
            self._files.link(path, self._cache.place(name))
        self._shelf.close()
        return True

    def _do_end(self, _: int, remove: bool) -> bool:
        """Kill the node and leave; the guardian removes the rules, and the files when they are not wanted any more."""
        self._company.close()
        if remove:
            os.write(self._heart, REMOVE)
        self._ending = True
        return True


def _reply(message: dict[str, Any], blob: bytes = b"") -> None:
    data = encode(message, blob)
    written = 0
    while written < len(data):
        written += os.write(1, data[written:])


def _reply_later(request: int, answer: Future[Any]) -> None:
    problem = answer.exception()
    if isinstance(problem, Problem):
        _reply({"id": request, "problem": [problem.slug, problem.what, problem.remedy]})
    else:
        _reply({"id": request, "value": answer.result()})


def _drain(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while sock.recv(4096):
            pass
