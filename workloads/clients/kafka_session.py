"""What all clients of one run of Kafka know together: the cluster, who leads it, and the broker that they pretend to be.

Controllers serve most mutating requests to registered brokers alone, so the clients register one that does not exist; the
quorum's session timeout is longer than any run, so that it needs no heartbeats. A NOT_CONTROLLER answer names no leader:
the clients ask every node who leads (DescribeQuorum), and the claim of the highest epoch wins. Requests of this kind carry no
operation: they may be repeated, and nothing of them is recorded.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from kio.schema.api_versions.v0.response import ApiVersionsResponse

from clusters.wire.problems import WireError
from workloads.clients.client import Connect
from workloads.clients.connection import Connection, Unanswered, Unsent
from workloads.clients.deadlines import Deadlines
from workloads.clients.kafka_requests import (
    Broker,
    DescribeQuorumResponse,
    api_versions,
    claimed_epoch,
    describe_leader,
    register_broker,
    registration_version,
)

BROKER_ID = 1000
"""the broker that the clients pretend to be; controllers have one digit"""
_INCARNATION = UUID("1c6b0f7e-2d0b-4c58-9b7a-6a1f0e5d3c21")
_ASK_TIMEOUT_S = 0.5
"""how long a node that does not answer (paused, say) delays the search for the leader"""


class NotReady(Exception):
    """The operation was not sent, because what has to come before it failed. ``error`` says how."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class Session:
    """Shared by the clients of one run; belongs to one event loop."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.deadlines = Deadlines()
        self._leader: str | None = None
        self._leader_epoch = -1
        self._search: asyncio.Lock | None = None
        self._registering: asyncio.Lock | None = None
        self._broker: Broker | None = None
        self._registration_version: int | None = None

    async def leader(self, connect: Connect, nodes: tuple[str, ...], timeout_s: float) -> str | None:
        """The node that leads as far as is known; asks all of them when nobody knows. None when no node claims to lead."""
        if self._search is None:
            self._search = asyncio.Lock()
        async with self._search:
            if self._leader is None:
                self._leader, self._leader_epoch = await self._ask_all(connect, nodes, min(timeout_s, _ASK_TIMEOUT_S))
            return self._leader

    def forget_leader(self, node: str) -> None:
        """``node`` answered with an error or not at all: the next operation of anybody asks anew."""
        if self._leader == node:
            self._leader = None

    async def _ask_all(self, connect: Connect, nodes: tuple[str, ...], timeout_s: float) -> tuple[str | None, int]:
        claims = await asyncio.gather(*(self._ask(connect, node, timeout_s) for node in nodes))
        leading = [(epoch, node) for node, epoch in zip(nodes, claims, strict=True) if epoch is not None]
        if not leading:
            return None, -1
        epoch, node = max(leading)
        return node, epoch

    async def _ask(self, connect: Connect, node: str, timeout_s: float) -> int | None:
        connection = Connection(connect, node, self.deadlines, "nemesis-leader")
        try:
            return claimed_epoch(await connection.request(describe_leader(), DescribeQuorumResponse, timeout_s))
        except (Unsent, Unanswered):
            return None
        finally:
            connection.drop()

    async def registration(self, connection: Connection, timeout_s: float) -> int:
        """The version of BrokerRegistration that the quorum takes. Raises :class:`NotReady`."""
        if self._registration_version is None:
            try:
                answer = await connection.request(api_versions(), ApiVersionsResponse, timeout_s)
                self._registration_version = registration_version(answer)
            except (Unsent, Unanswered) as error:
                raise NotReady(error.trouble) from error
            except WireError as error:
                raise NotReady("no-broker-registration") from error
        return self._registration_version

    async def broker(self, connection: Connection, timeout_s: float) -> Broker:
        """The registered broker; the first caller registers it through its own connection. Raises :class:`NotReady`."""
        if self._registering is None:
            self._registering = asyncio.Lock()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        async with self._registering:
            if self._broker is None:
                version = await self.registration(connection, end_s - loop.time())
                request, response = register_broker(version, self.cluster_id, BROKER_ID, _INCARNATION)
                try:
                    answer = await connection.request(request, response, end_s - loop.time())
                except (Unsent, Unanswered) as error:
                    raise NotReady(error.trouble) from error
                if answer.error_code:
                    raise NotReady(f"registration-{answer.error_code.name}")
                self._broker = Broker(BROKER_ID, int(answer.broker_epoch))
            return self._broker
