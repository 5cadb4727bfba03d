"""The words in which a script tells a quorum in virtual time what to do.

A play is deterministic: the seed draws election timeouts and latencies, nothing else is left to chance. The words that let
others act say so in their names (``run_ms``, ``run_until``); all others act at once. Clients stand outside of every
partition, as in a real run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.config import NodeConfig
from clusters.candidates.reference.core.defects import decisions
from clusters.candidates.reference.core.messages import DescribeQuorumRequest, ReplicaKey
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.core.roles import State
from clusters.candidates.reference.script.asked import Asked, request
from clusters.candidates.reference.script.disk import SimulatedDisk
from clusters.candidates.reference.script.engine import Engine, Machine
from clusters.candidates.reference.script.network import Hold, Message
from clusters.evidence.identity import uuid_to_text
from workloads.history.manifest import Timers
from workloads.history.operation import Completion, Consistency, FaultRow, Invocation, Phase, Status

TIMERS = Timers(election_timeout_ms=300, fetch_timeout_ms=500, check_quorum_ms=750, request_timeout_ms=400)
STEP_LIMIT = 5_000_000
SAMPLE_EVERY_MS = 100


class ScriptError(Exception):
    """A script waited for what did not come about, or asked for what cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a play is set up with."""

    voters: int = 3
    observers: int = 0
    timers: Timers = TIMERS
    election_jitter_ms: int = 300
    latency_ms: tuple[int, int] = (1, 1)
    fetch_max_records: int = 2000


class Play:
    """A running quorum. Nodes are ``n1``, ``n2``, …, the observers last."""

    def __init__(self, stage: Stage, seed: int, defects: Iterable[str] = ()) -> None:
        self.stage = stage
        random = Random(seed)
        self._random = random
        self.engine = Engine(decisions(defects), stage.timers, random, stage.latency_ms)
        self.asked: list[Asked] = []
        self.faults: list[FaultRow] = []
        self.phase = Phase.LOAD
        self._processes: dict[str, int] = {}
        self._next_process = 0
        keys = [ReplicaKey(n, self._fresh_directory_id()) for n in range(1, stage.voters + stage.observers + 1)]
        for key in keys:
            role = "voter" if key.node_id <= stage.voters else "observer"
            config = _node_config(key, keys[: stage.voters], stage)
            machine = Machine(key.node_id, role, SimulatedDisk(key.directory_id), config, key.directory_id)
            self.engine.machines[machine.name] = machine
            self.engine.lifecycle(machine, "format")
        for machine in self.engine.machines.values():
            self.engine.start(machine)
        self.engine.at(0, self._sample)

    @property
    def nodes(self) -> Sequence[str]:
        """All names."""
        return tuple(self.engine.machines)

    def node(self, name: str) -> Replica:
        """The process of a node, to look at. Raises ScriptError when there is none."""
        process = self.engine.machines[name].process
        if process is None:
            raise ScriptError(f"{name} is not running")
        return process

    def leader(self) -> str | None:
        """The node that leads the highest epoch, if one does."""
        running = [
            (machine.process.epoch, name)
            for name, machine in self.engine.machines.items()
            if machine.process is not None and machine.process.state is State.LEADER
        ]
        return max(running)[1] if running else None

    def run_ms(self, duration_ms: int) -> None:
        """Let everybody act for so long."""
        until_ms = self.engine.now_ms + duration_ms
        for _ in range(STEP_LIMIT):
            if not self.engine.step(until_ms):
                return
        raise ScriptError(f"more than {STEP_LIMIT} events in {duration_ms} ms of virtual time")

    def run_until(self, condition: Callable[[], object], within_ms: int = 20_000, what: str = "") -> None:
        """Let everybody act until something is so. Raises ScriptError when it is not within the time."""
        until_ms = self.engine.now_ms + within_ms
        for _ in range(STEP_LIMIT):
            if condition():
                return
            if not self.engine.step(until_ms):
                break
        if not condition():
            raise ScriptError(f"after {within_ms} ms of virtual time: {what or 'the condition'} has not come about")

    def run_until_led(self, by: str | None = None, within_ms: int = 20_000) -> str:
        """Let everybody act until a node (or this one) leads, has committed in its epoch, and is known to a majority."""

        def led() -> bool:
            name = self.leader()
            if name is None or by not in (None, name):
                return False
            node = self.node(name)
            return node.leadership is not None and node.high_watermark > node.leadership.epoch_start

        self.run_until(led, within_ms, f"a leader{f' {by}' if by else ''}")
        return str(self.leader())

    def run_until_done(self, asked: Asked, within_ms: int = 20_000) -> Asked:
        """Let everybody act until an operation has completed."""
        self.run_until(lambda: asked.completion is not None, within_ms, f"operation {asked.op_id}")
        return asked

    def write(self, node: str, key: int, value: int) -> Asked:
        """A client writes a register at this node."""
        return self.invoke(node, Invocation("write", key, (value,)))

    def read(self, node: str, key: int, consistency: Consistency = Consistency.LINEARIZABLE) -> Asked:
        """A client reads a register at this node."""
        return self.invoke(node, Invocation("read", key, (), consistency))

    def invoke(self, node: str, invocation: Invocation, timeout_ms: int = 2000) -> Asked:
        """A client pinned to a node asks it once, whatever it answers."""
        process = self._idle_process(node)
        ns = self.engine.now_ns()
        asked = Asked(len(self.asked), process, node, invocation, ns, self.phase)
        self.asked.append(asked)
        machine = self.engine.machines[node]
        if machine.process is None:
            asked.completion, asked.completed_ns = (
                Completion(Status.FAIL, error="CONNECTION_REFUSED"),
                self.engine.now_ns(),
            )
            return asked
        ask = request(invocation, timeout_ms)
        self.engine.feed(machine, lambda replica: core.on_request(replica, asked, ask, self.engine.now_ms))
        self.engine.at(self.engine.now_ms + timeout_ms + 500, lambda: self._give_up(asked))
        return asked

    def cut(self, *pairs: str) -> None:
        """Cut ordered pairs, given as ``n1>n2``; everything else is open from now on."""
        self._end_faults("partition", replaced=True)
        self.engine.network.cut = {self._pair(pair) for pair in pairs}
        self._begin_fault("partition", (), links=tuple(sorted(pairs)), isolated=self._isolated())

    def split(self, *sides: Sequence[str]) -> None:
        """Cut every pair whose nodes are on different sides; a node that is named on no side is alone."""
        named = {name for side in sides for name in side}
        groups = [*map(set, sides), *({name} for name in self.nodes if name not in named)]
        self.cut(*(f"{a}>{b}" for one in groups for other in groups if one is not other for a in one for b in other))

    def heal(self) -> None:
        """Open every link."""
        self.engine.network.cut = set()
        self._end_faults("partition")

    def hold(self, kind: str, src: str, dst: str, when: Callable[[Message], bool] | None = None) -> Hold:
        """Keep back messages of one kind (``Vote``, ``VoteResponse``, ``Fetch``, …) on one ordered pair."""
        hold = Hold(kind, src, dst, when)
        self.engine.network.holds.append(hold)
        return hold

    def release(self, hold: Hold) -> None:
        """Deliver what was kept back, in its order, and keep nothing back any more."""
        self.engine.network.holds.remove(hold)
        for message in hold.messages:
            self.engine.deliver(message)

    def drop(self, hold: Hold) -> None:
        """Forget what was kept back, and keep nothing back any more."""
        self.engine.network.holds.remove(hold)

    def kill(self, name: str) -> None:
        """End the process; the disk keeps everything that was written."""
        self._stop(name, "kill")

    def power_cut(self, name: str) -> None:
        """End the process; the disk keeps only what was synced."""
        machine = self.engine.machines[name]
        machine.disk.lose_power()
        machine.high_watermark = None
        self._stop(name, "crash")

    def restart(self, name: str) -> None:
        """Start a process on the node's disk, ending the one there is."""
        machine = self.engine.machines[name]
        if machine.process is not None:
            self.kill(name)
        for kind in ("kill", "crash", "wipe"):
            self._end_faults(kind, name)
        self.engine.start(machine)

    def wipe(self, name: str) -> None:
        """End the process and put an empty, formatted disk in the place of the node's."""
        machine = self.engine.machines[name]
        if machine.process is not None:
            self._stop(name, "stop")
        self._begin_fault("wipe", (name,))
        self.engine.lifecycle(machine, "wipe")
        directory_id = self.engine.decisions.directory_id(machine.disk.directory_id, self._fresh_directory_id())
        machine.disk = SimulatedDisk(directory_id)
        machine.config = replace(machine.config, me=ReplicaKey(machine.node_id, directory_id))
        machine.high_watermark = None
        self.engine.lifecycle(machine, "format")

    def pause(self, name: str) -> None:
        """Stop the process without ending it; what arrives waits."""
        machine = self.engine.machines[name]
        if machine.process is not None and machine.inbox is None:
            machine.inbox = []
            self.engine.lifecycle(machine, "pause")
            self._begin_fault("pause", (name,))

    def resume(self, name: str) -> None:
        """Let a paused process run on."""
        machine = self.engine.machines[name]
        self.engine.lifecycle(machine, "resume")
        self._end_faults("pause", name)
        self.engine.resume(machine)

    def _stop(self, name: str, kind: str) -> None:
        machine = self.engine.machines[name]
        if kind != "stop":
            self._begin_fault(kind, (name,))
        self.engine.end(machine)
        self.engine.lifecycle(machine, kind, "power cut" if kind == "crash" else "")
        self.engine.collect(machine)
        for asked in self.asked:
            if asked.node == name:
                self._give_up(asked)

    def _give_up(self, asked: Asked) -> None:
        """The connection is lost or the client has waited long enough: it knows nothing, and its process ends."""
        if asked.completion is None:
            asked.completion = Completion(Status.INFO, error="NO_ANSWER")
            self._processes.pop(asked.node, None)

    def _idle_process(self, node: str) -> int:
        running = self._processes.get(node)
        if running is not None and all(each.completion is not None for each in self.asked if each.process == running):
            return running
        self._processes[node] = self._next_process
        self._next_process += 1
        return self._processes[node]

    def _sample(self) -> None:
        for machine in self.engine.machines.values():
            if machine.inbox is None:
                self._ask_quorum(machine)
        self.engine.at(self.engine.now_ms + SAMPLE_EVERY_MS, self._sample)

    def _ask_quorum(self, machine: Machine) -> None:
        asked_ns = self.engine.now_ns()
        describe = DescribeQuorumRequest()
        self.engine.feed(machine, lambda node: core.on_request(node, asked_ns, describe, self.engine.now_ms))

    def _fresh_directory_id(self) -> str:
        return uuid_to_text(UUID(int=self._random.getrandbits(128), version=4))

    def _pair(self, text: str) -> tuple[str, str]:
        src, _, dst = text.partition(">")
        if src not in self.engine.machines or dst not in self.engine.machines or src == dst:
            raise ScriptError(f"{text!r} is no ordered pair of nodes (n1>n2)")
        return (src, dst)

    def _isolated(self) -> tuple[str, ...]:
        """Voters that have no majority of voters around them which they reach and are reached by."""
        cut = self.engine.network.cut
        voters = [name for name, machine in self.engine.machines.items() if machine.role == "voter"]
        near = {a: [b for b in voters if a == b or not {(a, b), (b, a)} & cut] for a in voters}
        return tuple(name for name in voters if len(near[name]) <= len(voters) // 2)

    def _begin_fault(
        self, fault: str, targets: tuple[str, ...], links: tuple[str, ...] = (), isolated: tuple[str, ...] = ()
    ) -> None:
        leader = self.leader()
        ns = self.engine.now_ns()
        epoch = self.node(leader).epoch if leader is not None else None
        row = FaultRow(len(self.faults), fault, targets, links, ns, ns, None, True, leader, epoch, isolated)
        self.faults.append(row)

    def _end_faults(self, fault: str, target: str | None = None, *, replaced: bool = False) -> None:
        for index, row in enumerate(self.faults):
            if row.fault == fault and row.ended_ns is None and (target is None or target in row.targets):
                self.faults[index] = replace(row, ended_ns=self.engine.now_ns(), replaced=replaced)


def _node_config(me: ReplicaKey, voters: Sequence[ReplicaKey], stage: Stage) -> NodeConfig:
    timers = stage.timers
    return NodeConfig(
        me=me,
        voters=tuple(voters),
        election_timeout_ms=timers.election_timeout_ms,
        election_jitter_ms=stage.election_jitter_ms,
        fetch_timeout_ms=timers.fetch_timeout_ms,
        check_quorum_ms=timers.check_quorum_ms,
        request_timeout_ms=timers.request_timeout_ms,
        fetch_max_wait_ms=min(timers.fetch_timeout_ms, timers.request_timeout_ms) // 3,
        fetch_max_records=stage.fetch_max_records,
    )
