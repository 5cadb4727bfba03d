"""Packet filters of one node's network namespace, spoken to the kernel's nftables over netlink: no program is needed anywhere.

Two chains of one table of ours. ``cut`` drops what arrives from the nodes whose link to this one is cut: a node that filters what it
*receives* is cut in exactly one direction, and no sender learns of it. ``out`` keeps the node from everything but the other nodes and
its answers to clients: an *internal* network of the engine still leads to every listener of the host.

The messages are those of linux/netfilter/nfnetlink.h and nf_tables.h; a change is one transaction, so nothing slips through between
two matrices.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Sequence

from workloads.problem import Problem

_NETLINK_NETFILTER = 12
_REPLY_PATIENCE_S = 10.0
_BUFFER_BYTES = 1 << 16

_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NLMSG_ERROR = 2
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_SUBSYSTEM = 10
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE, _DELETE_RULE = 0, 3, 6, 8
_IPV4 = 2
_INPUT, _OUTPUT = 1, 3
_BEFORE_NAT = -300
_DROP, _ACCEPT = 0, 1
_NESTED = 0x8000
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_SOURCE, _DESTINATION, _TCP_FLAGS = 12, 16, 13
_SYN, _SYN_OR_ACK, _TCP = 0x02, 0x12, 6
_META_L4PROTO = 16

_TABLE = "nemesis"
_CUT, _OUT = "cut", "out"
_NAME_SERVER = "127.0.0.11"
"""docker's own, which asks the host's name servers on behalf of the container (CVE-2024-29018): a way out"""


class Filters:
    """The table of one namespace. ``sock`` is a netlink socket that was made inside of it, see :func:`netlink_socket`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sequence = 0

    def build(self, nodes: Iterable[str], gateway: str) -> None:
        """Make the table: nothing is cut, and the way out is closed. Raises Problem ``filters-refused``."""
        out = [_rule(_OUT, _address(_DESTINATION, _NAME_SERVER) + _verdict(_DROP))]
        out += [_rule(_OUT, _equals(_NETWORK_HEADER, _DESTINATION, b"\x7f") + _verdict(_ACCEPT))]
        out += [_rule(_OUT, _address(_DESTINATION, node) + _verdict(_ACCEPT)) for node in nodes]
        to_gateway = _address(_DESTINATION, gateway) + _tcp()
        out += [_rule(_OUT, to_gateway + _opens_connection() + _verdict(_DROP))]
        out += [_rule(_OUT, to_gateway + _verdict(_ACCEPT))]
        table = _message(_NEW_TABLE, _CREATE, _attribute(1, _text(_TABLE)))
        self._commit([table, _chain(_CUT, _INPUT, _ACCEPT), _chain(_OUT, _OUTPUT, _DROP), *out])

    def cut(self, sources: Iterable[str]) -> None:
        """Drop what arrives from exactly these addresses. Raises Problem ``filters-refused``."""
        flush = _message(_DELETE_RULE, 0, _attribute(1, _text(_TABLE)) + _attribute(2, _text(_CUT)))
        rules = [_rule(_CUT, _address(_SOURCE, source) + _verdict(_DROP)) for source in sources]
        self._commit([flush, *rules])

    def close(self) -> None:
        """Close the socket; the table lives on with its namespace."""
        self._sock.close()

    def _commit(self, messages: Sequence[tuple[int, int, bytes]]) -> None:
        """Send one transaction and await what the kernel says to each message of it."""
        first = self._sequence + 1
        packet = b""
        for kind, flags, body in [(_BATCH_BEGIN, 0, b""), *messages, (_BATCH_END, 0, b"")]:
            self._sequence += 1
            packet += _encode(kind, flags, self._sequence, body)
        waiting = set(range(first + 1, first + 1 + len(messages)))
        try:
            self._sock.send(packet)
            while waiting:
                for sequence, error in _replies(self._sock.recv(_BUFFER_BYTES)):
                    if error:
                        raise OSError(error, os.strerror(error))
                    waiting.discard(sequence)
        except OSError as error:
            raise Problem(
                "filters-refused",
                f"The kernel refuses a packet filter in a node's namespace: {error}.",
                "Use a kernel with nftables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4); `modprobe nf_tables` as root.",
            ) from error


def netlink_socket() -> socket.socket:
    """A netlink socket of the namespace that this thread is in."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    try:
        sock.settimeout(_REPLY_PATIENCE_S)
        sock.bind((0, 0))
    except OSError:
        sock.close()
        raise
    return sock


def _encode(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    if kind in (_BATCH_BEGIN, _BATCH_END):
        number, general = kind, struct.pack(">BBH", 0, 0, _SUBSYSTEM)
    else:
        number, general, flags = _SUBSYSTEM << 8 | kind, struct.pack(">BBH", _IPV4, 0, 0), flags | _ACK
    size = 16 + len(general) + len(body)
    return struct.pack("=IHHII", size, number, flags | _REQUEST, sequence, 0) + general + body


def _replies(data: bytes) -> Iterable[tuple[int, int]]:
    """(sequence number, error number or 0) of each acknowledgement."""
    while len(data) >= 20:
        size, kind, _, sequence, _ = struct.unpack_from("=IHHII", data)
        if kind == _NLMSG_ERROR:
            yield sequence, -struct.unpack_from("=i", data, 16)[0]
        data = data[max(16, (size + 3) & ~3) :]


def _message(kind: int, flags: int, body: bytes) -> tuple[int, int, bytes]:
    return kind, flags, body


def _chain(name: str, hook: int, policy: int) -> tuple[int, int, bytes]:
    where = _attribute(1, struct.pack(">I", hook)) + _attribute(2, struct.pack(">i", _BEFORE_NAT))
    body = _attribute(1, _text(_TABLE)) + _attribute(3, _text(name)) + _attribute(4 | _NESTED, where)
    body += _attribute(5, struct.pack(">I", policy)) + _attribute(7, _text("filter"))
    return _message(_NEW_CHAIN, _CREATE, body)


def _rule(chain: str, expressions: bytes) -> tuple[int, int, bytes]:
    body = _attribute(1, _text(_TABLE)) + _attribute(2, _text(chain)) + _attribute(4 | _NESTED, expressions)
    return _message(_NEW_RULE, _CREATE | _APPEND, body)


def _expression(name: str, data: bytes) -> bytes:
    return _attribute(1 | _NESTED, _attribute(1, _text(name)) + _attribute(2 | _NESTED, data))


def _address(offset: int, address: str) -> bytes:
    return _equals(_NETWORK_HEADER, offset, socket.inet_aton(address))


def _equals(header: int, offset: int, value: bytes) -> bytes:
    return _load(header, offset, len(value)) + _compare(value)


def _load(header: int, offset: int, size: int) -> bytes:
    fields = (1, 1), (2, header), (3, offset), (4, size)
    return _expression("payload", b"".join(_attribute(kind, struct.pack(">I", value)) for kind, value in fields))


def _compare(value: bytes) -> bytes:
    equal = _attribute(1, struct.pack(">I", 1)) + _attribute(2, struct.pack(">I", 0))
    return _expression("cmp", equal + _attribute(3 | _NESTED, _attribute(1, value)))


def _tcp() -> bytes:
    load = _attribute(2, struct.pack(">I", _META_L4PROTO)) + _attribute(1, struct.pack(">I", 1))
    return _expression("meta", load) + _compare(bytes([_TCP]))


def _opens_connection() -> bytes:
    """SYN without ACK: answers to clients carry ACK, or RST and no SYN."""
    mask = b"".join(_attribute(kind, struct.pack(">I", 1)) for kind in (1, 2, 3))
    mask += _attribute(4 | _NESTED, _attribute(1, bytes([_SYN_OR_ACK]))) + _attribute(5 | _NESTED, _attribute(1, b"\0"))
    return _load(_TRANSPORT_HEADER, _TCP_FLAGS, 1) + _expression("bitwise", mask) + _compare(bytes([_SYN]))


def _verdict(code: int) -> bytes:
    verdict = _attribute(2 | _NESTED, _attribute(1, struct.pack(">I", code)))
    return _expression("immediate", _attribute(1, struct.pack(">I", 0)) + _attribute(2 | _NESTED, verdict))


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def _text(value: str) -> bytes:
    return value.encode() + b"\0"
