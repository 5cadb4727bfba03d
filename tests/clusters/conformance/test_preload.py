"""A preloaded library on every backend: what it changes for the node alone, and what it tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from clusters.backends.shim.clock import ClockShim
from clusters.backends.shim.compile import shim_library
from clusters.backends.shim.preload import with_shims
from clusters.collect.wall_clock import TRUE_CLOCK, Setting, read_changes
from clusters.shared import Sharing
from tests.clusters.conformance.lab import PATIENCE_S, SERVER, Lab, within

HOUR_NS = 3_600_000_000_000
NEAR_NS = 2_000_000_000


@pytest.mark.shows("clock-jump", "clock-drift", "clock-strobe")
def test_the_wall_clock_of_a_node_is_faked_while_it_runs_and_after_a_restart(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    spec, cluster = lab.specs["n1"], lab.cluster
    assert isinstance(cluster, Sharing)

    def wall_ns(node: str) -> int:
        clock = cluster.clocks().get(node)
        return time.time_ns() + (clock.wall_ahead_ns if clock else 0)

    shim = ClockShim(shim_library("clock"), time.monotonic_ns, wall_ns)
    cluster.install([shim.library])

    def serve() -> int:
        site = cluster.site
        argv = (site.python, "-c", SERVER, spec.address, str(spec.port), site.inside(spec.data))
        launch = lab.launch("n1", *argv)
        launch = with_shims(launch, [shim], spec, lab.starts["n1"], site)
        cluster.start("n1", launch)
        assert within(PATIENCE_S, lambda: lab.ask("n1", "echo ready", 2.0) == "ready"), lab.output("n1")
        return lab.starts["n1"]

    def read_clocks() -> tuple[int, int]:
        """The wall clock and the monotonic one, as the node reads them."""
        wall, monotonic = (lab.ask("n1", "clocks") or "").split()
        return int(wall), int(monotonic)

    def ahead_ns() -> int:
        wall, monotonic = read_clocks()
        assert abs(monotonic - last_monotonic.pop()) < 60 * NEAR_NS
        last_monotonic.append(monotonic)
        return wall - wall_ns("n1")

    incarnation = serve()
    last_monotonic = [read_clocks()[1]]
    assert abs(ahead_ns()) < NEAR_NS
    assert shim.answers(cluster, spec).loaded

    now = wall_ns("n1")
    generation = shim.change(cluster, spec, incarnation, Setting(base_real_ns=now, base_fake_ns=now - HOUR_NS))
    assert abs(ahead_ns() + HOUR_NS) < NEAR_NS
    told = shim.answers(cluster, spec)
    assert (told.generation, told.offset_ns) == (generation, -HOUR_NS)
    assert told.count > 0

    lab.kill("n1")
    incarnation = serve()
    assert abs(ahead_ns() + HOUR_NS) < NEAR_NS, "a restart does not set the clock right"

    now = wall_ns("n1")
    shim.change(cluster, spec, incarnation, Setting(base_real_ns=now, base_fake_ns=now, rate=1.5))
    began = read_clocks()
    assert within(PATIENCE_S, lambda: read_clocks()[1] - began[1] > NEAR_NS // 10)
    ended = read_clocks()
    assert (ended[0] - began[0]) / (ended[1] - began[1]) == pytest.approx(1.5, abs=0.05)

    now = wall_ns("n1")
    strobe = Setting(base_real_ns=now, base_fake_ns=now, strobe_ns=HOUR_NS, period_ns=NEAR_NS // 100)
    shim.change(cluster, spec, incarnation, strobe)
    for hours in (1, 0, 1):
        assert within(PATIENCE_S, lambda hours=hours: round(ahead_ns() / HOUR_NS) == hours)

    shim.change(cluster, spec, incarnation, TRUE_CLOCK)
    assert abs(ahead_ns()) < NEAR_NS
    assert [change.incarnation for change in read_changes(spec.directory)] == [1, 1, 2, 2, 2, 2]
