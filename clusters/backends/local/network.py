"""The lab's network, seen from the agent: a namespace for each node, joined by the agent's own namespace as the router.

Each node has one address on one virtual cable; its only neighbour is the router, so every packet between two nodes is routed
here and a link is cut by a routing rule for its two addresses: ``from A to B: blackhole``. The router has no other interface.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from clusters.backends.local.namespaces import CLONE_NEWNET, enter_network, network_descriptor, not_permitted, unshare
from clusters.backends.local.plan import ROUTER_ADDRESS
from clusters.links import Pair
from workloads.problem import Problem

_RULE_PRIORITY = 100


class Network:
    """Node namespaces, cables and cut links. The namespaces live as long as this object's descriptors are open."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self.addresses = dict(addresses)
        self.cut: frozenset[Pair] = frozenset()
        self._home = network_descriptor()
        self._namespaces: dict[str, int] = {}
        self._routes: IPRoute | None = None

    def build(self) -> None:
        """Make everything. Raises Problem ``namespaces-not-permitted`` or ``links-not-available``."""
        try:
            _become_router()
        except OSError as error:
            raise Problem(
                "namespaces-not-permitted",
                f"The lab's router may not forward packets: {error}.",
                "In a container: start it with `--privileged`, which makes /proc/sys writable.",
            ) from error
        try:
            self._routes = IPRoute()
            loopback = self._routes.link_lookup(ifname="lo")[0]
            self._routes.link("set", index=loopback, state="up")
            self._routes.addr("add", index=loopback, address=ROUTER_ADDRESS, prefixlen=32)
            for number, (name, address) in enumerate(self.addresses.items(), start=1):
                self._join(name, address, f"r{number}")
        except (OSError, NetlinkError) as error:
            number = int((error.code if isinstance(error, NetlinkError) else error.errno) or 0)
            if number in (errno.EPERM, errno.EACCES):
                # A security module may grant a user namespace and then nothing in it.
                refused = OSError(number, os.strerror(number), "netlink")
                raise not_permitted(refused, privileged=os.getuid() == 0) from error
            raise Problem(
                "links-not-available",
                f"The kernel refuses virtual cables between network namespaces: {error}.",
                "Load the module `veth` (`modprobe veth` as root), or use a kernel with CONFIG_VETH.",
            ) from error

    def identity(self, node: str) -> int:
        """The inode of the node's network namespace: each process of the node is in it."""
        return os.fstat(self._namespaces[node]).st_ino

    @contextlib.contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Be in the node's namespace: sockets and processes that this thread makes here are the node's."""
        enter_network(self._namespaces[node])
        try:
            yield
        finally:
            enter_network(self._home)

    def enter(self, node: str) -> None:
        """Take the calling thread, for good, into the node's namespace."""
        enter_network(self._namespaces[node])

    def make_cut(self, wanted: frozenset[Pair]) -> None:
        """Cut exactly these pairs. New cuts come first, so that no packet slips through between two partitions.

        Raises Problem ``cut-refused``; ``cut`` then still tells what is in force.
        """
        try:
            for pair in sorted(wanted - self.cut):
                self._rule("add", pair)
                self.cut |= {pair}
            for pair in sorted(self.cut - wanted):
                self._rule("del", pair)
                self.cut -= {pair}
        except (OSError, NetlinkError) as error:
            raise Problem(
                "cut-refused",
                f"The kernel refuses a blackhole routing rule: {error}.",
                "Use a kernel with CONFIG_IP_MULTIPLE_TABLES.",
            ) from error

    def _rule(self, verb: str, pair: Pair) -> None:
        source, destination = (self.addresses[node] for node in pair)
        self._netlink.rule(
            verb,
            src=source,
            src_len=32,
            dst=destination,
            dst_len=32,
            action="FR_ACT_BLACKHOLE",
            priority=_RULE_PRIORITY,
        )

    def _join(self, name: str, address: str, cable: str) -> None:
        unshare(CLONE_NEWNET)
        self._namespaces[name] = network_descriptor()
        enter_network(self._home)
        self._netlink.link(
            "add", ifname=cable, kind="veth", peer={"ifname": "eth0", "net_ns_fd": self._namespaces[name]}
        )
        outer = self._netlink.link_lookup(ifname=cable)[0]
        self._netlink.link("set", index=outer, state="up")
        with self.inside(name), IPRoute() as node:
            loopback, inner = node.link_lookup(ifname="lo")[0], node.link_lookup(ifname="eth0")[0]
            node.link("set", index=loopback, state="up")
            node.addr("add", index=inner, address=address, prefixlen=32)
            node.link("set", index=inner, state="up")
            node.route("add", dst=f"{ROUTER_ADDRESS}/32", oif=inner, scope="link")
            node.route("add", dst="default", gateway=ROUTER_ADDRESS, oif=inner)
        self._netlink.route("add", dst=f"{address}/32", oif=outer, scope="link", prefsrc=ROUTER_ADDRESS)

    @property
    def _netlink(self) -> Any:
        assert self._routes is not None, "build() comes first"
        return self._routes


def _become_router() -> None:
    # A strict reverse-path filter looks up the way back through the same rules: it would make every one-way cut a two-way one.
    for name, value in (("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")):
        path = Path("/proc/sys/net/ipv4", name)
        if path.read_text().strip() != value:
            path.write_text(value)
