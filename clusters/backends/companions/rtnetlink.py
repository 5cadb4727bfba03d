"""Rules, routes and links of the network namespace that this process is in, spoken to the kernel (rtnetlink).

Messages are those of linux/rtnetlink.h, fib_rules.h and if_link.h. What is made carries a protocol number of ours, by which it is found
again after whoever made it was killed.
"""

from __future__ import annotations

import contextlib
import socket
import struct

from clusters.backends.companions.netlink import CREATE, DUMP, EXCLUSIVE, Netlink, attribute, attributes, number

PROTOCOL = 211
"""of our rules and routes: none of /etc/iproute2/rt_protos"""
TABLE = 7709
MARK = 0x4E45_4D53
"""of packets that have been shaped"""
TO_TABLE, GOTO, NOTHING = 1, 2, 3
"""actions of rules"""

_FIRST_PRIORITY, _SHAPE_PRIORITY, _LAST_PRIORITY = 176, 177, 178
_NEW_LINK, _GET_LINK, _NEW_ROUTE, _GET_ROUTE = 16, 18, 24, 26
_NEW_RULE, _DELETE_RULE, _GET_RULE = 32, 33, 34
_INET = socket.AF_INET
_UP = 1
_LINK_SCOPE, _UNICAST = 253, 1
_DROPPED_OFFSET = 7 * 8
"""of tx_dropped in struct rtnl_link_stats64"""


class Routes:
    """A netlink socket of the namespace that this thread was in when it was made. Every method raises OSError."""

    def __init__(self) -> None:
        self._netlink = Netlink()

    def way_to(self, address: str) -> int:
        """The index of the link that packets to an address leave by, once they have been shaped."""
        to = attribute(1, socket.inet_aton(address)) + number(16, MARK)
        body = struct.pack("=BBBBBBBBI", _INET, 32, 0, 0, 0, 0, 0, 0, 0) + to
        for kind, answer in self._netlink.ask(_GET_ROUTE, 0, body):
            if kind == _NEW_ROUTE:
                return int.from_bytes(attributes(answer[12:])[4], "little")
        raise OSError(f"there is no route to {address}")

    def mtu(self, index: int) -> int:
        """The largest packet of a link, in bytes."""
        return int(struct.unpack("=I", self._link(index)[4])[0])

    def dropped(self, index: int) -> int:
        """How many packets a link could not take."""
        return int(struct.unpack_from("=Q", self._link(index)[23], _DROPPED_OFFSET)[0])

    def bring_up(self, index: int, mtu: int, queue: int) -> None:
        """Make a link take packets."""
        body = struct.pack("=BxHiII", 0, 0, index, _UP, _UP) + number(4, mtu) + number(13, queue)
        self._netlink.ask(_NEW_LINK, 0, body)

    def route_all(self, index: int, source: str) -> None:
        """In our table everything leaves by this link, from ``source`` where the sender has not chosen."""
        body = struct.pack("=BBBBBBBBI", _INET, 0, 0, 0, 0, PROTOCOL, _LINK_SCOPE, _UNICAST, 0)
        body += number(15, TABLE) + number(4, index) + attribute(7, socket.inet_aton(source))
        self._netlink.ask(_NEW_ROUTE, CREATE, body)

    def let_pass(self) -> None:
        """Packets with our mark take the way that they would take without us: they skip our rules, and only those."""
        self._rule(_NEW_RULE, _LAST_PRIORITY, NOTHING, b"")
        self._rule(_NEW_RULE, _FIRST_PRIORITY, GOTO, number(10, MARK) + number(4, _LAST_PRIORITY))

    def divert(self, address: str) -> None:
        """From now on packets to an address take the way of our table."""
        self._rule(_NEW_RULE, _SHAPE_PRIORITY, TO_TABLE, number(15, TABLE), address)

    def restore(self, address: str) -> None:
        """From now on they take their own."""
        self._rule(_DELETE_RULE, _SHAPE_PRIORITY, TO_TABLE, number(15, TABLE), address)

    def sweep(self) -> int:
        """Remove every rule of ours, whoever made it; returns how many."""
        found = [
            body for kind, body in self._netlink.ask(_GET_RULE, DUMP, bytes([_INET]) + bytes(11)) if kind == _NEW_RULE
        ]
        ours = [body for body in found if attributes(body[12:]).get(21) == bytes([PROTOCOL])]
        for body in ours:
            with contextlib.suppress(FileNotFoundError):  # somebody else was faster
                self._netlink.ask(_DELETE_RULE, 0, body)
        return len(ours)

    def close(self) -> None:
        """Close the socket; what was made stays."""
        self._netlink.close()

    def _rule(self, kind: int, priority: int, action: int, attributes: bytes, address: str = "") -> None:
        head = struct.pack("=BBBBBBBBI", _INET, 32 if address else 0, 0, 0, 0, 0, 0, action, 0)
        to = attribute(1, socket.inet_aton(address)) if address else b""
        own = attribute(21, bytes([PROTOCOL]))
        flags = CREATE | EXCLUSIVE if kind == _NEW_RULE else 0
        self._netlink.ask(kind, flags, head + to + number(6, priority) + attributes + own)

    def _link(self, index: int) -> dict[int, bytes]:
        for kind, answer in self._netlink.ask(_GET_LINK, 0, struct.pack("=BxHiII", 0, 0, index, 0, 0)):
            if kind == _NEW_LINK:
                return attributes(answer[16:])
        raise OSError(f"there is no link {index}")
