"""What a capture says of time, and of what had no room; its packets are in ``tests/clusters/conformance/test_links.py``."""

from __future__ import annotations

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.backends.companions.capture import PCAP_HEAD, Capture, WallClock
from clusters.backends.companions.packet_ring import filter_program

S = 1_000_000_000


@given(
    step_ns=st.one_of(st.just(0), st.integers(-100 * S, -S), st.integers(S, 100 * S)),
    stepped_ns=st.integers(0, 200_000_000),
    stamped_ns=st.integers(0, 200_000_000),
)
def test_a_step_of_the_wall_clock_moves_no_packet(step_ns: int, stepped_ns: int, stamped_ns: int) -> None:
    """Stamps of before and after the step are told apart, for only one of the two distances puts them between the readings."""
    begin, end, wall = 50 * S, 50 * S + 200_000_000, 1_700_000_000 * S
    clock = WallClock(begin, wall)
    clock.read(end, wall + 200_000_000 + step_ns)
    stamp = wall + stamped_ns + (step_ns if stamped_ns >= stepped_ns else 0)
    assert clock.monotonic_ns(stamp) == begin + stamped_ns


def test_no_packet_is_later_than_the_reading_after_it() -> None:
    clock = WallClock(10 * S, 100 * S)
    clock.read(11 * S, 101 * S - 1000)
    assert clock.monotonic_ns(101 * S - 500) == 11 * S


def test_the_oldest_bytes_are_taken_first_and_an_answer_is_never_too_long() -> None:
    capture = Capture()
    noise = bytes(range(256)) * 40 + b"".join(number.to_bytes(4, "big") for number in range(200_000))
    capture._kept += noise
    parts = []
    while True:
        taken = capture.take()
        assert len(taken["data"]) <= 1 << 17
        parts.append(gzip.decompress(base64.b64decode(taken["data"])))
        if not taken["left"]:
            break
    assert b"".join(parts) == PCAP_HEAD + noise
    assert len(parts) > 1


def accepts(program: list[tuple[int, int, int, int]], packet: bytes) -> bool:
    """Run a classic BPF program, as far as the filter uses it, on an IPv4 packet."""
    at, value, index = 0, 0, 0
    for _ in range(len(program)):
        code, yes, no, operand = program[at]
        at += 1
        if code == 0x20:
            value = 0x0800 if operand >= 1 << 31 else int.from_bytes(packet[operand : operand + 4], "big")
        elif code == 0x28:
            value = int.from_bytes(packet[operand : operand + 2], "big")
        elif code == 0x30:
            value = packet[operand]
        elif code == 0xB1:
            index = (packet[operand] & 15) * 4
        elif code == 0x48:
            value = int.from_bytes(packet[index + operand : index + operand + 2], "big")
        elif code in (0x15, 0x45):
            at += yes if (value == operand if code == 0x15 else value & operand) else no
        else:
            assert code == 0x06
            return operand > 0
    raise AssertionError("the program has no end")


def packet(
    source: int, destination: int, ports: tuple[int, int], *, protocol: int = 6, fragment: int = 0, options: int = 0
) -> bytes:
    head = bytes([0x45 + options, 0, 0, 40, 0, 0, fragment >> 8, fragment & 255, 64, protocol, 0, 0])
    addresses = bytes([10, 77, 0, source, 10, 77, 0, destination])
    return head + addresses + bytes(4 * options) + ports[0].to_bytes(2, "big") + ports[1].to_bytes(2, "big") + bytes(16)


@pytest.mark.parametrize("nodes", [2, 100, 200])
def test_the_filter_lets_through_what_nodes_say_to_listeners(nodes: int) -> None:
    program = filter_program(9093, [f"10.77.0.{number}" for number in range(1, nodes + 1)])
    assert all(jump <= 255 for _, yes, no, _ in program for jump in (yes, no))
    assert accepts(program, packet(1, 2, (40000, 9093)))
    assert accepts(program, packet(nodes, 1, (9093, 40000)))
    assert accepts(program, packet(2, 1, (9093, 40000), options=3)), "a longer header"
    assert not accepts(program, packet(1, 2, (40000, 9094)))
    assert not accepts(program, packet(1, 2, (40000, 9093), protocol=17))
    assert not accepts(program, packet(1, 2, (40000, 9093), fragment=100))
    if nodes <= 100:
        assert not accepts(program, packet(254, 2, (40000, 9093))), "a client"
        assert not accepts(program, packet(1, 254, (9093, 40000)))
