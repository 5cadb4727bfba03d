"""A client of Kafka's controllers: one attempt an operation, on one node.

==========  =========  ====================================================================================
workload    f          request, and what the answer means
==========  =========  ====================================================================================
counter     add        AllocateProducerIds: the first id of a block of 1000; linearizable, leader only
register    write      IncrementalAlterConfigs on every broker's default; its position is read from the disks
register    read       DescribeConfigs: the asked controller's published state; committed, stale
log         append     BrokerRegistration of a broker that carries the value; the broker epoch is the offset
log         poll       Fetch of the metadata partition, cut at the high watermark; leader only, stale
==========  =========  ====================================================================================

A pinned client asks its node whatever it answers. A following one sends what only a leader serves to the leader that the run's
:class:`Session` knows, and reads to the node that it began at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

from clusters.wire.metadata_records import incarnation_of
from clusters.wire.problems import WireError
from workloads.clients.client import Connect
from workloads.clients.connection import Connection, Unanswered, Unsent
from workloads.clients.kafka_requests import (
    PRODUCER_ID_BLOCK,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    FetchResponse,
    IncrementalAlterConfigsResponse,
    allocate,
    claimed_epoch,
    describe_leader,
    fetch,
    fetched,
    get_register,
    register_broker,
    register_value,
    set_error,
    set_register,
)
from workloads.clients.kafka_session import NotReady, Session
from workloads.error_table import Trouble, completion, trouble
from workloads.history.operation import Completion, Invocation, Status

OUT_OF_RANGE = "offset-out-of-range"
_NOT_LEADER = 6
_READS = frozenset({"read", "poll"})
_ANY_NODE = frozenset({"read"})
_FIRST_APPENDER = 1_000_000
"""broker ids above this are appended values"""
_POLL_PARTS_MAX = 64


class KafkaClient:
    """One process's client."""

    def __init__(
        self, connect: Connect, nodes: tuple[str, ...], pinned_to: str | None, process: int, session: Session
    ) -> None:
        self._connect = connect
        self._nodes = nodes
        self._pinned = pinned_to is not None
        self._home = pinned_to or nodes[process % len(nodes)]
        self._node = self._home
        self._name = f"nemesis-{process}"
        self._session = session
        self._connections: dict[str, Connection] = {}
        self._epochs: dict[str, int] = {}
        self._serve: Mapping[str, Callable[[Connection, Invocation, float], Awaitable[Completion]]] = {
            "add": self._add,
            "write": self._write,
            "read": self._read,
            "append": self._append,
            "poll": self._poll,
        }

    @property
    def node(self) -> str:
        """The node that the next operation will be sent to, as far as is known before it is looked for."""
        return self._node

    async def invoke(self, invocation: Invocation, timeout_s: float) -> Completion:
        """Send one operation once and say how it ended."""
        serve = self._serve[invocation.f]
        mutating = invocation.f not in _READS
        end_s = asyncio.get_running_loop().time() + timeout_s
        node = await self._find(invocation.f, timeout_s)
        if node is None:
            return trouble(Trouble.NO_LEADER, mutating=mutating)
        self._node = node
        try:
            done = await serve(self._to(node), invocation, end_s)
        except NotReady as error:
            done = Completion(Status.FAIL, error=error.error, node=node)
        except (Unsent, Unanswered) as error:
            done = trouble(error.trouble, mutating=mutating, node=node)
        except WireError:
            self._to(node).drop()
            done = trouble(Trouble.GARBLED, mutating=mutating, node=node)
        if done.error is not None and done.error != OUT_OF_RANGE:
            self._session.forget_leader(node)
            self._epochs.pop(node, None)
        return done

    async def close(self) -> None:
        """Drop the connections."""
        for connection in self._connections.values():
            connection.drop()

    async def _find(self, f: str, timeout_s: float) -> str | None:
        if self._pinned or f in _ANY_NODE:
            return self._home
        return await self._session.leader(self._connect, self._nodes, timeout_s)

    def _to(self, node: str) -> Connection:
        if node not in self._connections:
            self._connections[node] = Connection(self._connect, node, self._session.deadlines, self._name)
        return self._connections[node]

    async def _add(self, connection: Connection, invocation: Invocation, end_s: float) -> Completion:
        if invocation.input != (PRODUCER_ID_BLOCK,):
            raise ValueError(f"a block of producer ids is {PRODUCER_ID_BLOCK}, not {invocation.input}")
        broker = await self._session.broker(connection, _left_s(end_s))
        answer = await connection.request(allocate(broker), AllocateProducerIdsResponse, _left_s(end_s))
        if not answer.error_code and int(answer.producer_id_len) != PRODUCER_ID_BLOCK:
            raise WireError(f"a block of {answer.producer_id_len} producer ids")
        output = (int(answer.producer_id_start),)
        return completion(int(answer.error_code), mutating=True, output=output, node=connection.node)

    async def _write(self, connection: Connection, invocation: Invocation, end_s: float) -> Completion:
        request = set_register(_key(invocation), invocation.input[0])
        answer = await connection.request(request, IncrementalAlterConfigsResponse, _left_s(end_s))
        return completion(set_error(answer), mutating=True, node=connection.node)

    async def _read(self, connection: Connection, invocation: Invocation, end_s: float) -> Completion:
        key = _key(invocation)
        answer = await connection.request(get_register(key), DescribeConfigsResponse, _left_s(end_s))
        code, value = register_value(answer, key)
        return completion(code, mutating=False, output=() if value is None else (value,), node=connection.node)

    async def _append(self, connection: Connection, invocation: Invocation, end_s: float) -> Completion:
        value = invocation.input[0]
        version = await self._session.registration(connection, _left_s(end_s))
        request, response = register_broker(
            version, self._session.cluster_id, _FIRST_APPENDER + value, incarnation_of(value)
        )
        answer = await connection.request(request, response, _left_s(end_s))
        return completion(int(answer.error_code), mutating=True, offset=int(answer.broker_epoch), node=connection.node)

    async def _poll(self, connection: Connection, invocation: Invocation, end_s: float) -> Completion:
        """Fetch once; an answer that holds no appended value, below its high watermark, is read on from there."""
        position = invocation.input[0]
        node = connection.node
        epoch = self._epochs.get(node)
        if epoch is None:
            told = await connection.request(describe_leader(), DescribeQuorumResponse, _left_s(end_s))
            epoch = claimed_epoch(told)
            if epoch is None:
                return completion(_NOT_LEADER, mutating=False, node=node)
            self._epochs[node] = epoch
        for _ in range(_POLL_PARTS_MAX):
            request = fetch(position, epoch, self._session.cluster_id)
            got = fetched(await connection.request(request, FetchResponse, _left_s(end_s)), position)
            if got.behind:
                return Completion(Status.FAIL, error=OUT_OF_RANGE, node=node)
            if got.error_code or got.appended or not position < got.next_offset < got.high_watermark:
                break
            position = got.next_offset
        output = tuple(number for pair in got.appended for number in pair)
        return completion(
            got.error_code, mutating=False, output=output, offset=got.high_watermark, epoch=epoch, node=node
        )


def _key(invocation: Invocation) -> int:
    if invocation.key is None:
        raise ValueError(f"{invocation.f} needs a key")
    return invocation.key


def _left_s(end_s: float) -> float:
    return max(0.001, end_s - asyncio.get_running_loop().time())
