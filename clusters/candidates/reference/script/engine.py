"""Nodes in virtual time: the same servers as on real machines, on a simulated clock, network and disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from clusters.candidates.reference.core.decisions import Decisions
from clusters.candidates.reference.script.clock import SimulatedClock, VirtualTime
from clusters.candidates.reference.script.disk import SimulatedDisk
from clusters.candidates.reference.script.network import OUTSIDE, Side, SimulatedNetwork
from clusters.candidates.reference.script.recorder import Recorder
from clusters.candidates.reference.server.configuration import ServerConfig
from clusters.candidates.reference.server.environment import Connection, Handler
from clusters.candidates.reference.server.server import Server, World
from clusters.collect import meta_properties
from clusters.collect.meta_properties import MetaProperties
from clusters.evidence.identity import node_name


@dataclass(slots=True, eq=False)
class Machine:
    """One node's place: its disk, and the process on it while there is one."""

    role: str
    config: ServerConfig
    directory_id: str
    """of the disk that is in it now"""
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    process: Process | None = None
    incarnation: int = -1
    collections: int = 0

    @property
    def name(self) -> str:
        """``n1``."""
        return node_name(self.config.node_id)


@dataclass(slots=True, eq=False)
class Process:
    """One life of a server. Also its network: :class:`..server.environment.Network`."""

    engine: Engine
    machine: Machine
    server: Server | None = None
    accept: Callable[[Connection], Handler] | None = None
    sides: list[Side] = field(default_factory=list)
    waiting: list[Callable[[], None]] | None = None
    """what arrived while it was paused; None while it is not"""

    @property
    def is_paused(self) -> bool:
        """Whether it does nothing until it is resumed."""
        return self.waiting is not None

    def run(self, callback: Callable[[], None]) -> None:
        """Call back as this process: later when it is paused, never when it is gone."""
        if self.machine.process is not self:
            return
        if self.waiting is not None:
            self.waiting.append(callback)
        else:
            callback()

    def listen(self, host: str, port: int, accept: Callable[[Connection], Handler]) -> None:
        """Accept connections to this node's name."""
        del host, port
        self.accept = accept

    def connect(self, host: str, port: int, handler: Handler) -> Connection:
        """Connect to another node by its name."""
        del port
        side = self.engine.connect(self.machine.name, host, self.run, handler)
        self.sides.append(side)
        return side

    def take(self, side: Side) -> None:
        """Somebody connects."""
        side.run = self.run
        self.sides.append(side)

        def accepted() -> None:
            if self.accept is not None:
                side.handler = self.accept(side)

        self.run(accepted)


@dataclass(slots=True)
class Engine:
    """All machines, and what moves them."""

    seed: int
    decisions: Decisions
    latency_ms: tuple[int, int]
    """least and greatest time of one frame"""
    recorder: Recorder = field(default_factory=Recorder)
    machines: dict[str, Machine] = field(default_factory=dict)
    time: VirtualTime = field(default_factory=VirtualTime)
    network: SimulatedNetwork = field(init=False)

    def __post_init__(self) -> None:
        chance = Random(f"{self.seed}/latency")
        self.network = SimulatedNetwork(self.time, lambda: chance.randint(*self.latency_ms))

    def connect(self, src: str, dst: str, run: Callable[[Callable[[], None]], None], handler: Handler) -> Side:
        """Connect to a node, or be refused where no process listens when the first frame arrives."""

        def accept(side: Side) -> bool:
            process = self.machines[dst].process
            if process is not None:
                process.take(side)
            return process is not None

        return self.network.connect(src, dst, run, handler, accept)

    def from_outside(self, node: str, handler: Handler) -> Side:
        """Connect to a node as a client or an operator does."""
        return self.connect(OUTSIDE, node, lambda callback: callback(), handler)

    def format(self, machine: Machine, directory_id: str) -> None:
        """Put an empty, formatted disk into a machine."""
        machine.disk = SimulatedDisk()
        machine.directory_id = directory_id
        properties = MetaProperties(machine.config.cluster_id, machine.config.node_id, directory_id)
        machine.disk.replace(
            meta_properties.NAME, meta_properties.write_meta_properties(properties).encode(), sync=True
        )
        self.lifecycle(machine, "format")

    def start(self, machine: Machine) -> None:
        """Start a server on the disk."""
        machine.incarnation += 1
        self.lifecycle(machine, "start")
        process = machine.process = Process(self, machine)
        number = machine.incarnation
        chance = Random(f"{self.seed}/{machine.name}/{number}")
        trace = self.recorder.open_trace(machine.name, machine.directory_id, number)
        world = World(
            clock=SimulatedClock(self.time, process.run),
            network=process,
            disk=machine.disk,
            draw=lambda greatest: chance.randint(0, greatest),
            write_trace=trace,
        )
        process.server = Server(msgspec.structs.replace(machine.config, incarnation=number), world)

    def end(self, machine: Machine) -> None:
        """The process is gone, whatever it was doing; its connections end."""
        process, machine.process = machine.process, None
        if process is not None:
            for side in process.sides:
                side.end()

    def pause(self, machine: Machine) -> None:
        """Let the process do nothing until it is resumed."""
        if machine.process is not None and machine.process.waiting is None:
            machine.process.waiting = []
            self.lifecycle(machine, "pause")

    def resume(self, machine: Machine) -> None:
        """Let a paused process run on: what came first is done first."""
        process = machine.process
        if process is None or process.waiting is None:
            return
        self.lifecycle(machine, "resume")
        waiting, process.waiting = process.waiting, None
        for callback in waiting:
            process.run(callback)

    def lifecycle(self, machine: Machine, kind: str, detail: str | None = None) -> None:
        """Record what was done to a node."""
        self.recorder.add(
            "lifecycle",
            node=machine.name,
            directory_id=machine.directory_id,
            assigned=False,
            incarnation=max(machine.incarnation, 0),
            kind=kind,
            ts_ns=self.time.now_ns(),
            detail=detail,
        )

    def collect(self, machine: Machine, reason: str, *, final: bool = False) -> None:
        """Copy the node's disk as evidence."""
        self.recorder.collect(
            machine.name,
            machine.directory_id,
            machine.disk.files(),
            incarnation=machine.incarnation,
            number=machine.collections,
            ts_ns=self.time.now_ns(),
            final=final,
            reason=reason,
        )
        machine.collections += 1
