"""A network whose messages can be cut, held and released, one direction at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from clusters.candidates.reference.core.messages import PeerRequest, Response


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way, or the answer to it. ``correlation`` and ``incarnation`` are of the node that asked."""

    src: str
    dst: str
    correlation: int
    incarnation: int
    request: PeerRequest
    response: Response | None = None

    @property
    def kind(self) -> str:
        """``Vote``, ``VoteResponse``, ``Fetch``, ``FetchResponse``, …"""
        return type(self.response or self.request).__name__.removesuffix("Request")


@dataclass(slots=True)
class Hold:
    """Messages of one kind on one ordered pair are kept back until they are released."""

    kind: str
    src: str
    dst: str
    when: Callable[[Message], bool] | None = None
    messages: list[Message] = field(default_factory=list)

    def takes(self, message: Message) -> bool:
        """Whether it keeps the message back."""
        pair = (message.kind, message.src, message.dst) == (self.kind, self.src, self.dst)
        return pair and (self.when is None or self.when(message))


@dataclass(slots=True)
class SimulatedNetwork:
    """Which ordered pairs are cut, and what is held."""

    cut: set[tuple[str, str]] = field(default_factory=set)
    holds: list[Hold] = field(default_factory=list)

    def passes(self, message: Message) -> bool:
        """Whether a message arrives now; one that is held does not, until it is released."""
        if (message.src, message.dst) in self.cut:
            return False
        for hold in self.holds:
            if hold.takes(message):
                hold.messages.append(message)
                return False
        return True
