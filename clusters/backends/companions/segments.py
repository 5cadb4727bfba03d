"""IPv4 packets as bytes: what of them shaping needs to know, and the two that reset a TCP connection (RFC 9293, RFC 5961). Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

ICMP, TCP = 1, 6
_SYN, _RST, _ACK = 0x02, 0x04, 0x10
_HEAD = struct.Struct(">BBHHHBBH4s4s")
_TCP_HEAD = struct.Struct(">HHIIBBHHH")
_LIFE = 64

Connection = tuple[bytes, int, int]
"""(the far address, the near port, the far port)"""


def is_ipv4(packet: bytes) -> bool:
    """Whether it is a packet of ours to shape."""
    return len(packet) >= 20 and packet[0] >> 4 == 4


def destination(packet: bytes) -> bytes:
    """Where it goes."""
    return packet[16:20]


@dataclass
class Resetter:
    """Resets connections as a router does that has forgotten them: whoever sends a packet is answered with RST, and so is the other
    end; the packet itself is dropped, so that both numbers are the ones that are expected next."""

    every_ns: int
    began_ns: int
    _moment: int = -1
    _spared: set[Connection] = field(default_factory=set)
    """opened in this interval"""
    _reset: set[Connection] = field(default_factory=set)
    count: int = 0
    """connections that were reset"""
    moments: int = 0
    """intervals in which any was"""

    def offer(self, packet: bytes, now_ns: int) -> tuple[bytes, bytes] | None:
        """(RST to the sender, RST to the receiver) for a packet that shall be dropped; None for one that may pass."""
        segment = _segment(packet)
        if segment is None:
            return None
        flags, sequence, acknowledged, ports = segment
        moment = (now_ns - self.began_ns) // self.every_ns
        if moment != self._moment:
            self._moment = moment
            self._spared.clear()
            self._reset.clear()
        connection = (packet[16:20], *ports)
        if flags & _SYN:
            self._spared.add(connection)
        if flags & _RST or not flags & _ACK or connection in self._spared:
            return None
        if connection not in self._reset:
            self.moments += not self._reset
            self._reset.add(connection)
            self.count += 1
        near, far = packet[12:16], packet[16:20]
        return _rst(far, near, ports[1], ports[0], acknowledged), _rst(near, far, ports[0], ports[1], sequence)


def _segment(packet: bytes) -> tuple[int, int, int, tuple[int, int]] | None:
    """(flags, sequence number, acknowledged number, (source port, destination port)) of a whole TCP segment."""
    begin = (packet[0] & 0xF) * 4
    fragment = int.from_bytes(packet[6:8], "big") & 0x1FFF
    if packet[9] != TCP or fragment or len(packet) < begin + 20:
        return None
    source, target, sequence, acknowledged, _, flags, *_ = _TCP_HEAD.unpack_from(packet, begin)
    return flags, sequence, acknowledged, (source, target)


def _rst(source: bytes, target: bytes, source_port: int, target_port: int, sequence: int) -> bytes:
    head = _HEAD.pack(0x45, 0, 40, 0, 0x4000, _LIFE, TCP, 0, source, target)
    head = head[:10] + _checksum(head) + head[12:]
    body = _TCP_HEAD.pack(source_port, target_port, sequence, 0, 5 << 4, _RST, 0, 0, 0)
    pseudo = source + target + struct.pack(">HH", TCP, len(body))
    return head + body[:16] + _checksum(pseudo + body) + body[18:]


def echo_request(identity: int, number: int, payload: bytes) -> bytes:
    """An ICMP echo request, from its own header on."""
    head = struct.pack(">BBHHH", 8, 0, 0, identity, number)
    return head[:2] + _checksum(head + payload) + head[4:] + payload


def echo_of(packet: bytes, identity: int) -> tuple[int, int] | None:
    """(type, number) of an ICMP echo request (8) or its answer (0) that carries our identity."""
    begin = (packet[0] & 0xF) * 4
    if packet[9] != ICMP or len(packet) < begin + 8:
        return None
    kind, _, _, carried, number = struct.unpack_from(">BBHHH", packet, begin)
    return (kind, number) if carried == identity and kind in (0, 8) else None


def _checksum(data: bytes) -> bytes:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)
