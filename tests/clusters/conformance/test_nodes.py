"""Nodes of every backend: deployed, started, killed, paused, restarted, wiped, and what they leave copied out."""

from __future__ import annotations

import os
import signal
import time
import uuid

import pytest

from clusters.cluster import Launch
from clusters.pressure import Pressing
from tests.clusters.conformance.lab import PATIENCE_S, Lab, carriers, within
from workloads.problem import Problem


def test_a_node_runs_what_was_installed_in_its_directory_with_its_environment(lab: Lab) -> None:
    lab.serve("n1", GREETING="bonjour")
    assert lab.ask("n1", "env GREETING") == "bonjour"
    code = lab.cluster.site.inside(lab.run.parent / "artifact" / "code")
    assert lab.ask("n1", f"cat {code}") == "as it was installed"
    assert lab.ask("n1", f"cat {lab.cluster.site.inside(lab.specs['n1'].data / 'formatted')}").startswith("disk ")
    assert lab.cluster.alive("n1")
    assert lab.cluster.exit_status("n1") is None
    assert not lab.cluster.alive("n2")


def test_both_outputs_and_the_exit_status_are_kept(lab: Lab) -> None:
    lab.start("n1", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert lab.cluster.wait_exit("n1", PATIENCE_S)
    lab.cluster.fetch("n1", ("formatted",), lab.run / "copy-output")
    assert sorted(lab.output("n1").split()) == ["err", "out"]
    assert lab.cluster.exit_status("n1") == 3
    assert lab.cluster.cpu("n1") is None


def test_kill_ends_everything_of_the_node_and_of_no_other(lab: Lab) -> None:
    lab.serve("n1", "n2")
    mark = uuid.uuid4().hex
    assert lab.ask("n1", f"orphan {mark}") == "done"
    assert within(PATIENCE_S, lambda: bool(carriers(mark)))
    lab.kill("n1")
    assert not lab.cluster.alive("n1")
    assert lab.cluster.exit_status("n1") == -signal.SIGKILL
    assert within(PATIENCE_S, lambda: not carriers(mark))
    assert lab.ask("n2", "echo lives") == "lives"


def test_what_a_node_started_ends_with_its_main_process(lab: Lab) -> None:
    lab.serve("n1")
    mark = uuid.uuid4().hex
    assert lab.ask("n1", f"orphan {mark}") == "done"
    assert within(PATIENCE_S, lambda: bool(carriers(mark)))
    lab.cluster.signal("n1", signal.SIGTERM)
    assert lab.cluster.wait_exit("n1", PATIENCE_S)
    assert lab.cluster.exit_status("n1") == 7
    assert within(PATIENCE_S, lambda: not carriers(mark))


def test_a_paused_node_is_silent_and_alive_and_goes_on_where_it_was(lab: Lab) -> None:
    lab.serve("n1")
    for _ in range(2):
        lab.cluster.signal("n1", signal.SIGSTOP)
        assert lab.ask("n1", "echo x", 0.3) is None
        assert lab.cluster.alive("n1")
        lab.cluster.signal("n1", signal.SIGCONT)
        assert lab.ask("n1", "echo goes on") == "goes on"


def test_a_paused_node_can_be_killed(lab: Lab) -> None:
    lab.serve("n1")
    lab.cluster.signal("n1", signal.SIGSTOP)
    lab.kill("n1")
    assert lab.cluster.exit_status("n1") == -signal.SIGKILL


def test_a_restarted_node_has_its_disk_and_a_second_start_is_refused(lab: Lab) -> None:
    lab.serve("n1")
    assert lab.ask("n1", "write precious") == "done"
    with pytest.raises(Problem) as caught:
        lab.start("n1", "pass")
    assert caught.value.slug == "node-runs"
    lab.kill("n1")
    lab.serve("n1")
    assert lab.ask("n1", "read it") == "precious"


def test_a_wiped_node_has_the_new_disk_and_the_old_one_is_aside(lab: Lab) -> None:
    lab.serve("n1")
    assert lab.ask("n1", "write precious") == "done"
    formatted = lab.cluster.site.inside(lab.specs["n1"].data / "formatted")
    before = lab.ask("n1", f"cat {formatted}")
    lab.kill("n1")
    lab.new_disk("n1")
    assert list(lab.specs["n1"].directory.glob("data.wiped-*"))
    lab.serve("n1")
    assert lab.ask("n1", "read it") == "FileNotFoundError"
    assert lab.ask("n1", f"cat {formatted}") not in (None, before)


def test_evidence_that_matches_is_copied_with_its_paths_and_nothing_else(lab: Lab) -> None:
    disk = lab.cluster.site.inside(lab.specs["n1"].data)
    program = """
import pathlib, sys
disk = pathlib.Path(sys.argv[1])
(disk / "log" / "deep").mkdir(parents=True)
for name in ("meta", "other", "log/1.log", "log/1.index", "log/deep/2.log"):
    (disk / name).write_text(name)
with open(disk / "log" / "sparse.log", "wb") as file:
    file.truncate(1 << 26)
    file.seek(1 << 25)
    file.write(b"middle")
"""
    lab.start("n1", program, disk)
    assert lab.cluster.wait_exit("n1", PATIENCE_S)
    copy = lab.run / f"copy-{uuid.uuid4().hex}"
    lab.cluster.fetch("n1", ("meta", "log/*.log", "absent"), copy)
    found = {path.relative_to(copy).as_posix(): path for path in copy.rglob("*") if path.is_file()}
    assert set(found) == {"meta", "log/1.log", "log/sparse.log"}, lab.output("n1")
    assert found["log/1.log"].read_text() == "log/1.log"
    sparse = found["log/sparse.log"]
    assert (sparse.stat().st_size, sparse.stat().st_blocks * 512 < 1 << 20) == (1 << 26, True)
    with sparse.open("rb") as file:
        file.seek((1 << 25) - 1)
        assert file.read(8) == b"\0middle\0"


def test_a_symbolic_link_is_no_evidence(lab: Lab) -> None:
    lab.serve("n1")
    assert lab.ask("n1", "link /etc/hostname") == "done"
    lab.kill("n1")
    copy = lab.run / f"copy-{uuid.uuid4().hex}"
    with pytest.raises(Problem) as caught:
        lab.cluster.fetch("n1", ("linked",), copy)
    assert caught.value.slug == "evidence-foreign"
    assert not (copy / "linked").exists()


def test_a_program_that_is_not_there_is_told_and_the_node_can_be_started_after(lab: Lab) -> None:
    with pytest.raises(Problem) as caught:
        lab.cluster.start("n1", lab.launch("n1", "/no/such/program"))
    assert caught.value.slug == "node-not-started"
    assert "/no/such/program" in caught.value.what
    assert not lab.cluster.alive("n1")
    lab.serve("n1")


def test_a_node_that_does_not_want_to_end_is_waited_for_as_long_as_said_and_then_killed(lab: Lab) -> None:
    lab.serve("n1")
    assert lab.ask("n1", "deaf now") == "deaf"
    lab.cluster.signal("n1", signal.SIGTERM)
    began = time.monotonic()
    assert not lab.cluster.wait_exit("n1", 0.3)
    assert 0.25 < time.monotonic() - began < PATIENCE_S
    assert lab.ask("n1", "echo still here") == "still here"
    lab.kill("n1")


def test_cpu_use_is_the_nodes_own(lab: Lab) -> None:
    lab.serve("n1", "n2")
    before, other = lab.cluster.cpu("n1"), lab.cluster.cpu("n2")
    assert before is not None
    assert other is not None
    assert lab.ask("n1", "burn 0.4") == "burnt"
    after, idle = lab.cluster.cpu("n1"), lab.cluster.cpu("n2")
    assert after is not None
    assert idle is not None
    assert after.running_s - before.running_s >= 0.3
    assert idle.running_s - other.running_s < 0.3
    assert after.waiting_s >= before.waiting_s


def test_signals_to_a_node_without_processes_do_nothing_and_unknown_nodes_are_refused(lab: Lab) -> None:
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM):
        lab.cluster.signal("n1", number)
    assert lab.cluster.wait_exit("n1", 0.1)
    directory = lab.specs["n1"].directory
    for refused in (
        lambda: lab.cluster.alive("n9"),
        lambda: lab.cluster.start("n9", Launch(("true",), {}, directory, directory / "x.log")),
    ):
        with pytest.raises(Problem) as caught:
            refused()
        assert caught.value.slug == "unknown-node"
    assert not os.path.exists(directory / "x.log")


@pytest.mark.shows("cpu-pressure")
def test_burners_take_the_cpu_away_until_they_are_ended_and_from_no_other_node(lab: Lab) -> None:
    if not isinstance(lab.cluster, Pressing):
        pytest.skip(f"{lab.ground.backend} does not offer it")
    lab.serve("n1")
    assert lab.cluster.press_cpu("n1", 4, 60.0) >= 1
    before = lab.cluster.cpu("n1")
    assert lab.ask("n1", "burn 0.3") == "burnt"
    after = lab.cluster.cpu("n1")
    assert before is not None
    assert after is not None
    # With four burners beside it a thread that computes waits for about four fifths of the time.
    assert after.waiting_s - before.waiting_s > after.running_s - before.running_s
    lab.cluster.release_cpu("n1")
    lab.cluster.release_cpu("n1")
    assert lab.ask("n1", "burn 0.1") == "burnt"
    assert lab.cluster.press_cpu("n2", 1, 1.0) == 0
    lab.cluster.release_cpu("n2")


@pytest.mark.shows("memory-pressure")
def test_a_node_whose_memory_is_bounded_gets_no_more_until_the_bound_is_lifted(lab: Lab) -> None:
    if not isinstance(lab.cluster, Pressing):
        pytest.skip(f"{lab.ground.backend} does not offer it")
    lab.serve("n1")
    assert lab.cluster.limit_memory("n2", 1 << 20) == 0
    assert lab.cluster.limit_memory("n1", 1 << 24) > 1 << 24
    assert lab.ask("n1", f"grow {1 << 28}") == "MemoryError"
    lab.cluster.free_memory("n1")
    lab.cluster.free_memory("n1")
    assert lab.ask("n1", f"grow {1 << 28}") == "grown"
