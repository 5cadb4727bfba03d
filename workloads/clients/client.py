"""A client for measuring safety: exactly one attempt an operation, no retry behind the recorder's back."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from workloads.history.operation import Completion, Invocation

Connect = Callable[[str], Awaitable[socket.socket]]
"""Connects to a node by name and returns a connected, non-blocking socket; raises OSError. Made by the controller from the
backend's client socket, so that clients know nothing of namespaces."""


class Client(Protocol):
    """One process's client. An instance serves one operation at a time.

    A pinned client was made for one node and never leaves it. A following client starts anywhere and, after an answer that
    names another leader, asks that one with its *next* operation.
    """

    @property
    def node(self) -> str:
        """The node that the next operation will be sent to."""
        ...

    async def invoke(self, invocation: Invocation, timeout_s: float) -> Completion:
        """Send one operation once and say how it ended. Never raises for what the candidate or the network does:
        what is not certain is ``info``."""
        ...

    async def close(self) -> None:
        """Drop the connection."""
        ...


class ClientFactory(Protocol):
    """Makes clients for one workload on one candidate."""

    def __call__(self, connect: Connect, nodes: tuple[str, ...], pinned_to: str | None, process: int) -> Client:
        """Make the client of one process; ``nodes`` are those that clients may ask."""
        ...
