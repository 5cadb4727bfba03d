"""One process after another at one place: each sends one operation at a time, once, and is retired when nobody knows how
its operation ended (info). Its successor has a new number and a fresh client."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from workloads.clients.client import Client, ClientFactory, Connect
from workloads.clients.deadlines import Deadlines
from workloads.generators.generator import Generator
from workloads.history.operation import Completion, Invocation, Phase, Status
from workloads.recorder import Recorder

GRACE_S = 1.0
"""how much longer than its timeout a client may take before it is given up"""
_CLOSE_S = 1.0
_CRASHES_KEPT = 10


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the candidate."""

    connect: Connect
    nodes: tuple[str, ...]
    make_client: ClientFactory


class Session:
    """A line of processes, numbered ``process``, ``process + stride``, …, of which one is alive."""

    def __init__(
        self,
        access: Access,
        recorder: Recorder,
        deadlines: Deadlines,
        *,
        pinned: bool,
        node: str | None,
        process: int,
        stride: int,
        timeout_s: float,
    ) -> None:
        """``node`` is where a pinned session stays; a following one begins where its client chooses (``node`` None)."""
        if pinned and node is None:
            raise ValueError("a pinned session needs a node")
        self._access = access
        self._recorder = recorder
        self._deadlines = deadlines
        self._pinned = pinned
        self._node = node
        self._stride = stride
        self._timeout_s = timeout_s
        self._client: Client | None = None
        self._expired = False
        self._task: asyncio.Task[object] | None = None
        self.process = process
        self.crashes: list[str] = []
        """the first few things that clients raised, which they must not"""

    @property
    def node(self) -> str:
        """The node that the next operation is sent to."""
        return self._open().node

    async def perform(self, generator: Generator, invocation: Invocation, phase: Phase) -> Completion:
        """Send one operation once, record both its ends, and tell the generator how it ended."""
        client = self._open()
        process = self.process
        op_id = self._recorder.invoked(process, client.node, self._pinned, invocation, phase)
        self._task = asyncio.current_task()
        self._expired = False
        self._deadlines.arm(self, self._timeout_s + GRACE_S, self._expire)
        try:
            completion = await client.invoke(invocation, self._timeout_s)
        except asyncio.CancelledError:
            if not self._expired or self._task is None:
                raise
            self._task.uncancel()
            completion = Completion(Status.INFO, error="client-overdue")
        except Exception as error:
            self._crashed(error)
            completion = Completion(Status.INFO, error=f"client-crashed: {type(error).__name__}")
        finally:
            self._deadlines.disarm(self)
        self._recorder.completed(op_id, completion)
        generator.update(process, invocation, completion)
        if completion.status is Status.INFO:
            await self.close()
            self.process += self._stride
        return completion

    async def close(self) -> None:
        """Drop the client, whatever it does."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await client.close()
        except Exception as error:
            self._crashed(error)

    def _open(self) -> Client:
        if self._client is None:
            access = self._access
            pinned_to = self._node if self._pinned else None
            self._client = access.make_client(access.connect, access.nodes, pinned_to, self.process)
        return self._client

    def _crashed(self, error: Exception) -> None:
        if len(self.crashes) < _CRASHES_KEPT:
            self.crashes.append(f"{type(error).__name__}: {error}")

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()
