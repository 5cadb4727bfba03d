"""Packet filters of one node's network namespace, spoken to the kernel's nftables over netlink: no program is needed anywhere.

Two chains of one table of ours. ``cut`` drops what arrives from the nodes whose link to this one is cut: a node that filters what it
*receives* is cut in exactly one direction, and no sender learns of it. ``out`` keeps the node from everything but the other nodes and
its answers to clients: an *internal* network of the engine still leads to every listener of the host. A change is one transaction, so
nothing slips through between two matrices.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence

from clusters.backends import netfilter as nf
from workloads.problem import Problem

_TABLE = "nemesis"
_CUT, _OUT = "cut", "out"
_NAME_SERVER = "127.0.0.11"
"""docker's own, which asks the host's name servers on behalf of the container (CVE-2024-29018): a way out"""


class Filters:
    """The table of one namespace. ``sock`` is a netlink socket that was made inside of it, see :func:`.netfilter.netlink_socket`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def build(self, nodes: Iterable[str], gateway: str) -> None:
        """Make the table: nothing is cut, and the way out is closed. Raises Problem ``filters-refused``."""
        drop, accept = nf.verdict(nf.DROP), nf.verdict(nf.ACCEPT)
        to_gateway = nf.address(nf.DESTINATION, gateway) + nf.tcp()
        out = [nf.address(nf.DESTINATION, _NAME_SERVER) + drop]
        out += [nf.equals(nf.NETWORK_HEADER, nf.DESTINATION, b"\x7f") + accept]
        out += [nf.address(nf.DESTINATION, node) + accept for node in nodes]
        out += [to_gateway + nf.opens_connection() + drop, to_gateway + accept]
        table = [
            nf.add_table(_TABLE),
            nf.add_chain(_TABLE, _CUT, nf.INPUT, nf.ACCEPT),
            nf.add_chain(_TABLE, _OUT, nf.OUTPUT, nf.DROP),
        ]
        self._commit([*table, *(nf.add_rule(_TABLE, _OUT, each) for each in out)])

    def cut(self, sources: Iterable[str]) -> None:
        """Drop what arrives from exactly these addresses. Raises Problem ``filters-refused``."""
        rules = [nf.add_rule(_TABLE, _CUT, nf.address(nf.SOURCE, each) + nf.verdict(nf.DROP)) for each in sources]
        self._commit([nf.flush(_TABLE, _CUT), *rules])

    def close(self) -> None:
        """Close the socket; the table lives on with its namespace."""
        self._sock.close()

    def _commit(self, messages: Sequence[nf.Message]) -> None:
        try:
            nf.commit(self._sock, messages)
        except OSError as error:
            raise Problem(
                "filters-refused",
                f"The kernel refuses a packet filter in a node's namespace: {error}.",
                "Use a kernel with nftables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4); `modprobe nf_tables` as root.",
            ) from error
