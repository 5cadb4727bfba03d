"""One replica as a server: the protocol core between clock, network and disk.

Whatever is ready in one turn of the loop goes into the core first; then one :meth:`Server.execute` carries out all that it wants done.
That is how one fsync serves many operations. Nothing here waits, and nothing here decides anything of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clusters.candidates.reference.core import node as core
from clusters.candidates.reference.core.defects import decisions
from clusters.candidates.reference.core.effects import Effects
from clusters.candidates.reference.core.messages import PeerResponse, Request
from clusters.candidates.reference.core.replica import Replica
from clusters.candidates.reference.server.calls import Call, Caller
from clusters.candidates.reference.server.configuration import ServerConfig
from clusters.candidates.reference.server.environment import Clock, Connection, Disk, Network, Timer
from clusters.candidates.reference.server.peer_messages import Local
from clusters.candidates.reference.server.peers import Peers
from clusters.candidates.reference.server.services import Surroundings
from clusters.candidates.reference.server.storage import Storage
from clusters.candidates.reference.server.trace import Trace, Write
from clusters.collect import meta_properties
from clusters.collect.trace_head import TraceHead
from workloads.problem import Problem


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside of a server."""

    clock: Clock
    network: Network
    disk: Disk
    draw: Callable[[int], int]
    """a whole number from 0 to the given one, both included: the only chance there is"""
    write_trace: Write
    """hands bytes to the kernel: they survive the death of the process"""


class Server:
    """One running replica. An exception out of any callback means that the process must end at once, as after a crash."""

    def __init__(self, config: ServerConfig, world: World) -> None:
        """Recover from disk. Raises Problem for a disk that is not this node's or cannot be trusted."""
        me = config.node(config.node_id)
        if me is None:
            raise Problem("unknown-node", f"Node {config.node_id} is not in its own configuration.", usage=True)
        self._world = world
        self._is_closing = False
        self._turn_is_due = False
        self._timer: Timer | None = None
        self._timer_ms = -1
        self._answered: dict[Caller, None] = {}
        directory_id = _directory_id(config, world.disk)
        local = Local(config.cluster_id, config.node_id, me.host, me.port, config.request_timeout_ms)
        self._around = Surroundings(local, config.nodes, world.clock.wall_ms)
        self._storage = Storage(world.disk, config.segment_bytes)
        recovered = self._storage.recover()
        head = TraceHead(node=me.name, directory_id=directory_id, incarnation=config.incarnation)
        self._trace = Trace(world.write_trace, head)
        self._peers = Peers(
            world.clock, world.network, local, {each.node_id: (each.host, each.port) for each in config.nodes}
        )
        self._peers.answered = self._on_answer
        self._peers.failed = self._on_failure
        self._node = core.start(
            config.core(directory_id), recovered, self._now_ms(), world.draw, decisions(config.defects)
        )
        world.network.listen(me.host, me.port, self._accept)
        self._plan_turn()

    @property
    def replica(self) -> Replica:
        """The protocol's state, to look at."""
        return self._node

    def shut_down(self, done: Callable[[], None]) -> None:
        """Resign, answer what is pending, and call back when that is sent."""
        if not self._is_closing:
            self._is_closing = True
            core.on_shutdown(self._node, self._now_ms())
            self._turn()
            self._world.clock.soon(done)

    def close(self) -> None:
        """Give connections and files back."""
        self._peers.close()
        self._storage.close()

    def execute(self, effects: Effects) -> None:
        """Carry out effects in the order that the core obliges to: disk, then trace, then messages."""
        if effects.persist:
            self._storage.persist(effects.persist, self._around.wall_ms())
        if effects.trace:
            self._trace.add(effects.trace, self._world.clock.now_ns())
        for outgoing in effects.send:
            self._peers.send(outgoing)
        for reply in effects.reply:
            call = reply.token
            assert isinstance(call, Call)
            call.caller.answer(call, reply.response)
            self._answered[call.caller] = None
        for caller in self._answered:
            caller.flush()
        self._answered.clear()

    def _accept(self, connection: Connection) -> Caller:
        return Caller(connection, self._around, self._on_request, self._on_disconnect)

    def _now_ms(self) -> int:
        return self._world.clock.now_ns() // 1_000_000

    def _on_request(self, call: Call, request: Request) -> None:
        core.on_request(self._node, call, request, self._now_ms())
        self._plan_turn()

    def _on_disconnect(self, caller: Caller, pending: set[Call]) -> None:
        del caller
        for call in pending:
            core.on_disconnect(self._node, call)

    def _on_answer(self, correlation: int, response: PeerResponse) -> None:
        core.on_response(self._node, correlation, response, self._now_ms())
        self._plan_turn()

    def _on_failure(self, correlation: int) -> None:
        core.on_failure(self._node, correlation, self._now_ms())
        self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self._world.clock.soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        if core.deadline_ms(self._node) <= self._now_ms():
            core.on_tick(self._node, self._now_ms())
        effects = core.take(self._node)
        if effects:
            self.execute(effects)
        self._plan_timer()

    def _plan_timer(self) -> None:
        due_ms = core.deadline_ms(self._node)
        if self._timer is not None and due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._world.clock.at_ms(due_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._plan_turn()


def _directory_id(config: ServerConfig, disk: Disk) -> str:
    data = disk.read(meta_properties.NAME)
    if data is None:
        raise Problem(
            "not-formatted", f"{config.data_directory} has no {meta_properties.NAME}.", "Format the node's disk first."
        )
    properties = meta_properties.parse_meta_properties(data, meta_properties.NAME)
    if (properties.cluster_id, properties.node_id) != (config.cluster_id, config.node_id):
        raise Problem(
            "foreign-disk",
            f"{config.data_directory} belongs to node {properties.node_id} of cluster {properties.cluster_id}.",
            f"Start node {config.node_id} of cluster {config.cluster_id} on its own disk.",
        )
    if properties.directory_id is None:
        raise Problem("foreign-disk", f"{config.data_directory} has no directory id.", "Format the node's disk anew.")
    return properties.directory_id
