"""The kernel's ring of packets (AF_PACKET with TPACKET_V3): every TCP segment of one port that a namespace sends or receives.

The kernel copies packets into blocks of shared memory and gives a block away when it is full or a twentieth of a second old, so that
nobody is woken for a packet, and the ring's size needs no privilege as a large socket buffer would. Linux's
``Documentation/networking/packet_mmap.rst`` tells the layout. Standard library only: it also runs on machines of a run.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence

BLOCK_BYTES = 1 << 18
BLOCKS = 96
"""24 MiB: more than a second of what a veth pair carries between controllers under load"""
RETIRE_MS = 50
"""the age at which the kernel gives away a block that is not full"""

_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 263, 5, 6, 10
_TPACKET_V3 = 2
_ETH_P_ALL, _ETH_P_IP, _IPPROTO_TCP = 3, 0x0800, 6
_SO_ATTACH_FILTER = 26
_USER, _KERNEL = 1, 0
_STATUS = struct.Struct("=I")
_BLOCK = struct.Struct("=8xIII")  # status, packets, offset of the first
_PACKET = struct.Struct("=IIIIIIHH")  # next, s, ns, kept bytes, bytes, status, mac, net
_STATISTICS = struct.Struct("=III")

_LOAD, _LOAD_HALF, _LOAD_BYTE, _LOAD_HALF_X = 0x20, 0x28, 0x30, 0x48
_HEADER_LENGTH, _EQUAL, _ANY_BIT, _RETURN = 0xB1, 0x15, 0x45, 0x06
_PROTOCOL_OF_PACKET = 0xFFFF_F000  # SKF_AD_OFF + SKF_AD_PROTOCOL
_ADDRESSES_MAX = 100  # a jump reaches 255 instructions


def filter_program(port: int, addresses: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """A classic BPF program, on packets that begin with their IPv4 header: unfragmented TCP from or to ``port``, between ``addresses``.

    With more addresses than a jump can skip, any pair of addresses is let through.
    """
    tests: list[tuple[int, int, int | str, int | str]] = [
        (_LOAD, _PROTOCOL_OF_PACKET, 0, 0),
        (_EQUAL, _ETH_P_IP, 0, "drop"),
        (_LOAD_BYTE, 9, 0, 0),
        (_EQUAL, _IPPROTO_TCP, 0, "drop"),
        (_LOAD_HALF, 6, 0, 0),
        (_ANY_BIT, 0x1FFF, "drop", 0),
    ]
    chosen = [int.from_bytes(socket.inet_aton(each), "big") for each in addresses]
    labels: dict[str, int] = {}
    if len(chosen) <= _ADDRESSES_MAX:
        for offset, found in ((12, "source"), (16, "destination")):
            tests.append((_LOAD, offset, 0, 0))
            tests += [(_EQUAL, each, found, 0) for each in chosen]
            tests.append((_RETURN, 0, 0, 0))
            labels[found] = len(tests)
    tests += [
        (_HEADER_LENGTH, 0, 0, 0),
        (_LOAD_HALF_X, 0, 0, 0),
        (_EQUAL, port, "keep", 0),
        (_LOAD_HALF_X, 2, 0, 0),
        (_EQUAL, port, "keep", "end"),
        (_RETURN, 0x4_0000, 0, 0),
        (_RETURN, 0, 0, 0),
    ]
    labels["keep"], labels["end"] = len(tests) - 2, len(tests) - 1
    program = []
    for at, (code, value, yes, no) in enumerate(tests):
        program.append((code, _jump(at, yes, labels, tests), _jump(at, no, labels, tests), value))
    return program


def _jump(
    at: int, target: int | str, labels: dict[str, int], tests: Sequence[tuple[int, int, int | str, int | str]]
) -> int:
    if isinstance(target, int):
        return target
    if target == "drop":  # the nearest refusal behind it
        return next(n for n in range(at + 1, len(tests)) if tests[n][:2] == (_RETURN, 0)) - at - 1
    return labels[target] - at - 1


def _listen_everywhere(opened: socket.socket) -> None:
    """Bind to all interfaces, also later ones; Python's own ``bind`` wants the name of one."""
    address = struct.pack("=HHiHBB8x", socket.AF_PACKET, socket.htons(_ETH_P_ALL), 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.bind(opened.fileno(), address, len(address)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class PacketRing:
    """An open ring in the network namespace of the thread that makes it. Raises OSError where the kernel refuses it."""

    def __init__(self, port: int, addresses: Sequence[str]) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        try:
            program = b"".join(struct.pack("=HBBI", *each) for each in filter_program(port, addresses))
            held = ctypes.create_string_buffer(program)
            attached = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
            frames = BLOCK_BYTES // 2048 * BLOCKS
            ring = struct.pack("=7I", BLOCK_BYTES, BLOCKS, 2048, frames, RETIRE_MS, 0, 0)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, ring)
            self._memory = mmap.mmap(self._socket.fileno(), BLOCK_BYTES * BLOCKS)
            _listen_everywhere(self._socket)
        except BaseException:
            self._socket.close()
            raise
        self._next = 0
        self._poll = select.poll()
        self._poll.register(self._socket.fileno(), select.POLLIN | select.POLLERR)

    def wait(self, timeout_s: float) -> None:
        """Return when there is a block, or after ``timeout_s``."""
        self._poll.poll(int(timeout_s * 1000))

    def read(self) -> Iterator[tuple[int, bytes, int]]:
        """All packets that the kernel has given away: (wall clock in ns, IPv4 packet, bytes that it had)."""
        memory = self._memory
        for _ in range(BLOCKS):
            begin = self._next * BLOCK_BYTES
            status, packets, first = _BLOCK.unpack_from(memory, begin)
            if not status & _USER:
                return
            at = begin + first
            for _ in range(packets):
                step, seconds, ns, kept, size, _, _, net = _PACKET.unpack_from(memory, at)
                yield seconds * 1_000_000_000 + ns, memory[at + net : at + net + kept], size
                at += step
            _STATUS.pack_into(memory, begin + 8, _KERNEL)
            self._next = (self._next + 1) % BLOCKS

    def lost(self) -> int:
        """Packets that found no room since the last question."""
        _, dropped, _ = _STATISTICS.unpack(self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        return int(dropped)

    def close(self) -> None:
        """Stop; what was not read is gone."""
        self._memory.close()
        self._socket.close()
