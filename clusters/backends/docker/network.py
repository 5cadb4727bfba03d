"""The network of a run: an internal one of the engine, a holder of a namespace for each node, and the links between them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import random
import selectors
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

from clusters.backends import ledger as ledgers
from clusters.backends.docker import marks
from clusters.backends.docker.engine import check_privileges, engine_calls
from clusters.backends.docker.filters import Filters
from clusters.backends.docker.image import ensure_holder
from clusters.backends.local.namespaces import enter_network, network_descriptor
from clusters.backends.netfilter import netlink_socket
from clusters.backends.probes import Probes
from clusters.cluster import NodeSpec
from clusters.links import Links, Pair
from workloads.problem import Problem

_SUBNETS = ipaddress.IPv4Network("10.78.0.0/16")
"""each run takes a /24 of it that nobody has"""
_GATEWAY = -2
"""the last address of a subnet but one: the host's own on the bridge, where clients come from"""
_HOLDER_PATIENCE_S = 10.0
_HOLDER_POLL_S = 0.02
_NO_IPV6 = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}


def free_subnet(client: Any) -> ipaddress.IPv4Network:
    """A subnet that no network of the engine and no route of this machine has; by chance, since others choose at the same time."""
    with engine_calls("list networks"):
        networks = client.api.networks()
    taken = [
        ipaddress.ip_network(each["Subnet"], strict=False)
        for network in networks
        for each in ((network.get("IPAM") or {}).get("Config") or [])
        if each.get("Subnet")
    ]
    taken += _routes()
    free = [
        subnet
        for subnet in _SUBNETS.subnets(new_prefix=24)
        if not any(other.version == 4 and other.prefixlen and subnet.overlaps(other) for other in taken)
    ]
    if not free:
        raise Problem(
            "no-subnet-left",
            f"Every subnet of {_SUBNETS} is taken on this machine.",
            "`nemesis clean` removes networks that dead runs left; see `ip route`.",
        )
    return random.SystemRandom().choice(free)


def node_addresses(subnet: ipaddress.IPv4Network, count: int) -> list[str]:
    """The addresses of nodes 1, 2, …"""
    return [str(subnet[number]) for number in range(1, count + 1)]


class Network:
    """Holders, namespaces, filters and probes of one run. Safe to call from any thread."""

    def __init__(self, client: Any, entry: ledgers.Entry, nodes: Sequence[NodeSpec]) -> None:
        self._client = client
        self._entry = entry
        self._addresses = {node.name: node.address for node in nodes}
        subnet = ipaddress.ip_network(f"{nodes[0].address}/24", strict=False)
        self._subnet, self._gateway = str(subnet), str(subnet[_GATEWAY])
        self._home = network_descriptor()
        self._holders: dict[str, str] = {}
        self._namespaces: dict[str, int] = {}
        self._filters: dict[str, Filters] = {}
        self._selector = selectors.DefaultSelector()
        self._probes = Probes(self)
        self._links = threading.Lock()
        self._probing = threading.Lock()

    @property
    def addresses(self) -> Mapping[str, str]:
        """Node → address."""
        return self._addresses

    def holder(self, node: str) -> str:
        """The id of the container whose network namespace is the node's."""
        return self._holders[node]

    def build(self) -> None:
        """Make everything, and see that every datagram arrives. Raises Problem."""
        check_privileges()
        image = ensure_holder(self._client)
        with engine_calls("make an internal network"):
            self._client.api.create_network(
                self._entry.lab,
                driver="bridge",
                internal=True,
                enable_ipv6=False,
                labels=marks.labels(self._entry),
                ipam={"Config": [{"Subnet": self._subnet, "Gateway": self._gateway}]},
            )
        with ThreadPoolExecutor(len(self._addresses)) as pool:
            for node, holder in pool.map(lambda node: (node, self._hold(node, image)), self._addresses):
                self._holders[node] = holder
        for node in self._addresses:
            self._enter(node)
        for sock, node in self._probes.build().items():
            self._selector.register(sock, selectors.EVENT_READ, node)
        pairs: list[Pair] = list(permutations(self._addresses, 2))
        silent = [pair for pair, arrived in self.probe(pairs).items() if not arrived]
        if silent:
            raise Problem(
                "containers-not-connected",
                f"A datagram from {silent[0][0]} to {silent[0][1]} does not arrive on the engine's network.",
                "Look for a packet filter of this machine that applies to bridges (`sysctl net.bridge.bridge-nf-call-iptables`).",
            )

    @contextlib.contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are the node's."""
        enter_network(self._namespaces[node])
        try:
            yield
        finally:
            enter_network(self._home)

    def enter(self, node: str) -> None:
        """Take the calling thread, for good, into the node's namespace."""
        enter_network(self._namespaces[node])

    def cut(self, links: Links) -> None:
        """Make the matrix. Every node's change is one transaction; those that cut more come first, so that nothing slips through."""
        sources = {
            node: sorted(self._addresses[source] for source, destination in links.cut if destination == node)
            for node in self._addresses
        }
        with self._links:
            for node in sorted(sources, key=lambda node: -len(sources[node])):
                self._filters[node].cut(sources[node])

    def probe(self, pairs: Sequence[Pair]) -> dict[Pair, bool]:
        """Whether a datagram arrives, for each pair; at most 0.15 s for all of them."""
        answers: list[list[bool]] = []
        if not pairs:
            return {}
        with self._probing:
            self._probes.ask(pairs, answers.append)
            while not answers:
                for key, _ in self._selector.select(self._probes.tick() or 0.0):
                    self._probes.receive(key.data)
        return dict(zip(pairs, answers[0], strict=True))

    def close(self) -> None:
        """Give back the descriptors; what the engine made is removed by :func:`.marks.remove`."""
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        for filters in self._filters.values():
            filters.close()
        for descriptor in (*self._namespaces.values(), self._home):
            os.close(descriptor)

    def _hold(self, node: str, image: str) -> str:
        api = self._client.api
        network = self._entry.lab
        with engine_calls(f"make the holder of {node}"):
            made = api.create_container(
                image,
                entrypoint=["/hold"],
                name=f"{network}-{node}-holder",
                labels=marks.labels(self._entry),
                networking_config=api.create_networking_config(
                    {network: api.create_endpoint_config(ipv4_address=self._addresses[node])}
                ),
                host_config=api.create_host_config(
                    network_mode=network,
                    sysctls=_NO_IPV6,
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges"],
                    # A user namespace of the engine's would give the nodes, which share this one's network, other owners of files.
                    userns_mode="host",
                    log_config={"Type": "none"},
                ),
            )
            api.start(made["Id"])
        return str(made["Id"])

    def _enter(self, node: str) -> None:
        """Keep the holder's namespace open and close its ways out, before anything else runs in it."""
        with engine_calls(f"look at the holder of {node}"):
            pid = int(self._client.api.inspect_container(self._holders[node])["State"]["Pid"])
        try:
            if pid == 0 or not _becomes_holder(pid):
                raise ProcessLookupError(f"process {pid} is not the holder")
            self._namespaces[node] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            with self.inside(node):
                sock = netlink_socket()
        except OSError as error:
            raise Problem(
                "engine-not-local",
                f"The network namespace of a container cannot be entered: {error}.",
                "The engine must run on this machine and this command as root, outside of any container of its own.",
            ) from error
        self._filters[node] = Filters(sock)
        self._filters[node].build(self._addresses.values(), self._gateway)


def _routes() -> list[ipaddress.IPv4Network]:
    """The destinations of this machine's routes, the default route left out."""
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        address, netmask = (int.from_bytes(bytes.fromhex(text), "little") for text in (destination, mask))
        if netmask:
            found.append(ipaddress.ip_network((address, netmask.bit_count())))
    return [network for network in found if isinstance(network, ipaddress.IPv4Network)]


def _becomes_holder(pid: int) -> bool:
    """Wait until a process is the holder: the engine tells its id while the runtime's own program still prepares the container."""
    deadline = time.monotonic() + _HOLDER_PATIENCE_S
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/hold"):
        if time.monotonic() > deadline:
            return False
        time.sleep(_HOLDER_POLL_S)
    return True
