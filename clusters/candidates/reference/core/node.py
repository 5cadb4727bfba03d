"""One KRaft replica as a state machine: hand in what happened, take out what is to be done.

Usage, the same for the asyncio server and for virtual time::

    node = start(config, recovered, now_ms, draw, decisions)
    execute(take(node))
    while True:
        (for everything that has arrived)  on_request / on_response / on_failure
        (when deadline_ms(node) has passed) on_tick
        execute(take(node))

``now_ms`` is any monotonic clock in whole milliseconds, the same for all calls on one node; it never falls. ``draw(n)``
returns a whole number 0 … n; it is the only source of chance. Inputs that have arrived go first, timers after them, as on
any machine whose process was paused.
"""

from __future__ import annotations

from collections.abc import Callable

from clusters.candidates.reference.core.config import NodeConfig, Recovered
from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from clusters.candidates.reference.core.effects import Effects, Token
from clusters.candidates.reference.core.messages import PeerResponse, Request
from clusters.candidates.reference.core.replica import Replica


def start(
    config: NodeConfig,
    recovered: Recovered,
    now_ms: int,
    draw: Callable[[int], int],
    decisions: Decisions = CORRECT,
) -> Replica:
    """Start a replica on what its disk holds. The first ``take`` has the trace's ``start`` row."""
    raise NotImplementedError


def on_request(node: Replica, token: Token, request: Request, now_ms: int) -> None:
    """A peer or a client asks. The answer comes in some later ``take`` under the same token, before its deadline."""
    raise NotImplementedError


def on_response(node: Replica, correlation: int, response: PeerResponse, now_ms: int) -> None:
    """A peer answers. Answers that nobody waits for any more change nothing (S853-12)."""
    raise NotImplementedError


def on_failure(node: Replica, correlation: int, now_ms: int) -> None:
    """There will be no answer: the deadline passed or the connection was lost."""
    raise NotImplementedError


def on_disconnect(node: Replica, token: Token) -> None:
    """Nobody waits for the answer of this token any more. What it appended stays appended."""
    raise NotImplementedError


def on_tick(node: Replica, now_ms: int) -> None:
    """Time has passed: do everything whose time has come."""
    raise NotImplementedError


def on_shutdown(node: Replica, now_ms: int) -> None:
    """The process is asked to stop: a leader resigns and says so (EndQuorumEpoch); every pending request is answered."""
    raise NotImplementedError


def deadline_ms(node: Replica) -> int:
    """When ``on_tick`` must be called next, in the clock of ``now_ms``."""
    raise NotImplementedError


def take(node: Replica) -> Effects:
    """Return everything to do since the last call, to be carried out in the order of its fields."""
    raise NotImplementedError
