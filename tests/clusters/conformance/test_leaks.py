"""Nothing of a lab outlives its controller for longer than until the next command, however the controller ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from clusters.backends import leftovers
from clusters.backends.ledger import Entry
from clusters.backends.registry import find_backend
from tests.clusters.conformance.grounds import Ground
from tests.clusters.conformance.lab import PATIENCE_S, Lab, carriers, within

pytestmark = pytest.mark.sweeps

PROJECT = Path(__file__).resolve().parents[3]

CONTROLLER = """
import json, os, sys, time
from pathlib import Path
from clusters.backends.backend import Place
from clusters.backends.registry import find_backend
from clusters.cluster import Launch

told = json.loads(sys.argv[1])
os.environ["COMPANIONS_CARRY"] = told["mark"]
place = Place(image=told["image"], inventory=told["inventory"] and Path(told["inventory"]))
run, backend = Path(told["run"]), find_backend(told["backend"])
nodes = backend.plan(run, 2, 0, place).nodes
for node in nodes:
    node.data.mkdir(parents=True)
cluster = backend.make(nodes, place, Path(told["ledger"]))
print("begins", flush=True)
cluster.up()
for node in nodes:
    cluster.place(node.name)
    argv = (cluster.site.python, "-c", "import time; time.sleep(600)", told["mark"])
    cluster.start(node.name, Launch(argv, {}, node.directory, node.directory / "output" / "1.log"))
    if not told["ends"]:
        cluster.accompany(node.name, "shaper", {"address": node.address})
print("runs", flush=True)
if told["ends"]:
    cluster.down()
time.sleep(0 if told["ends"] else 600)
"""


def controller(ground: Ground, folder: Path, ledger: Path, mark: str, *, ends: bool) -> subprocess.Popen[str]:
    """A controller in a process of its own, with two nodes that carry ``mark``."""
    told = {
        "backend": ground.backend,
        "image": ground.place.image,
        "inventory": ground.place.inventory and str(ground.place.inventory),
        "run": str(folder / "run"),
        "ledger": str(ledger),
        "mark": mark,
        "ends": ends,
    }
    search_path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, json.dumps(told)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search_path},
    )


def entries(ledger: Path) -> list[Entry]:
    return [msgspec.json.decode(path.read_bytes(), type=Entry) for path in ledger.glob("*.json")]


def assert_nothing_is_left(ground: Ground, known: list[Entry], ledger: Path, mark: str) -> None:
    assert within(PATIENCE_S, lambda: not carriers(mark))
    assert [find_backend(ground.backend).remains(entry) for entry in known] == [()] * len(known)
    assert leftovers.pending(ledger) == []
    assert not ledger.exists() or list(ledger.iterdir()) == []


def test_the_next_command_removes_what_a_killed_controller_left(ground: Ground, tmp_path: Path, ledger: Path) -> None:
    mark = uuid.uuid4().hex
    with controller(ground, tmp_path, ledger, mark, ends=False) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["begins\n", "runs\n"]
        least = 2 if ground.backend == "ssh" else 4
        # In the middle of an exec a process has no environment and no command line.
        assert within(PATIENCE_S, lambda: len(carriers(mark)) >= least), "nodes, and where they are seen companions"
        assert leftovers.pending(ledger) == []
        process.kill()
    known = entries(ledger)
    assert [entry.backend for entry in known] == [ground.backend]
    found = leftovers.sweep(ledger)
    assert [(left.lab, left.controller, left.problem) for left in found] == [(known[0].lab, process.pid, None)]
    assert_nothing_is_left(ground, known, ledger, mark)
    assert leftovers.sweep(ledger) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.4, 1.0, 2.0])
def test_whenever_a_controller_is_killed_nothing_is_left(
    ground: Ground, tmp_path: Path, ledger: Path, delay_s: float
) -> None:
    mark = uuid.uuid4().hex
    with controller(ground, tmp_path, ledger, mark, ends=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
    known = entries(ledger)
    # What an engine was asked for last may come into being after the one who asked is gone, and after the first sweep.
    assert within(PATIENCE_S, lambda: all(left.problem is None for left in leftovers.sweep(ledger, thorough=True)))
    backend = find_backend(ground.backend)
    if any(backend.remains(entry) for entry in known):
        leftovers.sweep(ledger, thorough=True)
    assert_nothing_is_left(ground, known, ledger, mark)


def test_the_entry_stands_before_the_lab_and_goes_after_it(make_lab: Callable[[int], Lab], ledger: Path) -> None:
    lab = make_lab(1)
    (entry,) = entries(ledger)
    assert entry.backend == lab.ground.backend
    assert leftovers.pending(ledger) == []
    lab.serve("n1")
    lab.cluster.down()
    assert list(ledger.iterdir()) == []
    assert find_backend(entry.backend).remains(entry) == ()
    lab.cluster.down()


def test_descriptors_are_given_back(make_lab: Callable[[int], Lab]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    lab = make_lab(2)
    lab.serve("n1")
    lab.cluster.client_socket().close()
    lab.cluster.down()
    assert within(PATIENCE_S, lambda: len(os.listdir("/proc/self/fd")) <= before)
