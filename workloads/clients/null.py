"""A candidate inside the controller that answers at once and is always right: a register map, a log and a counter.

It measures what the framework itself costs (benchmarks), and gives the checker's and the report's tests histories that are valid.
"""

from __future__ import annotations

from workloads.clients.client import Connect
from workloads.history.operation import Completion, Invocation, Status


class NullObjects:
    """The objects that all clients of one run share. As a ClientFactory it makes their clients."""

    def __init__(self) -> None:
        self.registers: dict[int | None, int] = {}
        self.log: list[int] = []
        self.counter = 0

    def __call__(
        self,
        connect: Connect,  # noqa: ARG002 - nothing is connected to
        nodes: tuple[str, ...],
        pinned_to: str | None,
        process: int,
    ) -> NullClient:
        """Make a client."""
        return NullClient(self, pinned_to or nodes[process % len(nodes)])


class NullClient:
    """A client of :class:`NullObjects`."""

    def __init__(self, objects: NullObjects, node: str) -> None:
        self._objects = objects
        self._node = node

    @property
    def node(self) -> str:
        """The node whose name its operations carry."""
        return self._node

    async def invoke(self, invocation: Invocation, timeout_s: float) -> Completion:  # noqa: ARG002 - answers at once
        """Apply the operation."""
        return _APPLY[invocation.f](self._objects, invocation)

    async def close(self) -> None:
        """Nothing is open."""


def _read(objects: NullObjects, invocation: Invocation) -> Completion:
    value = objects.registers.get(invocation.key)
    return Completion(Status.OK, () if value is None else (value,))


def _write(objects: NullObjects, invocation: Invocation) -> Completion:
    objects.registers[invocation.key] = invocation.input[0]
    return Completion(Status.OK)


def _cas(objects: NullObjects, invocation: Invocation) -> Completion:
    expected, new = invocation.input
    if objects.registers.get(invocation.key) != expected:
        return Completion(Status.FAIL, error="value-was-another")
    objects.registers[invocation.key] = new
    return Completion(Status.OK)


def _append(objects: NullObjects, invocation: Invocation) -> Completion:
    objects.log.append(invocation.input[0])
    return Completion(Status.OK, offset=len(objects.log) - 1)


def _poll(objects: NullObjects, invocation: Invocation) -> Completion:
    start = invocation.input[0]
    pairs = enumerate(objects.log[start:], start)
    return Completion(Status.OK, tuple(number for pair in pairs for number in pair), offset=len(objects.log))


def _add(objects: NullObjects, invocation: Invocation) -> Completion:
    before = objects.counter
    objects.counter += invocation.input[0]
    return Completion(Status.OK, (before,))


_APPLY = {"read": _read, "write": _write, "cas": _cas, "append": _append, "poll": _poll, "add": _add}
