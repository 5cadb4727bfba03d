"""Agents without their controller: killed, cut off, silent. Nothing of ours stays, and nothing of others is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from clusters.backends import leftovers
from clusters.backends.ssh.inventory import read_inventory
from clusters.backends.ssh.leftovers import look
from clusters.cluster import Launch
from clusters.links import between, groups
from tests.clusters.ssh.machines import PATIENCE_S, within
from workloads.problem import Problem

pytestmark = pytest.mark.ssh

PROJECT = Path(__file__).resolve().parents[3]
LEASE_S = 2.0
FOREIGN = "table ip foreign {\n chain door {\n  type filter hook input priority 0; policy accept;\n  tcp dport 7 drop\n }\n}\n"

CONTROLLER = """
import sys, time
from pathlib import Path
from clusters.backends.backend import Place
from clusters.backends.ssh import backend
from clusters.cluster import Launch
from clusters.links import groups

run, place, name = Path(sys.argv[1]), Place(inventory=Path(sys.argv[2])), sys.argv[3]
nodes = backend.plan(run, 3, 0, place).nodes
cluster = backend.make(nodes, place, run / "ledger")
cluster.up()
for node in nodes:
    node.directory.mkdir(parents=True)
    orphan = f"(env -i setsid sh -c 'sleep 600; :' {name} &)"
    cluster.start(node.name, Launch(("sh", "-c", f"{orphan}; exec sleep 600"), {}, node.directory, node.directory / "1.log"))
cluster.signal("n2", 19)
cluster.cut(groups(["n1"], ["n2", "n3"]))
for node, other in zip(nodes, nodes[1:] + nodes[:1]):
    cluster.accompany(node.name, "shaper", {"address": node.address})
    shape = {"key": "a", "towards": [other.address], "shape": {"loss_percent": 1}, "seed": ""}
    cluster.companion(node.name, "shaper", "shape", **shape)
print(cluster.lab, flush=True)
time.sleep(600)
"""


def carriers(mark: str) -> list[int]:
    """Processes, wherever their namespaces, that have ``mark`` in their environment or command line; zombies have neither."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                carried = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in carried:
                found.append(int(entry.name))
    return found


@pytest.fixture
def controller(machines, tmp_path):
    """A controller in a process of its own with three nodes, an orphan each, one of them paused, links cut, and links shaped."""
    for number in (1, 2, 3):
        machines.run(number, f"nft -f - <<'END'\n{FOREIGN}END")
    name = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(tmp_path), str(machines.inventory), name],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])},
    )
    lab = process.stdout.readline().strip()
    assert within(PATIENCE_S, lambda: len(carriers(name)) >= 3)
    yield process, lab, name
    process.kill()
    process.wait()
    process.stdout.close()
    for number in (1, 2, 3):
        machines.run(number, "nft delete table ip foreign")


SHAPED = "proto 211"
"""in our routing rules"""


def rules(machines) -> list[str]:
    command = f"nft list ruleset; ip rule | grep '{SHAPED}' || true"
    return [machines.run(number, command) for number in range(1, machines.count + 1)]


def foreign_alone(machines) -> str:
    return machines.run(1, "nft list table ip foreign")


def test_when_the_controller_is_killed_the_agents_alone_leave_no_process_and_no_rule(machines, controller, tmp_path):
    process, lab, name = controller
    only_foreign = foreign_alone(machines)
    assert all("table ip nemesis_" in each and only_foreign in each and SHAPED in each for each in rules(machines))
    process.kill()
    process.wait()
    assert within(PATIENCE_S, lambda: not carriers(name) and not carriers(lab))
    assert within(PATIENCE_S, lambda: rules(machines) == [only_foreign] * 3)
    (machines.disk(1) / "runs" / lab / "n1" / "data" / "log").mkdir(parents=True)
    (machines.disk(1) / "runs" / lab / "n1" / "data" / "log" / "1.log").write_text("evidence")
    (machines.disk(1) / "runs" / lab / "n1" / "data" / "link").symlink_to("/etc/hostname")
    (left,) = leftovers.pending(tmp_path / "ledger")
    assert (left.lab, left.problem) == (lab, None)
    assert all(f"files in {machines.plan['data']}/runs/{lab} on root@10.88.{i}.2" in str(left) for i in (1, 2, 3))
    (removed,) = leftovers.sweep(tmp_path / "ledger")
    assert removed.problem is None
    assert [list((machines.disk(number) / "runs").iterdir()) for number in (1, 2, 3)] == [[], [], []]
    home = tmp_path / "nodes" / "n1"
    assert (home / "data" / "log" / "1.log").read_text() == "evidence"
    assert [path.name for path in (home / "data").iterdir()] == ["log"]
    assert leftovers.pending(tmp_path / "ledger") == []
    assert rules(machines) == [only_foreign] * 3


def test_when_guardian_and_worker_are_killed_too_the_next_command_removes_the_rules(machines, controller, tmp_path):
    process, lab, name = controller
    only_foreign = foreign_alone(machines)
    guardians = [pid for pid in carriers(lab) if b'"mode": "serve"' in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(guardians) == 6  # guardian and worker have the same command line
    os.kill(process.pid, signal.SIGSTOP)  # it could not repair anything
    for pid in guardians:
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait()
    assert within(PATIENCE_S, lambda: not carriers(name))
    # A shaper that learns of it before it is killed has undone its own.
    assert all("table ip nemesis_" in each for each in rules(machines))
    (left,) = leftovers.pending(tmp_path / "ledger")
    assert "rules of nftables" in str(left)
    assert all("table ip nemesis_" in each for each in rules(machines))
    (removed,) = leftovers.sweep(tmp_path / "ledger")
    assert removed.problem is None
    assert rules(machines) == [only_foreign] * 3


def test_a_living_run_is_left_alone_unless_its_controller_is_known_to_be_dead(machines, make_cluster):
    cluster = make_cluster(machines)
    cluster.up()
    cluster.cut(between(["n1"], ["n2"]))
    inventory = read_inventory(machines.inventory)
    assert {found.state for found in look(inventory, None, dry_run=False)} == {"running"}
    assert cluster.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): False, ("n2", "n1"): True}
    assert {found.state for found in look(inventory, cluster.lab, dry_run=True)} == {"left"}
    assert {found.state for found in look(inventory, cluster.lab, dry_run=False)} == {"removed"}
    assert carriers(cluster.lab) == []
    with pytest.raises(Problem) as caught:
        cluster.probe([("n1", "n2")])
    assert caught.value.slug == "machine-lost"
    cluster.down()


def test_a_machine_whose_control_connection_is_cut_heals_by_itself_when_its_lease_is_over(
    make_machines, make_cluster, ledger
):
    machines = make_machines(lease_s=LEASE_S)
    with machines.inside():
        cluster = make_cluster(machines)
        cluster.up()
        for node in cluster.nodes:
            cluster.start(node.name, Launch(("sleep", "600"), {}, node.directory, node.directory / "1.log"))
        cluster.cut(groups(["n1"], ["n2", "n3"]))
        assert within(PATIENCE_S, lambda: cluster.alive("n1"))
        machines.control_cable(1, "down")
        mark = f"runs/{cluster.lab}/n1"
        assert within(LEASE_S + PATIENCE_S, lambda: not carriers(mark))
        assert [cluster.alive(name) for name in ("n2", "n3")] == [True, True]
        with pytest.raises(Problem, match="It is not certain that nothing"):
            cluster.down()
        assert [path.stem for path in ledger.iterdir()] == [cluster.lab]
        machines.control_cable(1, "up")
        assert [each for each in rules(machines) if each] == []
        with pytest.raises(Problem, match="is not up"):
            cluster.alive("n1")
        cluster.down()
        assert list(ledger.iterdir()) == []


def test_when_the_session_on_a_machine_is_killed_nobody_knows_what_was_done_and_the_agent_ends(machines, make_cluster):
    cluster = make_cluster(machines)
    cluster.up()
    (node, *_) = cluster.nodes
    mark = uuid.uuid4().hex
    launch = Launch(("sh", "-c", "sleep 600; :", mark), {}, node.directory, node.directory / "1.log")
    cluster.start("n1", launch)
    assert within(PATIENCE_S, lambda: bool(carriers(mark)))
    (guardian,) = [
        pid for pid in carriers(f'"lab": "{cluster.lab}"') if number_of_its_own(pid) != 1 and of(pid, "10.99.0.1")
    ]
    session = int(Path(f"/proc/{guardian}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(session, signal.SIGKILL)
    assert within(PATIENCE_S, lambda: not carriers(mark))
    with pytest.raises(Problem, match=r"whether `signal` was done is not known") as caught:
        cluster.signal("n1", signal.SIGTERM)
    assert caught.value.slug == "machine-lost"
    assert cluster.host("n1").channel.wait_end().status is None
    cluster.down()
    assert runs_left(machines) == []


def of(pid: int, address: str) -> bool:
    return f'"address": "{address}"'.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def runs_left(machines) -> list[str]:
    return [path.name for number in range(1, machines.count + 1) for path in machines.disk(number).glob("runs/*")]


def test_an_agent_that_hangs_is_killed_by_its_guardian(make_machines, make_cluster):
    machines = make_machines(count=1, lease_s=LEASE_S)
    with machines.inside():
        cluster = make_cluster(machines, 1)
        cluster.up()
        (worker,) = [pid for pid in carriers(cluster.lab) if number_of_its_own(pid) == 1]
        os.kill(worker, signal.SIGSTOP)
        assert within(LEASE_S + PATIENCE_S, lambda: not carriers(cluster.lab))
        with pytest.raises(Problem) as caught:
            cluster.alive("n1")
        assert caught.value.slug == "machine-lost"
        cluster.down()
        assert list((machines.disk(1) / "runs").iterdir()) == []


def number_of_its_own(pid: int) -> int:
    """The number of a process in the innermost of its process namespaces."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))
