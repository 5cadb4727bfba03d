"""The controller's end of the connection to one machine's agent: requests from any thread, answers in any order."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

import paramiko

from clusters.backends.ssh.agent.frames import HELLO, Decoder, FrameError, encode
from clusters.backends.ssh.bundle import agent_bundle, loader_text
from clusters.backends.ssh.connection import agent_command, connect, own_address
from clusters.backends.ssh.inventory import Machine
from clusters.backends.ssh.refusals import refusal
from workloads.problem import Problem

CALL_TIMEOUT_S = 30.0
LOST = ("machine-lost", "machine-silent")
"""slugs of Problems after which nobody knows what was done"""

_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 30.0
_SEND_TIMEOUT_S = 30.0
_BEFORE_HELLO_BYTES = 1 << 16
_SAID_BYTES = 2000
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Ended:
    """How the agent ended. ``status`` None: nobody knows (the connection was lost, ssh's exit status −1)."""

    status: int | None
    said: str


class AgentChannel:
    """A running agent. One thread of its own reads the answers."""

    def __init__(self, machine: Machine, options: Mapping[str, Any]) -> None:
        self.machine = machine
        self.ended: Ended | None = None
        self._lock = threading.Lock()
        self._answers: dict[int, Future[tuple[Any, bytes]]] = {0: Future()}
        self._next = 0
        self._over = threading.Event()
        self._client = connect(machine)
        try:
            self.own_address = own_address(self._client)
            self._channel = self._start(options)
        except BaseException:
            self._client.close()
            raise
        self._first = self._answers[0]
        self._thread = threading.Thread(target=self._live, name=f"agent of {machine}", daemon=True)
        self._thread.start()

    def first(self) -> Any:
        """What the agent says first of all. Raises Problem when it refuses."""
        return self._result(self._first, "start", _START_TIMEOUT_S)[0]

    def call(self, op: str, timeout_s: float = CALL_TIMEOUT_S, /, **fields: Any) -> Any:
        """Ask and wait. Raises Problem: the agent's refusal, ``machine-lost`` or ``machine-silent``; then nobody knows what was done."""
        return self.exchange(op, b"", timeout_s, **fields)[0]

    def exchange(
        self, op: str, blob: bytes = b"", timeout_s: float = CALL_TIMEOUT_S, /, **fields: Any
    ) -> tuple[Any, bytes]:
        """As :meth:`call`, with raw bytes both ways."""
        return self._result(self.ask(op, blob, **fields), op, timeout_s)

    def ask(self, op: str, blob: bytes = b"", /, **fields: Any) -> Future[tuple[Any, bytes]]:
        """Ask; the answer comes later."""
        answer: Future[tuple[Any, bytes]] = Future()
        with self._lock:
            if self._over.is_set():
                raise self._lost(op)
            self._next += 1
            self._answers[self._next] = answer
            try:
                self._channel.sendall(encode({"id": self._next, "op": op, **fields}, blob))
            except OSError as error:
                del self._answers[self._next]
                self._client.close()
                raise self._lost(op) from error
        return answer

    def wait_end(self, timeout_s: float = _END_TIMEOUT_S) -> Ended:
        """Wait until the agent has ended, then close the connection. An agent that does not end in time has no status."""
        self._over.wait(timeout_s)
        self._client.close()
        self._over.wait(timeout_s)
        return self.ended or Ended(None, "")

    def drop(self) -> None:
        """Close the connection at once; the agent ends by itself. May be called twice."""
        self._client.close()

    def _start(self, options: Mapping[str, Any]) -> paramiko.Channel:
        transport = self._client.get_transport()
        assert transport is not None
        try:
            channel = transport.open_session(timeout=_START_TIMEOUT_S)
            channel.settimeout(_START_TIMEOUT_S)
            channel.exec_command(agent_command(self.machine, loader_text()))
            self._bring(channel, options)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._not_started(str(error) or type(error).__name__) from error
        channel.settimeout(_SEND_TIMEOUT_S)
        return channel

    def _bring(self, channel: paramiko.Channel, options: Mapping[str, Any]) -> None:
        """Talk with the loader: it says hello, gets its order, and asks for the agent when the machine has not got it."""
        bundle = agent_bundle()
        order = {
            "data": str(self.machine.data),
            "sha256": bundle.sha256,
            "bytes": len(bundle.content),
            "options": options,
        }
        text = json.dumps(order).encode()
        channel.sendall(b"%08x" % len(text) + text)
        before = bytearray()
        while not before.endswith(HELLO):
            part = channel.recv(1)
            if not part or len(before) > _BEFORE_HELLO_BYTES:
                raise self._refused(channel, before.decode(errors="replace"))
            before += part
        line = bytearray()
        while not line.endswith(b"\n"):
            part = channel.recv(1)
            if not part:
                raise self._refused(channel, line.decode(errors="replace"))
            line += part
        if line == b"want\n":
            channel.sendall(bundle.content)
        elif line == b"not root\n":
            raise refusal(self.machine, "machine-not-root", "")
        elif line != b"have\n":
            raise self._refused(channel, line.decode(errors="replace"))

    def _refused(self, channel: paramiko.Channel, said: str) -> Problem:
        return self._not_started(" ".join(f"{said} {_errors(channel)}".split())[-_SAID_BYTES:])

    def _not_started(self, why: str) -> Problem:
        machine = self.machine
        if machine.sudo and "sudo" in why:
            return Problem(
                "sudo-refused",
                f"{machine}: sudo does not let {machine.user} become root without a password: {why}",
                f"As root there: echo '{machine.user} ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/nemesis",
            )
        return Problem(
            "agent-not-started",
            f"The agent cannot be started on {machine} with {machine.python}: {why or 'it ended at once'}.",
            f"Try: ssh -p {machine.port} {machine.user}@{machine.host} {'sudo -n ' if machine.sudo else ''}{machine.python} -V",
        )

    def _live(self) -> None:
        decoder = Decoder()
        while True:
            try:
                data = self._channel.recv(_READ_BYTES)
            except TimeoutError:
                continue
            except OSError:
                break
            if not data:
                break
            try:
                messages = decoder.feed(data)
            except FrameError:
                break
            for message, blob in messages:
                self._answered(message, blob)
        self._conclude()

    def _answered(self, message: dict[str, Any], blob: bytes) -> None:
        with self._lock:
            answer = self._answers.pop(message["id"], None)
        if answer is None:
            return
        if "problem" in message:
            answer.set_exception(refusal(self.machine, *message["problem"]))
        else:
            answer.set_result((message["value"], blob))

    def _conclude(self) -> None:
        self._channel.status_event.wait(_END_TIMEOUT_S)
        status = self._channel.exit_status
        self.ended = Ended(None if status < 0 else status, _errors(self._channel))
        with self._lock:
            self._over.set()
            answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.set_exception(self._lost("answer"))

    def _result(self, answer: Future[tuple[Any, bytes]], op: str, timeout_s: float) -> tuple[Any, bytes]:
        try:
            return answer.result(timeout_s)
        except FutureTimeout:
            raise Problem(
                "machine-silent",
                f"The agent on {self.machine} did not answer `{op}` within {timeout_s:.0f} s; whether it was done is not known.",
                "Look at the connection to that machine; its agent heals and ends by itself when its lease is over.",
            ) from None

    def _lost(self, op: str) -> Problem:
        said = f" It said: {self.ended.said}" if self.ended and self.ended.said else ""
        return Problem(
            "machine-lost",
            f"The connection to the agent on {self.machine} has ended; whether `{op}` was done is not known.{said}",
            "The agent there kills its node and removes its rules by itself; `nemesis clean --inventory FILE` looks after it.",
        )


def _errors(channel: paramiko.Channel) -> str:
    """What came on standard error, as far as it has come."""
    parts = []
    deadline = time.monotonic() + 1.0
    with contextlib.suppress(OSError, socket.timeout):
        while time.monotonic() < deadline and (channel.recv_stderr_ready() or not channel.closed):
            if not channel.recv_stderr_ready():
                time.sleep(0.01)
                continue
            parts.append(channel.recv_stderr(_SAID_BYTES))
    return b"".join(parts).decode(errors="replace").strip()[-_SAID_BYTES:]
