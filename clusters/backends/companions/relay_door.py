"""The relay's door: what turns a node's connections to its peers to the relay, and lets nothing around it.

A table of the node's namespace, owned by this process: the kernel removes it when the process ends, however it ends. Connections that
carry the relay's mark pass. Everything else that goes to a peer's listener is turned to the relay at its first packet; the packets
of what was connected before are counted and answered with a reset, whether the kernel tracked that connection or not. What a shaper
sends on has passed here before, when the node or the relay sent it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from clusters.backends import netfilter as nf
from clusters.backends.companions.rtnetlink import MARK as SHAPED
from workloads.problem import Problem

MARK = 0x4E454D45
"""SO_MARK of the relay's own connections"""

_TABLE = "nemesis_relay"
_OLD, _TURN, _AROUND = "old", "turn", "around"
_SO_MARK = 36
_SO_ORIGINAL_DST = 80
_SOL_IP = 0


class Door:
    """Open from :meth:`__init__` to :meth:`close`. Raises Problem ``relay-refused``."""

    def __init__(self, peers: Iterable[tuple[str, int]], port: int) -> None:
        rules = []
        for address, listener in peers:
            to_peer = nf.not_marked(MARK) + nf.not_marked(SHAPED) + nf.tcp_to(address, listener)
            count_and_reset = nf.counter() + nf.reset()
            rules += [
                nf.add_rule(_TABLE, _OLD, to_peer + nf.comes_midway() + count_and_reset),
                nf.add_rule(_TABLE, _TURN, to_peer + nf.redirect(port)),
                nf.add_rule(_TABLE, _AROUND, to_peer + count_and_reset),
            ]
        chains = [
            nf.add_table(_TABLE, owned=True),
            nf.add_chain(_TABLE, _OLD, nf.OUTPUT, nf.ACCEPT, priority=nf.AFTER_TRACKING),
            nf.add_chain(_TABLE, _TURN, nf.OUTPUT, nf.ACCEPT, priority=nf.AT_NAT, kind="nat"),
            nf.add_chain(_TABLE, _AROUND, nf.OUTPUT, nf.ACCEPT, priority=nf.AFTER_NAT),
        ]
        try:
            self._sock = nf.netlink_socket()
            nf.commit(self._sock, [*chains, *rules])
        except OSError as error:
            raise Problem(
                "relay-refused",
                f"The kernel refuses to turn a node's connections to a relay: {error}.",
                "Use Linux 5.12 or newer with nftables and its NAT (CONFIG_NF_TABLES_IPV4, CONFIG_NFT_NAT, CONFIG_NFT_REDIR, "
                "CONFIG_NFT_REJECT); `modprobe nf_tables nft_redir nft_chain_nat nft_reject_ipv4` as root.",
            ) from error

    def packets_around(self) -> int:
        """How many packets to a peer's listener belonged to no relayed connection, and were reset: none of them arrives."""
        return sum(sum(nf.packets_counted(self._sock, _TABLE, chain)) for chain in (_OLD, _AROUND))

    def close(self) -> None:
        """Let the node connect by itself again; the relay's own connections end with it."""
        self._sock.close()


def original_destination(sock: socket.socket) -> tuple[str, int]:
    """Where a turned connection wanted to go. Raises OSError for one that was not turned."""
    port, address = struct.unpack_from(">2xH4s", sock.getsockopt(_SOL_IP, _SO_ORIGINAL_DST, 16))
    return socket.inet_ntoa(address), port


def marked_socket(source: str) -> socket.socket:
    """A socket for a connection of the relay's own, from the node's address. Raises OSError where marks are not permitted."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((source, 0))
    except OSError:
        sock.close()
        raise
    return sock
