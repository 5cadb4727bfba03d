"""A growing, compressed pcap file of raw IPv4 packets, as the companion ``capture`` writes it → TCP segments."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from clusters.wire.problems import WireError

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_GZIP = 31
_MAGIC = 0xA1B2_3C4D
_HEAD_BYTES = 24
_PACKET = struct.Struct("<IIII")
_IP = struct.Struct(">BxHxxHxBxx4s4s")
_TCP = struct.Struct(">HHIIBB")
_TCP_PROTOCOL = 6
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment as one node's kernel saw it. Addresses are four bytes, ``seq`` and ``ack`` those of its header."""

    ts_ns: int
    """of the CLOCK_MONOTONIC of the capturing node"""
    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    seq: int
    ack: int
    flags: int
    payload: bytes
    cut: bool = False
    """the capture does not have all of its payload"""


class PacketFile:
    """Takes the bytes of one file as they come, whole packets out. A torn tail waits for ever."""

    def __init__(self) -> None:
        self._unpack = zlib.decompressobj(_GZIP)
        self._buffer = bytearray()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[Segment]:
        """The TCP segments that are whole now. Raises WireError for what is no such file."""
        buffer = self._buffer
        try:
            while data:
                buffer += self._unpack.decompress(data)
                data = self._unpack.unused_data
                if self._unpack.eof:
                    self._unpack = zlib.decompressobj(_GZIP)
        except zlib.error as error:
            raise WireError(f"a capture cannot be unpacked: {error}") from error
        at = 0
        if not self._begun:
            if len(buffer) < _HEAD_BYTES:
                return
            if int.from_bytes(buffer[:4], "little") != _MAGIC:
                raise WireError("a capture does not begin as a pcap file with nanoseconds does")
            self._begun, at = True, _HEAD_BYTES
        while len(buffer) - at >= _PACKET.size:
            seconds, ns, kept, size = _PACKET.unpack_from(buffer, at)
            begin, end = at + _PACKET.size, at + _PACKET.size + kept
            if end > len(buffer):
                break
            segment = read_segment(bytes(buffer[begin:end]), seconds * _NS_PER_S + ns, size)
            if segment is not None:
                yield segment
            at = end
        del buffer[:at]


def read_segment(packet: bytes, ts_ns: int, size: int) -> Segment | None:
    """Read an IPv4 packet that had ``size`` bytes on the wire; None for one that holds no TCP segment."""
    if len(packet) < _IP.size:
        return None
    first, total, fragment, protocol, source, destination = _IP.unpack_from(packet)
    tcp = (first & 15) * 4
    if first >> 4 != 4 or protocol != _TCP_PROTOCOL or fragment & 0x1FFF or len(packet) < tcp + 20:
        return None
    source_port, destination_port, seq, ack, offset, flags = _TCP.unpack_from(packet, tcp)
    end = min(len(packet), total or len(packet))
    payload = packet[tcp + (offset >> 4) * 4 : end]
    return Segment(
        ts_ns, source, destination, source_port, destination_port, seq, ack, flags, payload, size > len(packet)
    )
