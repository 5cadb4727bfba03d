"""Clients that do what a test says, and a log of operations in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from workloads.clients.client import Connect
from workloads.history.operation import Completion, Invocation, Phase, Status

OK = Completion(Status.OK)
INFO = Completion(Status.INFO, error="timed-out")

Answer = Callable[["ScriptedClient", Invocation], Awaitable[Completion]]


@dataclass(eq=False)
class ScriptedClient:
    made_by: ScriptedClients
    node: str
    pinned_to: str | None
    process: int
    sent: list[Invocation] = field(default_factory=list)
    busy: bool = False
    closed: bool = False

    async def invoke(self, invocation: Invocation, timeout_s: float) -> Completion:
        assert not self.busy, "a client serves one operation at a time"
        assert not self.closed, "a closed client is never asked again"
        self.busy = True
        self.sent.append(invocation)
        try:
            return await self.made_by.answer(self, invocation)
        finally:
            self.busy = False

    async def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedClients:
    """A ClientFactory that keeps all clients it made."""

    answer: Answer
    made: list[ScriptedClient] = field(default_factory=list)

    def __call__(self, connect: Connect, nodes: tuple[str, ...], pinned_to: str | None, process: int) -> ScriptedClient:
        client = ScriptedClient(self, pinned_to or nodes[0], pinned_to, process)
        self.made.append(client)
        return client


async def at_once(client: ScriptedClient, invocation: Invocation) -> Completion:
    return OK


def after(seconds: float, completion: Completion = OK) -> Answer:
    async def answer(client: ScriptedClient, invocation: Invocation) -> Completion:
        await asyncio.sleep(seconds)
        return completion

    return answer


@dataclass
class MemoryLog:
    """An OperationLog."""

    invocations: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[int, tuple[Completion, int]] = field(default_factory=dict)

    def invoked(
        self,
        op_id: int,
        process: int,
        node: str | None,
        pinned: bool,
        invocation: Invocation,
        *,
        phase: Phase,
        at_ns: int,
    ) -> None:
        self.invocations.append(
            {
                "op_id": op_id,
                "process": process,
                "node": node,
                "pinned": pinned,
                "invocation": invocation,
                "phase": phase,
                "at_ns": at_ns,
            }
        )

    def completed(self, op_id: int, completion: Completion, at_ns: int) -> None:
        assert op_id not in self.ends, "an operation ends once"
        self.ends[op_id] = (completion, at_ns)


async def no_connection(node: str) -> Any:
    raise AssertionError("scripted clients connect to nothing")
