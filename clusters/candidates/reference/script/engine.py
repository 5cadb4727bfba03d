"""The machinery of virtual time: one heap of events, and nodes whose effects are carried out in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.config import NodeConfig
from clusters.candidates.reference.core.decisions import Decisions
from clusters.candidates.reference.core.effects import Effects, Outgoing, Reply
from clusters.candidates.reference.core.messages import (
    AppendResponse,
    DescribeQuorumResponse,
    Error,
    ReadResponse,
)
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.script.asked import Asked, completion
from clusters.candidates.reference.script.disk import SimulatedDisk
from clusters.candidates.reference.script.network import Message, SimulatedNetwork
from clusters.candidates.reference.script.recorder import Recorder
from clusters.evidence.identity import node_name
from workloads.history.manifest import Timers


@dataclass(slots=True)
class Machine:
    """One node's place: its disk, and the process on it while there is one."""

    node_id: int
    role: str
    disk: SimulatedDisk
    config: NodeConfig
    first_directory_id: str
    process: Replica | None = None
    incarnation: int = -1
    collections: int = 0
    trace_seq: int = 0
    inbox: list[Callable[[], None]] | None = None
    """inputs that arrived while the process was paused; None while it is not"""
    wake_ms: int | None = None
    high_watermark: int | None = None
    """what its trace last said in this incarnation"""

    @property
    def name(self) -> str:
        """``n1``."""
        return node_name(self.node_id)


@dataclass(slots=True)
class Engine:
    """Moves the clock from event to event."""

    decisions: Decisions
    timers: Timers
    random: Random
    latency_ms: tuple[int, int]
    """least and greatest time of one message"""
    machines: dict[str, Machine] = field(default_factory=dict)
    network: SimulatedNetwork = field(default_factory=SimulatedNetwork)
    recorder: Recorder = field(default_factory=Recorder)
    now_ms: int = 0
    drop: Callable[[Message], bool] = lambda _message: False
    """messages that are lost by chance"""
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _order: int = 0

    def at(self, when_ms: int, event: Callable[[], None]) -> None:
        """Let something happen at a time; what was planned first happens first."""
        self._order += 1
        heappush(self._events, (max(when_ms, self.now_ms), self._order, event))

    def step(self, until_ms: int) -> bool:
        """Let the next event happen, if there is one until then; else move the clock there and return False."""
        if not self._events or self._events[0][0] > until_ms:
            self.now_ms = max(self.now_ms, until_ms)
            return False
        self.now_ms, _, event = heappop(self._events)
        event()
        return True

    def now_ns(self) -> int:
        """A new moment in virtual nanoseconds."""
        return self.recorder.now_ns(self.now_ms)

    def lifecycle(self, machine: Machine, kind: str, detail: str = "") -> None:
        """Record what was done to a node."""
        self.recorder.add(
            "lifecycle",
            node=machine.name,
            directory_id=machine.disk.directory_id,
            assigned=False,
            incarnation=max(machine.incarnation, 0),
            kind=kind,
            ts_ns=self.now_ns(),
            detail=detail or None,
        )

    def collect(self, machine: Machine) -> None:
        """Copy the node's disk as evidence."""
        self.recorder.collect_disk(
            machine.name,
            machine.disk,
            machine.incarnation,
            machine.collections,
            ts_ns=self.now_ns(),
            high_watermark=machine.high_watermark,
        )
        machine.collections += 1

    def start(self, machine: Machine) -> None:
        """Start a process on the disk."""
        machine.incarnation += 1
        machine.trace_seq = 0
        machine.high_watermark = None
        machine.wake_ms = None
        machine.inbox = None
        self.lifecycle(machine, "start")
        recovered = machine.disk.recover()
        machine.process = core.start(machine.config, recovered, self.now_ms, self._draw, self.decisions)
        self._settle(machine)

    def end(self, machine: Machine) -> None:
        """The process is gone, whatever it was doing."""
        machine.process = None
        machine.inbox = None

    def feed(self, machine: Machine, give: Callable[[Replica], None]) -> None:
        """Give a node an input and carry out what comes of it; a paused node gets it later, a dead one never."""
        if machine.process is None:
            return
        if machine.inbox is not None:
            machine.inbox.append(lambda: self.feed(machine, give))
            return
        give(machine.process)
        self._settle(machine)

    def resume(self, machine: Machine) -> None:
        """Let a paused process run again: what has arrived first, then the timers."""
        inbox, machine.inbox = machine.inbox or [], None
        for give in inbox:
            give()
        if machine.process is not None:
            self._settle(machine)

    def deliver(self, message: Message) -> None:
        """A message arrives, unless its link is cut, it is held, or it gets lost."""
        if self.drop(message) or not self.network.passes(message):
            return
        machine = self.machines[message.dst]
        answer = message.response
        if answer is None:
            self.feed(machine, lambda node: core.on_request(node, message, message.request, self.now_ms))
        elif machine.incarnation == message.incarnation:
            self.feed(machine, lambda node: core.on_response(node, message.correlation, answer, self.now_ms))

    def _draw(self, greatest: int) -> int:
        return self.random.randint(0, greatest)

    def _settle(self, machine: Machine) -> None:
        node = machine.process
        if node is None:
            return
        self._execute(machine, core.take(node))
        wake_ms = core.deadline_ms(node)
        if machine.wake_ms is None or wake_ms < machine.wake_ms or machine.wake_ms <= self.now_ms:
            machine.wake_ms = max(wake_ms, self.now_ms + 1)
            incarnation, planned = machine.incarnation, machine.wake_ms
            self.at(planned, lambda: self._wake(machine, incarnation, planned))

    def _wake(self, machine: Machine, incarnation: int, planned_ms: int) -> None:
        if machine.incarnation != incarnation or machine.wake_ms != planned_ms:
            return
        machine.wake_ms = None
        self.feed(machine, lambda node: core.on_tick(node, self.now_ms))

    def _execute(self, machine: Machine, effects: Effects) -> None:
        """The order is an obligation: disk, trace, requests, answers."""
        machine.disk.persist(effects.persist)
        for row in effects.trace:
            machine.high_watermark = row.get("high_watermark", machine.high_watermark)
            self.recorder.add(
                "node_events",
                node=machine.name,
                directory_id=machine.disk.directory_id,
                incarnation=machine.incarnation,
                seq=machine.trace_seq,
                ts_ns=self.now_ns(),
                **row,
            )
            machine.trace_seq += 1
        for outgoing in effects.send:
            self._send(machine, outgoing)
        for reply in effects.reply:
            self._reply(machine, reply)

    def _send(self, machine: Machine, outgoing: Outgoing) -> None:
        incarnation, correlation = machine.incarnation, outgoing.correlation
        message = Message(machine.name, node_name(outgoing.node_id), correlation, incarnation, outgoing.request)
        self.at(self.now_ms + self.random.randint(*self.latency_ms), lambda: self.deliver(message))

        def fail() -> None:
            if machine.incarnation == incarnation:
                self.feed(machine, lambda node: core.on_failure(node, correlation, self.now_ms))

        self.at(self.now_ms + outgoing.timeout_ms, fail)

    def _reply(self, machine: Machine, reply: Reply) -> None:
        token, response = reply.token, reply.response
        if isinstance(token, Message):
            answer = replace(token, src=token.dst, dst=token.src, response=response)
            self.at(self.now_ms + self.random.randint(*self.latency_ms), lambda: self.deliver(answer))
        elif isinstance(token, Asked) and isinstance(response, AppendResponse | ReadResponse):
            if token.completion is None:
                token.completion = completion(response)
                token.completed_ns = self.now_ns()
        elif isinstance(token, int) and isinstance(response, DescribeQuorumResponse):
            self._sample(machine, token, response)

    def _sample(self, machine: Machine, asked_ns: int, answer: DescribeQuorumResponse) -> None:
        everyone = (*answer.voters, *answer.observers)
        self.recorder.add(
            "quorum_samples",
            ts_ns=self.now_ns(),
            node=machine.name,
            asked_ns=asked_ns,
            error=None if answer.error is Error.NONE else answer.error.name,
            claims_leadership=answer.error is Error.NONE,
            leader=None if answer.leader_id is None else node_name(answer.leader_id),
            epoch=answer.epoch,
            high_watermark=answer.high_watermark if answer.high_watermark >= 0 else None,
            voters=[str(each.replica) for each in answer.voters],
            observers=[str(each.replica) for each in answer.observers],
            log_end_offsets=[each.log_end_offset for each in everyone],
        )
