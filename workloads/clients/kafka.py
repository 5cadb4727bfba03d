"""Clients of the candidate ``kafka``: which workloads they serve on controllers alone, and how a run makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workloads.clients.client import ClientFactory, Connect
from workloads.clients.kafka_controller import KafkaClient
from workloads.clients.kafka_session import Session


class KafkaClients:
    """The ClientFactory of one run. ``cluster_id`` is the one that the disks were formatted with: registrations name it."""

    def __init__(self, cluster_id: str) -> None:
        self._session = Session(cluster_id)

    def __call__(self, connect: Connect, nodes: tuple[str, ...], pinned_to: str | None, process: int) -> KafkaClient:
        """Make the client of one process."""
        return KafkaClient(connect, nodes, pinned_to, process, self._session)


KAFKA_CLIENTS: Mapping[str, Callable[[str], ClientFactory]] = {
    "counter": KafkaClients,
    "register": KafkaClients,
    "log": KafkaClients,
}
"""workload → (cluster id → factory); make one factory for each run"""
