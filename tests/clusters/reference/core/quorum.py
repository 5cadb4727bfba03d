"""A quorum of bare cores on a network that loses, delays and reorders single messages, for tests of the protocol alone.

Crueler than a real network, where connections keep the order: whatever a core must bear, it meets here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.config import NodeConfig, Recovered
from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from clusters.candidates.reference.core.effects import Persist, QuorumState
from clusters.candidates.reference.core.messages import (
    AppendRequest,
    AppendResponse,
    Error,
    PeerRequest,
    ReadRequest,
    ReadResponse,
    ReplicaKey,
    Response,
)
from clusters.candidates.reference.core.records import Batch
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.core.roles import State
from clusters.wire.reference_records import Command

ELECTION_MS, FETCH_MS, CHECK_QUORUM_MS, REQUEST_MS = 300, 500, 750, 400


@dataclass
class Disk:
    """What is written, and what of it survives a power cut."""

    quorum_state: QuorumState | None = None
    batches: list[Batch] = field(default_factory=list)
    safe_quorum_state: QuorumState | None = None
    safe_batches: list[Batch] = field(default_factory=list)

    def persist(self, asked: Persist) -> None:
        if asked.quorum_state is not None:
            self.quorum_state = asked.quorum_state
            if asked.sync_quorum_state:
                self.safe_quorum_state = asked.quorum_state
        if asked.truncate_to is not None:
            self.batches = [batch for batch in self.batches if batch.end_offset <= asked.truncate_to]
        self.batches.extend(asked.append)
        if asked.sync_log and (asked.append or asked.truncate_to is not None):
            self.safe_batches = list(self.batches)

    def lose_power(self) -> None:
        self.quorum_state, self.batches = self.safe_quorum_state, list(self.safe_batches)


@dataclass
class Place:
    """A node: its disk and, when it runs, its process."""

    config: NodeConfig
    disk: Disk = field(default_factory=Disk)
    process: Replica | None = None
    incarnation: int = -1
    wake_ms: int = -1


@dataclass(eq=False)
class Op:
    """A client's operation; ``place`` is where its answer puts it in the log: 2 × offset, plus 1 for a write."""

    node: int
    f: str
    key: int
    value: int | None
    invoked: int
    returned: int | None = None
    ok: bool = False
    place: int = -1


@dataclass(eq=False)
class Call:
    """A peer's request: the token of its answer."""

    src: int
    incarnation: int
    correlation: int
    dst: int


class Quorum:
    """Nodes 1 … n, observers last. ``lossy`` is the chance that a message is lost."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        observers: int = 0,
        decisions: Decisions = CORRECT,
        lossy: float = 0.0,
        latency_ms: tuple[int, int] = (1, 1),
        jitter_ms: int = ELECTION_MS,
    ) -> None:
        self.random = Random(seed)
        self.decisions, self.lossy, self.latency_ms = decisions, lossy, latency_ms
        self.now_ms = 0
        self.moment = 0
        self.events: list[dict[str, Any]] = []
        self.operations: list[Op] = []
        self.cut: set[tuple[int, int]] = set()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        keys = [ReplicaKey(n, f"disk-{n}") for n in range(1, voters + observers + 1)]
        self.places = {key.node_id: Place(self._config(key, keys[:voters], jitter_ms)) for key in keys}
        for number in self.places:
            self.start(number)

    @staticmethod
    def _config(me: ReplicaKey, voters: list[ReplicaKey], jitter_ms: int) -> NodeConfig:
        return NodeConfig(
            me=me,
            voters=tuple(voters),
            election_timeout_ms=ELECTION_MS,
            election_jitter_ms=jitter_ms,
            fetch_timeout_ms=FETCH_MS,
            check_quorum_ms=CHECK_QUORUM_MS,
            request_timeout_ms=REQUEST_MS,
            fetch_max_wait_ms=100,
        )

    def node(self, number: int) -> Replica:
        process = self.places[number].process
        assert process is not None
        return process

    def leader(self) -> int | None:
        leading = [
            (place.process.epoch, number)
            for number, place in self.places.items()
            if place.process is not None and place.process.state is State.LEADER
        ]
        return max(leading)[1] if leading else None

    def start(self, number: int) -> None:
        place = self.places[number]
        place.incarnation += 1
        place.wake_ms = -1
        recovered = Recovered(place.disk.quorum_state, tuple(place.disk.batches))
        place.process = core.start(place.config, recovered, self.now_ms, self._draw, self.decisions)
        self._settle(number)

    def stop(self, number: int, *, power_cut: bool = False) -> None:
        self.places[number].process = None
        if power_cut:
            self.places[number].disk.lose_power()

    def write(self, number: int, key: int, value: int) -> Op:
        return self._ask(
            Op(number, "write", key, value, self._now()), AppendRequest((Command("write", value, key),), 2000)
        )

    def read(self, number: int, key: int) -> Op:
        return self._ask(Op(number, "read", key, None, self._now()), ReadRequest(2000, key=key))

    def _ask(self, op: Op, request: AppendRequest | ReadRequest) -> Op:
        self.operations.append(op)
        self.feed(op.node, lambda node: core.on_request(node, op, request, self.now_ms))
        return op

    def feed(self, number: int, give: Callable[[Replica], None]) -> None:
        process = self.places[number].process
        if process is not None:
            give(process)
            self._settle(number)

    def run_ms(self, duration_ms: int) -> None:
        until = self.now_ms + duration_ms
        while self._heap and self._heap[0][0] <= until:
            self._step()
        self.now_ms = until

    def run_until(self, condition: Callable[[], object], within_ms: int = 20_000) -> bool:
        until = self.now_ms + within_ms
        while not condition() and self._heap and self._heap[0][0] <= until:
            self._step()
        return bool(condition())

    def run_until_led(self, within_ms: int = 20_000) -> int:
        def led() -> bool:
            number = self.leader()
            node = self.node(number) if number is not None else None
            return (
                node is not None and node.leadership is not None and node.high_watermark > node.leadership.epoch_start
            )

        assert self.run_until(led, within_ms), "nobody leads"
        leader = self.leader()
        assert leader is not None
        return leader

    def _step(self) -> None:
        self.now_ms, _, event = heappop(self._heap)
        event()

    def _at(self, when_ms: int, event: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._heap, (max(when_ms, self.now_ms), self._order, event))

    def _now(self) -> int:
        self.moment += 1
        return self.moment

    def _draw(self, greatest: int) -> int:
        return self.random.randint(0, greatest)

    def _settle(self, number: int) -> None:
        place = self.places[number]
        node = place.process
        assert node is not None
        effects = core.take(node)
        place.disk.persist(effects.persist)
        who = {"node": f"n{number}", "directory_id": place.config.me.directory_id, "incarnation": place.incarnation}
        self.events.extend(who | row for row in effects.trace)
        for outgoing in effects.send:
            self._send(number, outgoing.correlation, outgoing.node_id, outgoing.request, outgoing.timeout_ms)
        for answer in effects.reply:
            self._answer(answer.token, answer.response)
        due = max(core.deadline_ms(node), self.now_ms + 1)
        if place.wake_ms <= self.now_ms or due < place.wake_ms:
            place.wake_ms = due
            incarnation = place.incarnation
            self._at(due, lambda: self._wake(number, incarnation, due))

    def _wake(self, number: int, incarnation: int, due: int) -> None:
        place = self.places[number]
        if (place.incarnation, place.wake_ms) == (incarnation, due):
            place.wake_ms = -1
            self.feed(number, lambda node: core.on_tick(node, self.now_ms))

    def _send(self, src: int, correlation: int, dst: int, request: PeerRequest, timeout_ms: int) -> None:
        call = Call(src, self.places[src].incarnation, correlation, dst)
        self._carry(src, dst, lambda: self.feed(dst, lambda node: core.on_request(node, call, request, self.now_ms)))
        self._at(
            self.now_ms + timeout_ms,
            lambda: self._back(call, lambda node: core.on_failure(node, correlation, self.now_ms)),
        )

    def _answer(self, token: object, response: Response) -> None:
        if isinstance(token, Call):
            call = token
            self._carry(
                call.dst,
                call.src,
                lambda: self._back(call, lambda node: core.on_response(node, call.correlation, response, self.now_ms)),
            )
        elif isinstance(token, Op):
            self._complete(token, response)

    def _back(self, call: Call, give: Callable[[Replica], None]) -> None:
        if self.places[call.src].incarnation == call.incarnation:
            self.feed(call.src, give)

    def _carry(self, src: int, dst: int, deliver: Callable[[], None]) -> None:
        if self.random.random() >= self.lossy:
            self._at(
                self.now_ms + self.random.randint(*self.latency_ms),
                lambda: deliver() if (src, dst) not in self.cut else None,
            )

    def _complete(self, op: Op, response: Response) -> None:
        if isinstance(response, AppendResponse | ReadResponse) and response.error is Error.NONE:
            op.ok, op.returned = True, self._now()
            if isinstance(response, AppendResponse):
                op.place = 2 * response.base_offset + 1
            else:
                op.value, op.place = response.value, 2 * response.applied_offset
