"""The backend ``docker`` for the registry: see :class:`clusters.backends.backend.Backend`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from clusters.backends import ledger as ledgers
from clusters.backends.backend import Finding, Place, Planned
from clusters.backends.docker import marks
from clusters.backends.docker.cluster import DockerCluster, check_image
from clusters.backends.docker.doctor import doctor
from clusters.backends.docker.engine import check_privileges, connect
from clusters.backends.docker.image import base_tag
from clusters.backends.docker.network import free_subnet, node_addresses
from clusters.backends.local.plan import plan_nodes
from clusters.backends.loop_disk import mounts_below, unmount_below
from clusters.cluster import NodeSpec
from workloads.problem import Problem

_LATE_S = 1.0
_LATE_LIMIT_S = 15.0


def plan(run: Path, voters: int, observers: int, place: Place) -> Planned:
    """Each run has a subnet of its own. Raises Problem when the engine or the image cannot be used, before anything is made."""
    check_privileges()
    client = connect()
    try:
        version = str(client.version()["Version"])
        identity = check_image(client, place.image) if place.image is not None else ""
        subnet = free_subnet(client)
    finally:
        client.close()
    nodes = plan_nodes(run, voters, observers)
    addresses = node_addresses(subnet, len(nodes))
    moved = tuple(replace(node, address=address, host="docker") for node, address in zip(nodes, addresses, strict=True))
    kept = {"engine": version, "image": place.image or base_tag(), "subnet": str(subnet)}
    return Planned(moved, {**kept, "image_id": identity} if identity else kept)


def make(nodes: Sequence[NodeSpec], place: Place, ledger: Path | None = None) -> DockerCluster:
    """A cluster that is not up yet."""
    return DockerCluster(nodes, place.image, ledger, place.filesystem)


def examine(ledger: Path | None = None) -> list[Finding]:
    """Make, cut, use and remove two holders and a container."""
    return doctor(ledger)


def end(entry: ledgers.Entry) -> str | None:
    """Remove everything with the lab's label, and unmount the nodes' disks. Raises Problem when the engine cannot be asked.

    What a controller asked for in its last moment comes into being after its death, so it is looked for again until nothing has
    come for a while; what comes later still is found by :func:`strays`.
    """
    client = connect(entry.place.get("engine"))
    try:
        deadline = time.monotonic() + _LATE_LIMIT_S
        while True:
            problem = marks.remove(client, entry.lab)
            time.sleep(_LATE_S)
            if not marks.things(client, entry.lab):
                return unmount_below(Path(entry.run))
            if time.monotonic() > deadline:
                return problem or "the engine goes on making containers for it"
    finally:
        client.close()


def remains(entry: ledgers.Entry) -> Sequence[str]:
    """Containers and networks with the lab's label, mounts in the run's folder. Raises Problem when the engine cannot be asked."""
    client = connect(entry.place.get("engine"))
    try:
        mounts = (f"mount {place}" for place in mounts_below(Path(entry.run)))
        return (*marks.things(client, entry.lab), *mounts)
    finally:
        client.close()


def strays() -> Mapping[str, str]:
    """Lab → run of what dead controllers left on the engine, whether or not the ledger knows; empty where there is no engine."""
    try:
        client = connect()
    except Problem:
        return {}
    try:
        return marks.dead_labs(client)
    finally:
        client.close()
