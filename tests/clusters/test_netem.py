"""What of a shape goes to netem, with which settings, and why the rest does not."""

from __future__ import annotations

import random
import statistics

import pytest

from clusters.backends.companions.netem import TABLE_SCALE, Netem, Pipe, in_kernel
from clusters.backends.companions.shape import Shape, Stage

ALWAYS = 2**32 - 1
DRAWS = 40_000


def test_what_is_asked_for_alone_has_settings_of_its_own() -> None:
    assert in_kernel(Shape(delay_ms=1.5)) == Netem(delay_ns=1_500_000)
    assert in_kernel(Shape(delay_ms=50, jitter_ms=20)) == Netem(delay_ns=50_000_000, jitter_ns=20_000_000)
    assert in_kernel(Shape(loss_percent=100)) == Netem(loss=ALWAYS)
    assert in_kernel(Shape(duplicate_percent=50)) == Netem(copies=round(ALWAYS / 2))
    assert in_kernel(Shape(rate_kbit=64, queue_kib=8)) == Pipe(rate=8_000, queue_bytes=8_192)


def test_those_that_others_shall_overtake_are_delayed_and_the_others_are_not() -> None:
    held = in_kernel(Shape(reorder_percent=25, reorder_ms=20))
    assert isinstance(held, Netem)
    assert (held.delay_ns, held.at_once) == (20_000_000, pytest.approx(0.75 * ALWAYS, rel=1e-6))


@pytest.mark.parametrize("distribution", ["normal", "pareto"])
def test_a_table_draws_what_the_userspace_mechanism_draws(distribution: str) -> None:
    shape = Shape(delay_ms=100, jitter_ms=20, distribution=distribution)
    made = in_kernel(shape)
    assert isinstance(made, Netem)
    by_table = sorted(made.delay_ns + each * made.jitter_ns / TABLE_SCALE for each in made.table)
    stages = (Stage(shape, random.Random(seed), 0) for seed in range(DRAWS))
    drawn = sorted(stage.offer(0, 100)[0][0] for stage in stages)
    assert statistics.mean(by_table) == pytest.approx(statistics.mean(drawn), rel=0.01)
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        kernel, ours = (each[int(share * len(each))] for each in (by_table, drawn))
        assert kernel == pytest.approx(ours, rel=0.03), share
    assert min(by_table) >= 0


def test_runs_of_losses_have_the_share_and_the_length_that_are_asked_for() -> None:
    made = in_kernel(Shape(loss_percent=20, loss_run=4))
    assert isinstance(made, Netem)
    assert made.run is not None
    begin, end = (each / ALWAYS for each in made.run)
    assert begin / (begin + end) == pytest.approx(0.2)
    assert 1 / end == pytest.approx(4)
    assert made.loss == 0


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        (Shape(reset_every_ms=100), "connection"),
        (Shape(rate_kbit=64, delay_ms=10), "queue of a pipe"),
        (Shape(rate_kbit=64, loss_percent=10), "queue of a pipe"),
        (Shape(duplicate_percent=1, loss_percent=1), "repeats"),
        (Shape(duplicate_percent=1, jitter_ms=1), "repeats"),
        (Shape(reorder_percent=1, reorder_ms=1, delay_ms=1), "overtake"),
        (Shape(delay_ms=60_000), "long after the fault"),
        (Shape(jitter_ms=500, distribution="pareto"), "long after the fault"),
        (Shape(reorder_percent=1, reorder_ms=5_000), "long after the fault"),
    ],
)
def test_what_netem_would_do_otherwise_stays_in_userspace_with_the_reason(shape: Shape, why: str) -> None:
    found = in_kernel(shape)
    assert isinstance(found, str)
    assert why in found
