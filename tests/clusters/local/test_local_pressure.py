"""CPU and memory taken away from one node of the local backend, as the node itself feels it."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
from local_lab import PATIENCE_S, within

from clusters.cluster import Launch
from clusters.pressure import Pressing

pytestmark = pytest.mark.namespaces

SPIN = "while True: pass"
GROW = """
import sys, time
kept = []
while True:
    try:
        kept.append(bytearray(8 << 20))
        print("grew", len(kept), flush=True)
    except MemoryError:
        print("refused", len(kept), flush=True)
    time.sleep(0.02)
    if len(kept) > 12:
        kept.clear()
"""


def launch(lab: Any, node: str, code: str) -> Any:
    output = lab.run / "output" / f"{node}.pressure.log"
    output.unlink(missing_ok=True)
    lab.cluster.start(node, Launch((sys.executable, "-S", "-u", "-c", code), {}, lab.run, output))
    return output


def use_over(lab: Any, node: str, seconds_run: float) -> tuple[float, float]:
    """(ran, waited) of the node until it has run and waited for so long together."""
    first = lab.cluster.cpu(node)
    assert within(
        PATIENCE_S,
        lambda: sum(_since(first, lab.cluster.cpu(node))) > seconds_run,
    )
    return _since(first, lab.cluster.cpu(node))


def _since(first: Any, last: Any) -> tuple[float, float]:
    return last.running_s - first.running_s, last.waiting_s - first.waiting_s


def test_a_node_under_pressure_waits_for_the_cpu_and_not_after(lab: Any) -> None:
    assert isinstance(lab.cluster, Pressing)
    launch(lab, "n1", SPIN)
    assert lab.cluster.press_cpu("n1", 8, 60.0) == 1
    ran, waited = use_over(lab, "n1", 2.0)
    assert waited > 2 * ran, "eight burners beside it leave a ninth"
    lab.cluster.release_cpu("n1")
    lab.cluster.release_cpu("n1")
    share = waited / (ran + waited)
    ran, waited = use_over(lab, "n1", 1.0)
    assert waited / (ran + waited) < share


def test_burners_are_no_part_of_the_node_and_end_with_the_lab(make_lab: Any) -> None:
    lab = make_lab(2)
    launch(lab, "n1", SPIN)
    lab.cluster.press_cpu("n1", 2, 60.0)
    lab.cluster.signal("n1", signal.SIGKILL)
    assert lab.cluster.wait_exit("n1", PATIENCE_S), "a burner was taken for the node's process"
    lab.cluster.down()


def test_allocations_fail_under_a_bound_and_succeed_without(lab: Any) -> None:
    output = launch(lab, "n2", GROW)
    assert within(PATIENCE_S, lambda: "grew 3" in output.read_text())
    bound = lab.cluster.limit_memory("n2", 4 << 20)
    assert bound > 0
    assert within(PATIENCE_S, lambda: "refused" in output.read_text())
    lab.cluster.free_memory("n2")
    told = output.read_text()
    assert within(PATIENCE_S, lambda: "grew" in output.read_text()[len(told) :])


def test_a_node_without_a_process_is_left_alone(lab: Any) -> None:
    assert lab.cluster.limit_memory("n1", 0) == 0
    assert lab.cluster.press_cpu("n1", 1, 1.0) == 0
    lab.cluster.release_cpu("n1")
    lab.cluster.free_memory("n1")
