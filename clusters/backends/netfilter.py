"""Packet filters and address translation of one network namespace, spoken to the kernel's nftables over netlink: no program is needed.

The messages are those of linux/netfilter/nfnetlink.h and nf_tables.h; what is handed to :func:`commit` is one transaction, so nothing
slips through between two states. Standard library only: companions and agents on other machines use it too.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

Message = tuple[int, int, bytes]
"""kind, flags, body"""

INPUT, OUTPUT = 1, 3
"""hooks: what arrives here, what is sent from here"""
BEFORE_NAT, AFTER_TRACKING, AT_NAT, AFTER_NAT = -300, -150, -100, 0
"""priorities of chains"""
DROP, ACCEPT = 0, 1
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2
SOURCE, DESTINATION, PORT_TO, TCP_FLAGS = 12, 16, 2, 13
"""offsets in the IPv4 header (addresses) and in TCP's (port, flags)"""

_NETLINK_NETFILTER = 12
_REPLY_PATIENCE_S = 10.0
_BUFFER_BYTES = 1 << 16
_REQUEST, _ACK, _DUMP, _CREATE, _APPEND = 0x1, 0x4, 0x300, 0x400, 0x800
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_SUBSYSTEM = 10
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE, _GET_RULE, _DELETE_RULE = 0, 2, 3, 6, 7, 8
_IPV4 = 2
_NESTED = 0x8000
_TYPE_MASK = 0x3FFF
_OWNED = 0x2
_SYN, _SYN_OR_ACK, _TCP = 0x02, 0x12, 6
_META_MARK, _META_L4PROTO = 3, 16
_TCP_RESET = 1
_CT_STATE, _CT_STATE_NEW = 0, 8
_EQUAL, _NOT_EQUAL = 0, 1
_SEQUENCE = itertools.count(1)
"""what a refused transaction leaves unread is never taken for another one's answer"""


def netlink_socket() -> socket.socket:
    """A netlink socket of the namespace that this thread is in. Raises OSError."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    try:
        sock.settimeout(_REPLY_PATIENCE_S)
        sock.bind((0, 0))
    except OSError:
        sock.close()
        raise
    return sock


def commit(sock: socket.socket, messages: Sequence[Message]) -> None:
    """Send one transaction and await what the kernel says to each message of it. Raises OSError: nothing of it was done then."""
    packet = _encode(_BATCH_BEGIN, 0, next(_SEQUENCE), b"")
    waiting = set()
    for kind, flags, body in messages:
        sequence = next(_SEQUENCE)
        packet += _encode(kind, flags | _ACK, sequence, body)
        waiting.add(sequence)
    packet += _encode(_BATCH_END, 0, next(_SEQUENCE), b"")
    sock.send(packet)
    while waiting:
        for kind, sequence, body in _parts(sock.recv(_BUFFER_BYTES)):
            error = -struct.unpack_from("=i", body)[0] if kind == _NLMSG_ERROR else 0
            if error:
                raise OSError(error, os.strerror(error))
            waiting.discard(sequence)


def packets_counted(sock: socket.socket, table: str, chain: str) -> list[int]:
    """How many packets met each :func:`counter` of a chain, in order of its rules. Raises OSError."""
    body = attribute(1, text(table)) + attribute(2, text(chain))
    asked = next(_SEQUENCE)
    sock.send(_encode(_GET_RULE, _DUMP, asked, body))
    counted: list[int] = []
    while True:
        for kind, sequence, data in _parts(sock.recv(_BUFFER_BYTES)):
            if sequence != asked:
                continue
            if kind == _NLMSG_DONE:
                return counted
            if kind == _NLMSG_ERROR:
                error = -struct.unpack_from("=i", data)[0]
                raise OSError(error, os.strerror(error))
            expressions = dict(_attributes(data[4:])).get(4, b"")
            for _, expression in _attributes(expressions):
                parts = dict(_attributes(expression))
                if parts.get(1) == text("counter"):
                    counted.append(struct.unpack(">Q", dict(_attributes(parts[2]))[2])[0])


def add_table(name: str, *, owned: bool = False) -> Message:
    """Make a table. ``owned`` (Linux 5.12): nobody else may change it, and the kernel removes it when this socket is closed."""
    flags = attribute(2, struct.pack(">I", _OWNED)) if owned else b""
    return _NEW_TABLE, _CREATE, attribute(1, text(name)) + flags


def delete_table(name: str) -> Message:
    """Remove a table and all that is in it."""
    return _DELETE_TABLE, 0, attribute(1, text(name))


def add_chain(
    table: str, name: str, hook: int, policy: int, *, priority: int = BEFORE_NAT, kind: str = "filter"
) -> Message:
    """Make a chain at a hook."""
    where = attribute(1, struct.pack(">I", hook)) + attribute(2, struct.pack(">i", priority))
    body = attribute(1, text(table)) + attribute(3, text(name)) + attribute(4 | _NESTED, where)
    return _NEW_CHAIN, _CREATE, body + attribute(5, struct.pack(">I", policy)) + attribute(7, text(kind))


def flush(table: str, chain: str) -> Message:
    """Remove all rules of a chain."""
    return _DELETE_RULE, 0, attribute(1, text(table)) + attribute(2, text(chain))


def add_rule(table: str, chain: str, expressions: bytes) -> Message:
    """Append a rule: its expressions, one after the other."""
    body = attribute(1, text(table)) + attribute(2, text(chain)) + attribute(4 | _NESTED, expressions)
    return _NEW_RULE, _CREATE | _APPEND, body


def address(offset: int, value: str) -> bytes:
    """The address at ``offset`` (SOURCE, DESTINATION) is this one."""
    return equals(NETWORK_HEADER, offset, socket.inet_aton(value))


def equals(header: int, offset: int, value: bytes) -> bytes:
    """The bytes at an offset of a header are these."""
    return _load(header, offset, len(value)) + _compare(value)


def tcp() -> bytes:
    """The packet is TCP's."""
    load = attribute(2, struct.pack(">I", _META_L4PROTO)) + attribute(1, struct.pack(">I", 1))
    return _expression("meta", load) + _compare(bytes([_TCP]))


def tcp_to(value: str, port: int) -> bytes:
    """The packet is TCP's, to a port of an address."""
    return address(DESTINATION, value) + tcp() + equals(TRANSPORT_HEADER, PORT_TO, struct.pack(">H", port))


def not_marked(mark: int) -> bytes:
    """The packet's socket has another SO_MARK, or none."""
    load = attribute(2, struct.pack(">I", _META_MARK)) + attribute(1, struct.pack(">I", 1))
    return _expression("meta", load) + _compare(struct.pack("=I", mark), _NOT_EQUAL)


def opens_connection() -> bytes:
    """SYN without ACK: answers to clients carry ACK, or RST and no SYN."""
    return _opening_flags() + _compare(bytes([_SYN]))


def comes_midway() -> bytes:
    """The first packet of a connection that is seen here does not open it: it was made before anybody looked."""
    state = attribute(1, struct.pack(">I", 1)) + attribute(2, struct.pack(">I", _CT_STATE))
    new = struct.pack("=I", _CT_STATE_NEW)
    is_new = _expression("ct", state) + _masked(new) + _compare(new)
    return is_new + _opening_flags() + _compare(bytes([_SYN]), _NOT_EQUAL)


def verdict(code: int) -> bytes:
    """DROP or ACCEPT."""
    told = attribute(2 | _NESTED, attribute(1, struct.pack(">I", code)))
    return _expression("immediate", attribute(1, struct.pack(">I", 0)) + attribute(2 | _NESTED, told))


def reset() -> bytes:
    """Drop, and answer with TCP's RST."""
    return _expression("reject", attribute(1, struct.pack(">I", _TCP_RESET)))


def counter() -> bytes:
    """Count the packets that come this far; see :func:`packets_counted`."""
    return _expression("counter", attribute(1, bytes(8)) + attribute(2, bytes(8)))


def redirect(port: int) -> bytes:
    """Send the connection to a port of this namespace instead; the original destination is SO_ORIGINAL_DST."""
    to = attribute(1, struct.pack(">I", 1)) + attribute(2 | _NESTED, attribute(1, struct.pack(">H", port)))
    return _expression("immediate", to) + _expression("redir", attribute(1, struct.pack(">I", 1)))


def attribute(kind: int, value: bytes) -> bytes:
    """One netlink attribute."""
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def text(value: str) -> bytes:
    """A name as netlink has it."""
    return value.encode() + b"\0"


def _encode(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    if kind in (_BATCH_BEGIN, _BATCH_END):
        number, general = kind, struct.pack(">BBH", 0, 0, _SUBSYSTEM)
    else:
        number, general = _SUBSYSTEM << 8 | kind, struct.pack(">BBH", _IPV4, 0, 0)
    size = 16 + len(general) + len(body)
    return struct.pack("=IHHII", size, number, flags | _REQUEST, sequence, 0) + general + body


def _parts(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    """(kind, sequence number, body) of each message."""
    while len(data) >= 16:
        size, kind, _, sequence, _ = struct.unpack_from("=IHHII", data)
        yield kind, sequence, data[16:size]
        data = data[max(16, (size + 3) & ~3) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind & _TYPE_MASK, data[4:size]
        data = data[max(4, (size + 3) & ~3) :]


def _expression(name: str, data: bytes) -> bytes:
    return attribute(1 | _NESTED, attribute(1, text(name)) + attribute(2 | _NESTED, data))


def _load(header: int, offset: int, size: int) -> bytes:
    fields = (1, 1), (2, header), (3, offset), (4, size)
    return _expression("payload", b"".join(attribute(kind, struct.pack(">I", value)) for kind, value in fields))


def _opening_flags() -> bytes:
    return _load(TRANSPORT_HEADER, TCP_FLAGS, 1) + _masked(bytes([_SYN_OR_ACK]))


def _masked(mask: bytes) -> bytes:
    """The loaded value, of which only these bits are left."""
    told = b"".join(attribute(kind, struct.pack(">I", 1)) for kind in (1, 2)) + attribute(
        3, struct.pack(">I", len(mask))
    )
    told += attribute(4 | _NESTED, attribute(1, mask)) + attribute(5 | _NESTED, attribute(1, bytes(len(mask))))
    return _expression("bitwise", told)


def _compare(value: bytes, how: int = _EQUAL) -> bytes:
    told = attribute(1, struct.pack(">I", 1)) + attribute(2, struct.pack(">I", how))
    return _expression("cmp", told + attribute(3 | _NESTED, attribute(1, value)))
