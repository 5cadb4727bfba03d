"""What shaping does to packets: shares, order, times; all from a seed, without a network."""

from __future__ import annotations

import statistics
import struct
from random import Random

from clusters.backends.companions.segments import Resetter
from clusters.backends.companions.shape import Shape, Stage

MS = 1_000_000
PACKETS = 20_000


def run(
    shape: Shape, *, gap_ms: float = 1.0, size: int = 1000, seed: int = 1
) -> tuple[Stage, list[tuple[int, int, int]]]:
    """The stage, and (when it came, when it left, its number) of each packet that left, in the order of leaving."""
    stage = Stage(shape, Random(seed), 0)
    left = []
    for index in range(PACKETS):
        came_ns = int(index * gap_ms * MS)
        left += [(due_ns, came_ns, number) for due_ns, number in stage.offer(came_ns, size)]
        stage.held = 0
    for due_ns, came_ns, number in sorted(left):
        stage.left(due_ns, came_ns, number)
    return stage, [(came_ns, due_ns, number) for due_ns, came_ns, number in sorted(left)]


def test_nothing_asked_nothing_done() -> None:
    stage, left = run(Shape())
    assert all(came == due for came, due, _ in left)
    counts = stage.counts
    assert (counts.seen, counts.sent, counts.delayed, counts.lost, counts.reordered) == (PACKETS, PACKETS, 0, 0, 0)


def test_the_same_seed_does_the_same_and_another_one_does_not() -> None:
    shape = Shape(delay_ms=5, jitter_ms=4, loss_percent=10, duplicate_percent=5, reorder_percent=5, reorder_ms=10)
    assert run(shape)[1] == run(shape)[1]
    assert run(shape)[1] != run(shape, seed=2)[1]


def test_jitter_spreads_as_asked_and_never_reorders() -> None:
    for distribution, mean, spread in (("uniform", 20, 10 / 3**0.5), ("normal", 20, 10.0), ("pareto", 30, None)):
        stage, left = run(Shape(delay_ms=20, jitter_ms=10, distribution=distribution), gap_ms=500)
        held = [(due - came) / MS for came, due, _ in left]
        assert abs(statistics.fmean(held) - mean) < 1, distribution
        assert spread is None or abs(statistics.stdev(held) - spread) < 1
        assert stage.counts.reordered == 0
    stage, left = run(Shape(delay_ms=20, jitter_ms=10))
    assert stage.counts.reordered == 0
    assert [number for _, _, number in left] == sorted(number for _, _, number in left)


def test_losses_have_their_share_and_their_run_length() -> None:
    for mean_run in (1.0, 4.0):
        _, left = run(Shape(loss_percent=20, loss_run=mean_run))
        kept = {came // MS for came, _, _ in left}
        lost = [index not in kept for index in range(PACKETS)]
        runs = sum(now and not before for before, now in zip([False, *lost], lost, strict=False))
        assert abs(sum(lost) / PACKETS - 0.2) < 0.02
        assert abs(sum(lost) / runs - max(mean_run, 1.25)) < 0.3, "runs of independent losses are 1 / (1 - share) long"
    assert run(Shape(loss_percent=100))[1] == []


def test_duplicates_and_overtaken_packets_are_counted_as_they_left() -> None:
    stage, left = run(Shape(duplicate_percent=10))
    assert stage.counts.duplicated == len(left) - PACKETS
    assert abs(stage.counts.duplicated / PACKETS - 0.1) < 0.02
    stage, left = run(Shape(reorder_percent=10, reorder_ms=5))
    newest, overtaken = 0, 0
    for _, _, number in left:
        overtaken += number < newest
        newest = max(newest, number)
    assert stage.counts.reordered == overtaken
    assert abs(overtaken / PACKETS - 0.1) < 0.02


def test_a_pipe_has_its_rate_and_a_bounded_queue() -> None:
    stage, left = run(Shape(rate_kbit=4000, queue_kib=64))  # 8000 kbit/s are offered
    last_ns = max(due for _, due, _ in left)
    assert abs(len(left) * 8 / (last_ns / MS) - 4.0) < 0.1
    assert max(due - came for came, due, _ in left) <= (64 * 1024 + 1000) * 8 / 4000 * MS + 1000
    assert stage.counts.overflowed == PACKETS - len(left) > 0


def segment(flags: int, *, port: int = 5000, sequence: int = 100, acknowledged: int = 200) -> bytes:
    body = struct.pack(">HHIIBBHHH", port, 9093, sequence, acknowledged, 5 << 4, flags, 0, 0, 0)
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])) + body


def test_connections_that_stood_are_reset_once_an_interval_and_new_ones_are_spared() -> None:
    resetter = Resetter(1000, 0)
    answers = resetter.offer(segment(0x18), 10)
    assert answers is not None
    back, on = (struct.unpack_from(">4s4sHHI", packet, 12) for packet in answers)
    assert back == (bytes([10, 0, 0, 2]), bytes([10, 0, 0, 1]), 9093, 5000, 200), (
        "the sender expects what it acknowledged"
    )
    assert on == (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), 5000, 9093, 100)
    assert resetter.offer(segment(0x10), 20) is not None, "it did not take the first one"
    assert resetter.offer(segment(0x02, port=5001), 30) is None
    assert resetter.offer(segment(0x18, port=5001), 40) is None
    assert resetter.offer(segment(0x04), 50) is None
    assert (resetter.count, resetter.moments) == (1, 1)
    assert resetter.offer(segment(0x18, port=5001), 1010) is not None
    assert (resetter.count, resetter.moments) == (2, 2)
