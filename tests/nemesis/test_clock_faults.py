"""Faults of the wall clock: where they can have no effect, and what one costs Apache Kafka. Others: ``test_fault_effects.py``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.backends.local.cluster import LocalCluster
from clusters.backends.shim.clock import ClockShim
from clusters.backends.shim.preload import control_file, with_shims
from clusters.cluster import HERE, Launch, NodeSpec
from nemesis.faults.clock import jump
from nemesis.life.plan import TIMERS
from tests.nemesis.short_runs import Lived, fault

S = 1_000_000_000


def test_a_clock_that_the_program_never_asked_is_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is linked statically leaves the control file as it was."""
    monkeypatch.setattr("nemesis.faults.clock._SEEN_PATIENCE_S", 0.05)
    node = NodeSpec("n1", 1, "voter", "10.77.0.1", 9093, tmp_path)
    shim = ClockShim(tmp_path / "clock.so", lambda: 0, lambda _: 1_800_000_000 * S)
    with_shims(Launch(("node",), {}, tmp_path, tmp_path / "1.log"), [shim], node, 1, HERE)
    cluster = LocalCluster([node], tmp_path / "ledger")
    nodes = SimpleNamespace(specification=lambda _: node, incarnation=lambda _: 1, clock_changed=lambda *_: None)
    field: Any = SimpleNamespace(shims={"clock": shim}, cluster=cluster, nodes=nodes)
    effect = asyncio.run(jump(field, "n1", -3000))
    assert not effect.verified
    assert "the preloaded clock did not take effect in n1" in effect.detail
    path = control_file(node, "clock")
    seen = path.read_bytes()
    path.write_bytes(seen[:-48] + (1).to_bytes(8, "little") + seen[-40:])
    effect = asyncio.run(jump(field, "n1", -3000))
    assert not effect.verified
    assert "n1 did not ask for the time" in effect.detail


@pytest.mark.kafka
@pytest.mark.namespaces
@pytest.mark.shows("clock-back-without-leader", made_of=("clock-jump", "kill"))
def test_kafka_leads_nobody_while_its_clock_catches_up_and_its_log_tells_the_true_time(tmp_path: Path) -> None:
    """KRaft's timers read the wall clock and never go back (seen on 4.1.2): the one follower that is left votes for nobody meanwhile."""
    body = fault("clock-back-without-leader", 5.0, offset_ms=3000)
    lived = Lived(tmp_path, body, duration_s=9.5, candidate="kafka", version="4.1.2", timers=TIMERS)
    (row,) = lived.faults
    assert row["verified"], row["detail"]
    back, killed = row["targets"]
    kill_ns = lived.rows("lifecycle", node=killed, kind="kill")[0]["ts_ns"]
    claims = [
        (each["ts_ns"], each["node"], each["epoch"])
        for each in lived.rows("quorum_samples", claims_leadership=True, error=None)
        if each["epoch"] > row["leader_epoch"]
    ]
    led_ns, leader, epoch = min(claims)
    assert led_ns - kill_ns > 3 * S
    elected = lived.rows("node_events", node=leader, kind="state", state="leader", epoch=epoch)[0]["ts_ns"]
    assert abs(led_ns - elected) < 2 * S, f"{leader} says when it was elected; {back} was three seconds behind"
    stood = [each["ts_ns"] for each in lived.rows("node_events", node=back, kind="state") if each["ts_ns"] > kill_ns]
    assert stood, f"{back} wrote nothing after the jump that is dated after it"
