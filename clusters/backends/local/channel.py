"""The controller's end of the connection to the lab agent: requests from any thread, answers in any order, descriptors with them."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from clusters.backends.local.agent import MESSAGE_BYTES
from workloads.problem import Problem

_ROOT = Path(__file__).resolve().parents[3]
_SEND_PATIENCE_S = 10
_END_PATIENCE_S = 10.0
_POOL_LOW, _POOL_FULL = 8, 24
_SAID_BYTES = 2000
_DIED_REMEDY = "Start the run again; what was recorded can be checked."


class Channel:
    """A running agent. One thread starts it, reads its answers and outlives it.

    That it is one thread is not for speed: the kernel kills the agent when the *thread* that forked it ends, and callers come from
    threads that end at any time.
    """

    def __init__(self, marks: Mapping[str, str]) -> None:
        self._marks = dict(marks)
        self._lock = threading.Lock()
        self._answers: dict[int, Future[Any]] = {}
        self._next = 0
        self._pool: collections.deque[socket.socket] = collections.deque()
        self._refilling = False
        self._ended = threading.Event()
        self._spawned: Future[int] = Future()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the agent has ended
        self._said = ""
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._ours, self._theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_PATIENCE_S, 0))
        self._thread = threading.Thread(target=self._live, name="lab", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> int:
        """Start the agent, which does nothing before the first request; returns its process id on the host."""
        self._thread.start()
        return self._spawned.result()

    def call(self, op: str, timeout_s: float = 30.0, /, **fields: Any) -> Any:
        """Ask and wait. Raises the agent's Problem, ``lab-died`` or ``lab-stuck``."""
        answer = self._ask(op, fields)
        try:
            return answer.result(timeout_s)
        except FutureTimeout:
            raise Problem(
                "lab-stuck",
                f"The lab agent did not answer `{op}` within {timeout_s:.0f} s.",
                "Repeat the run on a less busy machine; `nemesis clean` ends what is left.",
            ) from None

    def take_socket(self) -> socket.socket:
        """A TCP socket of the router's namespace. From a pool that is refilled behind the caller's back, hence at once."""
        for _ in range(3):
            try:
                taken = self._pool.popleft()
            except IndexError:
                self.call("sockets", count=_POOL_FULL)
                continue
            if len(self._pool) < _POOL_LOW and not self._refilling:
                self._refilling = True
                self._ask("sockets", {"count": _POOL_FULL - len(self._pool)}).add_done_callback(self._refilled)
            return taken
        raise Problem("lab-stuck", "Client sockets are taken faster than the lab agent makes them.", "Lower --rate.")

    def close(self) -> bool:
        """End the agent and with it everything in the lab; False when it did not end in time. May be called twice."""
        with self._lock:
            if not self._ended.is_set():
                _shut(self._ours)
        if self._thread.ident is None:
            for each in (self._theirs, self._ours, self._errors):
                each.close()
            return True
        if not self._ended.wait(_END_PATIENCE_S) and self._process is not None:
            self._process.kill()
        ended = self._ended.wait(_END_PATIENCE_S)
        while self._pool:
            self._pool.popleft().close()
        return ended

    def _refilled(self, _: Future[Any]) -> None:
        self._refilling = False

    def _ask(self, op: str, fields: Mapping[str, Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            if self._ended.is_set():
                raise self._died()
            self._next += 1
            number = self._next
            self._answers[number] = answer
            try:
                self._ours.send(json.dumps({"id": number, "op": op, **fields}).encode())
            except OSError as error:
                del self._answers[number]
                raise Problem("lab-died", f"The lab agent cannot be asked to `{op}`: {error}.", _DIED_REMEDY) from error
        return answer

    def _live(self) -> None:
        try:
            self._start_process()
        except OSError as error:
            self._spawned.set_exception(
                Problem("lab-not-started", f"The lab agent cannot be started with {sys.executable}: {error}.")
            )
            self._ours.close()
            self._errors.close()
            self._ended.set()
            return
        assert self._process is not None
        self._spawned.set_result(self._process.pid)
        while self._receive():
            pass
        # Everything in the lab is gone when this returns: process 1 of a process namespace ends last, its parent after it.
        self._process.wait()
        with self._lock:
            self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _SAID_BYTES))
            self._said = self._errors.read().decode(errors="replace").strip()
            self._errors.close()
            self._ours.close()
            self._ended.set()
            answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.set_exception(self._died())

    def _start_process(self) -> None:
        environment = {**os.environ, **self._marks}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), environment.get("PYTHONPATH")]))
        with self._theirs:
            descriptor = self._theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "clusters.backends.local.agent", str(descriptor), str(os.getpid())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(descriptor,),
                start_new_session=True,
            )

    def _receive(self) -> bool:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._ours, MESSAGE_BYTES, _POOL_FULL, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        if not packet:
            return False
        self._pool.extend(socket.socket(fileno=descriptor) for descriptor in descriptors)
        message = json.loads(packet)
        with self._lock:
            answer = self._answers.pop(message["id"], None)
        if answer is not None:
            if "problem" in message:
                slug, what, remedy, usage = message["problem"]
                answer.set_exception(Problem(slug, what, remedy, usage=usage))
            else:
                answer.set_result(message["value"])
        return True

    def _died(self) -> Problem:
        what = "The lab agent has ended, and every node with it."
        return Problem("lab-died", f"{what} It said: {self._said}" if self._said else what, _DIED_REMEDY)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
