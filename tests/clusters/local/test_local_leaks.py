"""Nothing of a lab outlives its controller, however the controller ends, and the ledger knows until the next command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_lab import PATIENCE_S, carriers, within

from clusters.backends import ledger as ledgers
from clusters.backends import leftovers
from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes
from workloads.problem import Problem

pytestmark = pytest.mark.namespaces

PROJECT = Path(__file__).resolve().parents[3]

CONTROLLER = """
import sys, time
from pathlib import Path
from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes
from clusters.cluster import Launch

run, name = Path(sys.argv[1]), sys.argv[2]
cluster = LocalCluster(plan_nodes(run, 3), run / "ledger")
cluster.up()
for node in ("n1", "n2"):
    orphan = f"(env -i setsid sh -c 'sleep 600; :' {name} &)"
    cluster.start(node, Launch(("sh", "-c", f"{orphan}; exec sleep 600"), {}, run, run / "output.log"))
print(cluster.lab, flush=True)
time.sleep(600)
"""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A controller in a process of its own with two nodes and an orphan each: process, lab, name of the orphans."""
    name = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(tmp_path), name],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdout is not None
    lab = process.stdout.readline().strip()
    assert within(PATIENCE_S, lambda: len(carriers(name)) >= 2)
    yield process, lab, name
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_survives_a_killed_controller_and_the_sweep_clears_its_ledger(
    controller: tuple[subprocess.Popen[str], str, str], tmp_path: Path, number: int
) -> None:
    process, lab, name = controller
    directory = tmp_path / "ledger"
    mark = f"NEMESIS_LAB={lab}"
    # In the middle of an exec a process has no environment.
    assert within(PATIENCE_S, lambda: len(carriers(mark)) >= 4)
    assert leftovers.pending(directory) == []
    process.send_signal(number)
    process.wait(PATIENCE_S)
    assert within(PATIENCE_S, lambda: not carriers(mark) and not carriers(name))
    # A process that is ending has lost its environment a moment before it is gone.
    assert within(PATIENCE_S, lambda: not any(left.remains for left in leftovers.pending(directory)))
    (left,) = leftovers.pending(directory)
    assert (left.lab, left.run, left.controller, left.remains) == (lab, str(tmp_path), process.pid, ())
    assert [each.lab for each in leftovers.sweep(directory)] == [lab]
    assert list(directory.iterdir()) == []
    assert leftovers.sweep(directory) == []


def test_the_sweep_ends_an_agent_that_outlived_its_controller(tmp_path: Path) -> None:
    # An agent that survives cannot be had on purpose: any process stands for it, as it stands in the ledger.
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as survivor:
        agent = ledgers.started(survivor.pid)
        assert agent is not None
        ledgers.write(tmp_path, dead_entry("lab-1-dead", (agent,)))
        assert [left.remains for left in leftovers.pending(tmp_path)] == [(f"process {survivor.pid}",)]
        assert survivor.poll() is None
        assert [left.problem for left in leftovers.sweep(tmp_path)] == [None]
        assert survivor.wait(PATIENCE_S) == -signal.SIGKILL
    assert leftovers.pending(tmp_path) == []


def test_a_process_that_has_the_number_of_a_dead_agent_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        own = ledgers.started(stranger.pid)
        assert own is not None
        ledgers.write(tmp_path, dead_entry("lab-1-dead", (ledgers.Started(own.pid, own.ticks - 1),)))
        assert [left.remains for left in leftovers.sweep(tmp_path)] == [()]
        assert stranger.poll() is None
        stranger.kill()
    assert list(tmp_path.iterdir()) == []


def dead_entry(lab: str, agents: tuple[ledgers.Started, ...]) -> ledgers.Entry:
    """The entry of a controller that has ended: this process's number with another start."""
    entry = ledgers.new_entry(lab, Path("/run"))
    return ledgers.Entry(
        lab=lab,
        run=entry.run,
        host=entry.host,
        boot=entry.boot,
        pid_namespace=entry.pid_namespace,
        controller=ledgers.Started(entry.controller.pid, entry.controller.ticks - 1),
        agents=agents,
        written=entry.written,
    )


def test_entries_of_other_hosts_and_process_namespaces_are_left_alone(tmp_path: Path) -> None:
    entry = dead_entry("lab-1-dead", ())
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    ledgers.write(tmp_path, ledgers.Entry(**{**fields, "lab": "lab-1-far", "host": "elsewhere"}))
    ledgers.write(tmp_path, ledgers.Entry(**{**fields, "lab": "lab-1-inner", "pid_namespace": 1}))
    ledgers.write(tmp_path, ledgers.Entry(**{**fields, "lab": "lab-1-reboot", "boot": "earlier", "pid_namespace": 1}))
    assert [left.lab for left in leftovers.sweep(tmp_path)] == ["lab-1-reboot"]
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["lab-1-far", "lab-1-inner"]


def test_a_damaged_entry_is_told_and_kept(tmp_path: Path) -> None:
    (tmp_path / "lab-1-torn.json").write_text('{"lab": "lab-1')
    (left,) = leftovers.sweep(tmp_path)
    assert left.problem is not None
    assert "is not a ledger entry" in str(left)
    assert [path.name for path in tmp_path.iterdir()] == ["lab-1-torn.json"]


def test_a_draft_of_a_dead_writer_is_swept_and_one_of_a_living_writer_is_not(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    (tmp_path / f"lab-{ended.pid}-aa.draft").write_text("{")
    (tmp_path / f"lab-{os.getpid()}-bb.draft").write_text("{")
    assert [left.controller for left in leftovers.sweep(tmp_path)] == [ended.pid]
    assert [path.name for path in tmp_path.iterdir()] == [f"lab-{os.getpid()}-bb.draft"]


def test_when_the_agent_dies_every_node_dies_and_every_call_says_so(make_lab: Any, ledger: Path) -> None:
    lab = make_lab(1)
    lab.cluster.start("n1", lab.launch("sleep", "600"))
    waiting = lab.processes()
    os.kill(lab.cluster.agent_pid, signal.SIGKILL)
    with pytest.raises(Problem) as caught:
        lab.cluster.wait_exit("n1", PATIENCE_S)
    assert caught.value.slug == "lab-died"
    assert within(PATIENCE_S, lambda: not lab.processes()), waiting
    with pytest.raises(Problem, match="has ended, and every node with it"):
        lab.cluster.alive("n1")
    lab.cluster.down()
    assert list(ledger.iterdir()) == []


def test_a_ledger_that_cannot_be_written_stops_the_lab_before_anything_exists(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cluster = LocalCluster(plan_nodes(tmp_path, 1), tmp_path / "file" / "ledger")
    with pytest.raises(Problem, match="XDG_STATE_HOME") as caught:
        cluster.up()
    assert caught.value.slug == "ledger-not-writable"
    assert carriers(cluster.lab) == []
