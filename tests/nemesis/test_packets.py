"""Packet faults: which links they shape, and that one that touched no packet did not happen."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from clusters.backends.companions.shape import Counts, Shape
from nemesis.faults.catalogue import CATALOGUE
from nemesis.faults.kinds.packets import PACKET_FAULTS
from nemesis.faults.packets import ShapeLinks, judge, told_mechanism
from nemesis.faults.registry import fault_of
from nemesis.faults.schedule import PlannedFault


def counts(
    *, echo_ms: tuple[float, ...] = (), by: str = "userspace", waiting: int = 0, **counted: int
) -> dict[str, Any]:
    measured = {"echo_ms": list(echo_ms), "echoes": 9, "waiting": waiting, "moments": 0, "device_dropped": 0, "by": by}
    return {**asdict(Counts(**counted)), **measured}


def shaped(name: str, **values: float | str) -> ShapeLinks:
    fault = fault_of(PlannedFault(0, name, 0, 0, False, 0.0, parameters=tuple(values.items())))
    assert isinstance(fault, ShapeLinks)
    return fault


@pytest.mark.parametrize("name", [kind.name for kind in PACKET_FAULTS])
def test_each_packet_fault_does_something_by_default_and_is_unverified_where_no_packet_was_sent(name: str) -> None:
    shape = shaped(name).shape
    assert shape != Shape()
    effect = judge(shape, {("n1", "n2"): counts()})
    assert not effect.verified
    assert "the nodes sent nothing there" in effect.detail
    assert CATALOGUE[name].needs == {"packets"}


def test_parameters_reach_the_shape_under_its_names() -> None:
    assert shaped("loss", percent=30.0, run=4.0).shape == Shape(loss_percent=30.0, loss_run=4.0)
    assert shaped("reorder", percent=5.0, by_ms=7.0).shape == Shape(reorder_percent=5.0, reorder_ms=7.0)
    reset = shaped("connection-reset", every_ms=300)
    assert (reset.shape, reset.direction) == (Shape(reset_every_ms=300), "out")


@pytest.mark.parametrize(
    ("shape", "happened"),
    [
        (Shape(loss_percent=1), {"lost": 1}),
        (Shape(duplicate_percent=1), {"duplicated": 1}),
        (Shape(reorder_percent=1), {"reordered": 1}),
        (Shape(delay_ms=1), {"delayed": 1}),
        (Shape(rate_kbit=64), {"overflowed": 1}),
        (Shape(reset_every_ms=100), {"reset": 1}),
    ],
)
def test_what_was_asked_for_must_have_happened_to_a_packet_of_the_nodes(shape: Shape, happened: dict[str, int]) -> None:
    seen = {("n1", "n2"): counts(seen=10, sent=9), ("n2", "n1"): counts(seen=10, sent=9)}
    assert not judge(shape, seen).verified
    assert judge(shape, {**seen, ("n2", "n1"): counts(seen=10, sent=9, **happened)}).verified


def test_of_several_things_a_rare_one_may_stay_out_and_a_frequent_one_may_not() -> None:
    shape = Shape(delay_ms=5, loss_percent=1, loss_run=4)
    late = {"delayed": 1, "held_ns": 5_000_000}
    assert judge(shape, {("n1", "n2"): counts(seen=400, sent=400, **late)}).verified
    assert not judge(shape, {("n1", "n2"): counts(seen=40_000, sent=40_000, **late)}).verified


def test_a_delay_that_round_trips_do_not_show_is_unverified() -> None:
    seen = {"seen": 10, "sent": 10, "delayed": 10, "held_ns": 1_000_000_000}
    shape = Shape(delay_ms=100, jitter_ms=20)
    assert judge(shape, {("n1", "n2"): counts(**seen, echo_ms=(85.0, 103.0, 110.0))}).verified
    short = judge(shape, {("n1", "n2"): counts(**seen, echo_ms=(1.0, 2.0, 110.0))})
    assert not short.verified
    assert "shorter than the delay" in short.detail
    assert "held for 100.0 ms on average" in short.detail


def test_a_delay_by_netem_is_verified_by_round_trips_or_by_packets_that_wait_there() -> None:
    seen = {"seen": 10, "sent": 10, "delayed": 10}
    assert judge(Shape(delay_ms=100), {("n1", "n2"): counts(**seen, by="netem", echo_ms=(101.0,))}).verified
    assert judge(Shape(delay_ms=100), {("n1", "n2"): counts(**seen, by="netem", waiting=1)}).verified
    unmeasured = judge(Shape(delay_ms=100), {("n1", "n2"): counts(**seen, by="netem")})
    assert (unmeasured.verified, "no round trip was measured" in unmeasured.detail) == (False, True)


def test_who_shapes_is_told_once_with_each_reason_for_userspace() -> None:
    assert told_mechanism(["", ""]) == "by netem"
    assert told_mechanism(["", "no netem", "no netem"]) == "by netem; in userspace: no netem"
