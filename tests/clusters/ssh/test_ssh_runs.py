"""What a person does with machines, through real processes: examine them, run on them, kill the controller, clean up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.clusters.ssh.machines import AHEAD_S, within
from tests.clusters.ssh.test_ssh_agents import carriers
from tests.nemesis.described import REFERENCE

pytestmark = [pytest.mark.ssh, pytest.mark.spark, pytest.mark.sweeps]

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120.0


def nemesis(tmp_path, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state")}
    return subprocess.Popen(
        [sys.executable, "-m", "nemesis", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process, code):
    out, err = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == code, out + err
    return out


def runs_of(machines):
    return [path.name for number in range(1, machines.count + 1) for path in machines.disk(number).glob("runs/*")]


def test_a_run_on_machines_is_judged_like_any_other_and_leaves_nothing(machines, tmp_path):
    place = ("--cluster", "ssh", "--inventory", machines.inventory, "--store", tmp_path / "runs")
    options = ("--timers", "short", "--duration", 8, "--rate", 200, "--seed", 7, "--json")
    told = json.loads(done(nemesis(tmp_path, "run", "partition-leader", *place, *options), 0))
    (run,) = (tmp_path / "runs").glob("*/*")
    assert told["schema_version"] == 1
    manifest = json.loads((run / "run.json").read_text())
    assert (manifest["backend"], [node["host"] for node in manifest["nodes"]]) == (
        "ssh",
        ["10.88.1.2", "10.88.2.2", "10.88.3.2"],
    )
    faults = pq.read_table(run / "tables" / "faults.parquet").to_pylist()
    assert faults
    assert all(fault["verified"] for fault in faults), faults
    ended_ns = max(phase["ended_ns"] for phase in manifest["phases"])
    events = pq.read_table(run / "tables" / "node_events.parquet").to_pylist()
    assert {event["node"] for event in events} == {"n1", "n2", "n3"}
    assert all(0 < event["ts_ns"] < ended_ns for event in events)
    for number, node in enumerate(manifest["nodes"], start=1):
        assert abs(node["clock_ahead_ns"] - AHEAD_S * number * 10**9) <= node["clock_error_ns"] < 50_000_000
        assert abs(node["wall_ahead_ns"]) < 50_000_000
    assert pq.read_table(run / "tables" / "log_entries.parquet").num_rows > 100
    for number in (1, 2, 3):
        assert machines.run(number, "nft list tables") == ""
    assert runs_of(machines) == []
    assert list((tmp_path / "state").glob("nemesis/ledger/*")) == []


def test_after_a_killed_controller_agents_and_the_next_command_leave_nothing(machines, tmp_path):
    place = ("--cluster", "ssh", "--inventory", machines.inventory, "--store", tmp_path / "runs")
    process = nemesis(tmp_path, "run", "partition-leader", *place, "--timers", "short", "--duration", 60)
    assert within(
        PATIENCE_S, lambda: any("{ 10.99.0." in machines.run(number, "nft list ruleset") for number in (1, 2, 3))
    ), process.poll()
    (lab,) = set(runs_of(machines))
    process.kill()
    process.communicate()
    assert within(PATIENCE_S, lambda: carriers(f"NEMESIS_LAB={lab}") == [])
    assert within(PATIENCE_S, lambda: all(machines.run(number, "nft list tables") == "" for number in (1, 2, 3))), (
        "rules stay"
    )
    told = done(nemesis(tmp_path, "clean", "--dry-run"), 0)
    assert f"left: {lab} of" in told
    assert f"files in {machines.plan['data']}/runs/{lab} on root@10.88.3.2:2203" in told
    assert f"left: {lab} on root@10.88.1.2:2201" in done(
        nemesis(tmp_path, "clean", "--dry-run", "--inventory", machines.inventory), 0
    )
    assert f"removed: {lab} of" in done(nemesis(tmp_path, "clean"), 0)
    (run,) = (tmp_path / "runs").glob("*/*")
    assert len(list(run.glob("nodes/n?/data/__cluster_metadata-0/*.log"))) >= 3
    assert len(list(run.glob("nodes/n?/trace/1.jsonl"))) == 3
    assert runs_of(machines) == []
    assert done(nemesis(tmp_path, "clean", "--inventory", machines.inventory), 0) == "nothing is left behind\n"


def test_the_doctor_tries_machines_and_says_what_is_missing(machines, tmp_path):
    told = json.loads(done(nemesis(tmp_path, "doctor", "--inventory", machines.inventory, "--json"), 0))
    assert {row["check"] for row in told["checks"]} >= {"ssh and agents", "one-way cuts", "faults of packets"}
    assert all(row["ok"] for row in told["checks"] if row["check"] != "Java for Apache Kafka")
    # A packet filter of somebody else's between two machines.
    machines.run(
        2,
        "nft -f - <<'END'\ntable ip wall {\n chain door {\n  type filter hook input priority 0;\n"
        "  ip saddr 10.99.0.1 udp dport 9093 drop\n }\n}\nEND",
    )
    try:
        told = json.loads(done(nemesis(tmp_path, "doctor", "--inventory", machines.inventory, "--json"), 255))
    finally:
        machines.run(2, "nft delete table ip wall")
    (failed,) = [row for row in told["checks"] if not row["ok"]]
    assert failed["check"] == "data addresses"
    assert "from root@10.88.1.2:2201 (10.99.0.1) to root@10.88.2.2:2202 (10.99.0.2) was lost" in failed["detail"]
    assert "UDP on port 9093 must pass" in failed["remedy"]
    assert runs_of(machines) == []


def test_a_described_program_is_tried_on_a_machine(machines, tmp_path):
    file = tmp_path / "stranger.toml"
    file.write_text(REFERENCE)
    told = done(
        nemesis(tmp_path, "doctor", "--candidate", file, "--cluster", "ssh", "--inventory", machines.inventory), 0
    )
    assert "all steps went well" in told
    assert runs_of(machines) == []
