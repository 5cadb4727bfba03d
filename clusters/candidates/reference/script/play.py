"""The words in which a script tells a quorum in virtual time what to do.

A play is deterministic: the seed draws election timeouts and latencies, nothing else is left to chance. The words that let
others act say so in their names (``run_ms``, ``run_until``); all others act at once. Clients stand outside of every
partition, as in a real run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from clusters.candidates.reference.core.defects import decisions
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.core.roles import State
from clusters.candidates.reference.script.asked import Asked, Processes, request
from clusters.candidates.reference.script.clock import WALL_MS
from clusters.candidates.reference.script.engine import Engine, Machine
from clusters.candidates.reference.script.faults import FaultLog, isolated
from clusters.candidates.reference.script.network import CLUSTER_ID, Hold, Message
from clusters.candidates.reference.script.samples import REQUEST, Sample
from clusters.candidates.reference.server.configuration import NodeAddress, ServerConfig
from clusters.evidence.identity import node_name, uuid_to_text
from workloads.history.manifest import Timers
from workloads.history.operation import Completion, Consistency, Invocation, Phase, Status

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
        """Format and start every node. Raises Problem for an unknown defect."""
        self.stage = stage
        names = tuple(defects)
        self._chance = Random(f"{seed}/directory-ids")
        self.engine = Engine(seed, decisions(names), stage.latency_ms)
        self.asked: list[Asked] = []
        self.faults = FaultLog(self.engine.time.now_ns, self._leader_and_epoch)
        self.phase = Phase.LOAD
        self._processes = Processes()
        for config in _configurations(stage, seed, names, self._fresh_directory_id):
            role = "voter" if config.node_id <= stage.voters else "observer"
            machine = Machine(role, config, config.nodes[config.node_id - 1].directory_id)
            self.engine.machines[machine.name] = machine
            self.engine.format(machine, machine.directory_id)
        for machine in self.engine.machines.values():
            self.engine.start(machine)
        self._sample()

    @property
    def nodes(self) -> Sequence[str]:
        """All names."""
        return tuple(self.engine.machines)

    def node(self, name: str) -> Replica:
        """The protocol's state at a node, to look at. Raises ScriptError when its process is not running."""
        process = self.engine.machines[name].process
        if process is None or process.server is None:
            raise ScriptError(f"{name} is not running")
        return process.server.replica

    def leader(self) -> str | None:
        """The node that leads the highest epoch, if one does."""
        leading = self._leader_and_epoch()
        return None if leading is None else leading[0]

    def _leader_and_epoch(self) -> tuple[str, int] | None:
        running = [name for name, machine in self.engine.machines.items() if machine.process is not None]
        leading = [(self.node(name).epoch, name) for name in running if self.node(name).state is State.LEADER]
        return (max(leading)[1], max(leading)[0]) if leading else None

    def run_ms(self, duration_ms: int) -> None:
        """Let everybody act for so long."""
        until_ms = self.engine.time.now_ms + duration_ms
        for _ in range(STEP_LIMIT):
            if not self.engine.time.step(until_ms):
                return
        raise ScriptError(f"more than {STEP_LIMIT} events in {duration_ms} ms of virtual time")

    def run_until(self, condition: Callable[[], object], within_ms: int = 20_000, what: str = "") -> None:
        """Let everybody act until something is so. Raises ScriptError when it is not within the time."""
        until_ms = self.engine.time.now_ms + within_ms
        for _ in range(STEP_LIMIT):
            if condition():
                return
            if not self.engine.time.step(until_ms):
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
        time = self.engine.time
        process = self._processes.idle(node)
        asked = Asked(len(self.asked), process, node, invocation, time.now_ns(), self.phase, time.now_ns)
        self.asked.append(asked)
        self._processes.last[node] = asked
        if self.engine.machines[node].process is None:
            asked.completion, asked.completed_ns = REFUSED, time.now_ns()
            return asked
        side = self.engine.from_outside(node, asked)
        side.send(request(invocation, timeout_ms, WALL_MS + time.now_ms))
        time.at(time.now_ms + timeout_ms + 500, asked.closed)
        return asked

    def cut(self, *pairs: str) -> None:
        """Cut ordered pairs, given as ``n1>n2``; everything else is open from now on."""
        self.faults.end("partition", replaced=True)
        self.engine.network.cut = {_pair(pair, self.nodes) for pair in pairs}
        self.engine.network.pump()
        voters = [name for name, machine in self.engine.machines.items() if machine.role == "voter"]
        without_majority = isolated(voters, self.engine.network.cut)
        self.faults.begin("partition", links=tuple(sorted(pairs)), isolated=without_majority)

    def split(self, *sides: Sequence[str]) -> None:
        """Cut every pair whose nodes are on different sides; a node that is named on no side is alone."""
        named = {name for side in sides for name in side}
        groups = [*map(set, sides), *({name} for name in self.nodes if name not in named)]
        self.cut(*(f"{a}>{b}" for one in groups for other in groups if one is not other for a in one for b in other))

    def heal(self) -> None:
        """Open every link."""
        self.engine.network.cut = set()
        self.engine.network.pump()
        self.faults.end("partition")

    def hold(self, kind: str, src: str, dst: str, when: Callable[[Message], bool] | None = None) -> Hold:
        """Keep back messages of one kind (``Vote``, ``VoteResponse``, ``Fetch``, …) on one ordered pair."""
        hold = Hold(kind, src, dst, when)
        self.engine.network.holds.append(hold)
        return hold

    def release(self, hold: Hold) -> None:
        """Deliver what was kept back, in its order, and keep nothing back any more."""
        self.engine.network.release(hold)

    def drop(self, hold: Hold) -> None:
        """Lose what was kept back, and keep nothing back any more."""
        self.engine.network.drop(hold)

    def kill(self, name: str) -> None:
        """End the process; the disk keeps everything that was written."""
        self._stop(name, "kill")

    def power_cut(self, name: str) -> None:
        """End the process; the disk keeps only what was synced."""
        self.engine.machines[name].disk.lose_power()
        self._stop(name, "power-cut")

    def restart(self, name: str) -> None:
        """Start a process on the node's disk, ending the one there is."""
        machine = self.engine.machines[name]
        if machine.process is not None:
            self.kill(name)
        for kind in ("kill", "power-cut", "wipe"):
            self.faults.end(kind, name)
        self.engine.start(machine)

    def wipe(self, name: str) -> None:
        """End the process and put an empty, formatted disk in the place of the node's."""
        machine = self.engine.machines[name]
        if machine.process is not None:
            self._stop(name, "stop")
        self.faults.begin("wipe", (name,))
        self.engine.lifecycle(machine, "wipe")
        planned = machine.config.nodes[machine.config.node_id - 1].directory_id
        self.engine.format(machine, self.engine.decisions.directory_id(planned, self._fresh_directory_id()))

    def pause(self, name: str) -> None:
        """Stop the process without ending it; what arrives waits."""
        machine = self.engine.machines[name]
        if machine.process is not None and not machine.process.is_paused:
            self.faults.begin("pause", (name,))
            self.engine.pause(machine)

    def resume(self, name: str) -> None:
        """Let a paused process run on."""
        self.faults.end("pause", name)
        self.engine.resume(self.engine.machines[name])

    def _stop(self, name: str, kind: str) -> None:
        machine = self.engine.machines[name]
        if kind != "stop":
            self.faults.begin(kind, (name,))
        self.engine.end(machine)
        self.engine.lifecycle(machine, "kill" if kind == "power-cut" else kind)
        if kind == "power-cut":
            self.engine.lifecycle(machine, kind)
        self.engine.collect(machine, kind)

    def _sample(self) -> None:
        time, recorder = self.engine.time, self.engine.recorder
        for name, machine in self.engine.machines.items():
            if machine.process is not None and not machine.process.is_paused:
                sample = Sample(name, time.now_ns(), time.now_ns, lambda row: recorder.add("quorum_samples", **row))
                self.engine.from_outside(name, sample).send(REQUEST)
        time.at(time.now_ms + SAMPLE_EVERY_MS, self._sample)

    def _fresh_directory_id(self) -> str:
        return uuid_to_text(UUID(int=self._chance.getrandbits(128), version=4))


def _pair(text: str, nodes: Collection[str]) -> tuple[str, str]:
    src, _, dst = text.partition(">")
    if src not in nodes or dst not in nodes or src == dst:
        raise ScriptError(f"{text!r} is no ordered pair of nodes (n1>n2)")
    return (src, dst)


REFUSED = Completion(Status.FAIL, error="CONNECTION_REFUSED")


def _configurations(
    stage: Stage, seed: int, defects: tuple[str, ...], directory_id: Callable[[], str]
) -> list[ServerConfig]:
    timers = stage.timers
    nodes = tuple(
        NodeAddress(
            node_id=number, host=node_name(number), port=9093, directory_id=directory_id(), voter=number <= stage.voters
        )
        for number in range(1, stage.voters + stage.observers + 1)
    )
    return [
        ServerConfig(
            node_id=each.node_id,
            incarnation=0,
            cluster_id=CLUSTER_ID,
            data_directory=each.name,
            trace_path="",
            nodes=nodes,
            election_timeout_ms=timers.election_timeout_ms,
            election_jitter_ms=stage.election_jitter_ms,
            fetch_timeout_ms=timers.fetch_timeout_ms,
            check_quorum_ms=timers.check_quorum_ms,
            request_timeout_ms=timers.request_timeout_ms,
            fetch_max_wait_ms=min(timers.fetch_timeout_ms, timers.request_timeout_ms) // 3,
            fetch_max_records=stage.fetch_max_records,
            seed=seed,
            defects=defects,
        )
        for each in nodes
    ]
