"""Starts companions and talks to them: one thread each, so that one that hangs holds up nobody and ends when its time is over."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from clusters.backends.local.namespaces import pass_on_capabilities
from workloads.problem import Problem

ANSWER_PATIENCE_S = 20.0
ANSWER_BYTES_MAX = 1 << 17
"""an answer is one message of each backend's connection"""

_END_PATIENCE_S = 3.0
_LOOK_S = 0.5
_SAID_BYTES = 2000
_READ_BYTES = 1 << 16
_SEARCH_PATH = str(Path(__file__).parents[3])
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from clusters.backends.companions.__main__ import main; main(sys.argv[2])"
"""as ``-m clusters.backends.companions``, from a directory or from the archive that this module was read from"""


class Companion:
    """A running companion. Its thread started it and outlives it, for the kernel kills it when the thread that forked it ends."""

    def __init__(self, node: str, program: str, enter: Callable[[], None]) -> None:
        self.told = f"The companion {program} of {node}"
        self._program = program
        self._enter = enter
        self._lock = threading.Lock()
        self._pending: collections.deque[tuple[Future[Any], float]] = collections.deque()
        self._spawned: Future[subprocess.Popen[bytes]] = Future()
        self._ended: Future[Any] = Future()
        self._why = ""
        self._said = b""
        self._begun = bytearray()
        self._kill_at: float | None = None
        threading.Thread(target=self._live, name=self.told, daemon=True).start()
        self._process = self._spawned.result()

    @property
    def pid(self) -> int:
        """Its number in this process's namespace."""
        return self._process.pid

    @property
    def ended(self) -> Future[Any]:
        """Done when it has ended."""
        return self._ended

    def ask(self, op: str, fields: Mapping[str, Any], patience_s: float = ANSWER_PATIENCE_S) -> Future[Any]:
        """Ask; the answer comes later. Its Problem is the companion's, ``companion-ended`` or ``companion-silent``.

        A companion that does not answer in time is killed: nobody knows what it would do with the next request.
        """
        answer: Future[Any] = Future()
        line = json.dumps({"op": op, **fields}).encode() + b"\n"
        with self._lock:
            if self._ended.done() or self._kill_at is not None:
                answer.set_exception(self._over())
                return answer
            self._pending.append((answer, time.monotonic() + patience_s))
            assert self._process.stdin is not None
            try:
                written = os.write(self._process.stdin.fileno(), line)
            except OSError:  # it ends, or it has not read for very long
                written = 0
            if written < len(line):
                self._why = self._why or "it takes no more requests"
                self._process.kill()
        return answer

    def dismiss(self) -> Future[Any]:
        """Tell it to end, by the end of its input; it is killed when it does not. May be called twice."""
        with self._lock:
            if self._kill_at is None and not self._ended.done():
                self._kill_at = time.monotonic() + _END_PATIENCE_S
                assert self._process.stdin is not None
                self._process.stdin.close()
        return self._ended

    def _live(self) -> None:
        try:
            self._enter()
            pass_on_capabilities()
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _PROGRAM, _SEARCH_PATH, self._program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._spawned.set_exception(Problem("companion-not-started", f"{self.told} cannot be started: {error}."))
            return
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._spawned.set_result(process)
        while self._receive(process):
            self._hasten(process)
        process.wait()
        with self._lock:
            for stream in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
            pending, self._pending = list(self._pending), collections.deque()
            self._ended.set_result(True)
        for answer, _ in pending:
            answer.set_exception(self._over())

    def _receive(self, process: subprocess.Popen[bytes]) -> bool:
        """Take what it says, for a moment; False when it has closed its output."""
        assert process.stdout is not None
        assert process.stderr is not None
        poller = select.poll()
        for stream in (process.stdout, process.stderr):
            poller.register(stream, select.POLLIN)
        ready = {descriptor for descriptor, _ in poller.poll(_LOOK_S * 1000)}
        if process.stderr.fileno() in ready:
            self._said = (self._said + os.read(process.stderr.fileno(), _READ_BYTES))[-_SAID_BYTES:]
        if process.stdout.fileno() in ready:
            data = os.read(process.stdout.fileno(), _READ_BYTES)
            if not data:
                self._said = (self._said + _rest(process.stderr.fileno()))[-_SAID_BYTES:]
                return False
            *whole, begun = (bytes(self._begun) + data).split(b"\n")
            self._begun[:] = begun
            for line in whole:
                self._answered(line)
        return True

    def _answered(self, line: bytes) -> None:
        with self._lock:
            answer, _ = self._pending.popleft() if self._pending else (None, 0.0)
        if answer is None:
            return
        if len(line) > ANSWER_BYTES_MAX:
            answer.set_exception(Problem("companion-answers-too-much", f"{self.told} answered with {len(line)} bytes."))
            return
        try:
            message = json.loads(line)
            problem = Problem(*message["problem"]) if "problem" in message else None
            value = None if problem else message["value"]
        except (ValueError, TypeError, KeyError):
            problem, value = Problem("companion-babbles", f"{self.told} said {line[:200]!r}, which is no answer."), None
        if problem is not None:
            answer.set_exception(problem)
        else:
            answer.set_result(value)

    def _hasten(self, process: subprocess.Popen[bytes]) -> None:
        """Kill it when an answer, or its end, is overdue."""
        now = time.monotonic()
        with self._lock:
            if self._pending and self._pending[0][1] < now:
                self._why = "it did not answer in time and was killed"
                process.kill()
            elif self._kill_at is not None and self._kill_at < now:
                process.kill()

    def _over(self) -> Problem:
        said = self._said.decode(errors="replace").strip()
        why = f": {self._why}" if self._why else ""
        return Problem(
            "companion-silent" if self._why else "companion-ended",
            f"{self.told} has ended{why}.{f' It said: {said}' if said else ''}",
            "Start the run again; on a busy machine with fewer things beside it.",
        )


class Company:
    """The companions of several nodes, by node and program. ``enter`` takes the calling thread into a node's namespace."""

    def __init__(self, enter: Callable[[str], None]) -> None:
        self._enter = enter
        self._companions: dict[tuple[str, str], Companion] = {}

    def accompany(self, node: str, program: str, settings: Mapping[str, Any]) -> Future[Any]:
        """Start one and let it begin. Raises Problem ``companion-runs`` or ``companion-not-started``."""
        before = self._companions.get((node, program))
        if before is not None and not before.ended.done():
            raise Problem("companion-runs", f"{before.told} runs already.", "Dismiss it first.")
        companion = self._companions[node, program] = Companion(node, program, lambda: self._enter(node))
        return companion.ask("begin", settings)

    def ask(self, node: str, program: str, op: str, fields: Mapping[str, Any]) -> Future[Any]:
        """Ask one. Raises Problem ``companion-missing``."""
        companion = self._companions.get((node, program))
        if companion is None:
            raise Problem(
                "companion-missing", f"{node} has no companion {program}.", "Let it accompany the node first."
            )
        return companion.ask(op, fields)

    def dismiss(self, node: str, program: str) -> Future[Any]:
        """End one; nothing happens when there is none."""
        companion = self._companions.pop((node, program), None)
        if companion is None:
            nobody: Future[Any] = Future()
            nobody.set_result(True)
            return nobody
        return companion.dismiss()

    def processes(self) -> frozenset[int]:
        """The numbers of those that run: no node's processes."""
        return frozenset(each.pid for each in self._companions.values() if not each.ended.done())

    def close(self) -> None:
        """End all, at once, and wait for it."""
        ends = [self.dismiss(node, program) for node, program in list(self._companions)]
        for end in ends:
            end.result(2 * _END_PATIENCE_S)


def _rest(descriptor: int) -> bytes:
    """What lies in a pipe."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return b""
