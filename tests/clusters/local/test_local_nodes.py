"""Node processes of the local backend: started, signalled, ended and measured from outside of their namespaces."""

from __future__ import annotations

import signal
import sys
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from local_lab import PATIENCE_S, carriers, within

pytestmark = pytest.mark.namespaces


def test_a_killed_node_is_gone_at_once_and_can_be_started_again(lab: Any) -> None:
    lab.serve("n1")
    lab.cluster.signal("n1", signal.SIGKILL)
    assert not lab.cluster.alive("n1")
    assert lab.cluster.wait_exit("n1", 0.0)
    assert lab.cluster.exit_status("n1") == -signal.SIGKILL
    lab.serve("n1")
    assert lab.cluster.alive("n1")
    assert lab.cluster.exit_status("n1") is None


def test_the_exit_status_is_the_programs_own_and_output_is_appended(lab: Any) -> None:
    for status in (0, 3):
        lab.cluster.start("n1", lab.launch("sh", "-c", f"echo out {status}; echo err {status} >&2; exit {status}"))
        assert lab.cluster.wait_exit("n1", PATIENCE_S)
        assert lab.cluster.exit_status("n1") == status
    assert lab.output().split("\n") == ["out 0", "err 0", "out 3", "err 3", ""]


def test_a_node_gets_its_environment_and_directory(lab: Any) -> None:
    lab.cluster.start("n1", lab.launch("sh", "-c", "echo $GREETING; pwd", GREETING="hello"))
    assert lab.cluster.wait_exit("n1", PATIENCE_S)
    assert lab.output() == f"hello\n{lab.run}\n"


def test_no_node_waits_for_a_name_server_that_it_cannot_reach(lab: Any) -> None:
    lab.cluster.start("n1", lab.launch("sh", "-c", "grep -c nameserver /etc/resolv.conf"))
    assert lab.cluster.wait_exit("n1", PATIENCE_S)
    assert lab.output() in ("0\n", "grep: /etc/resolv.conf: No such file or directory\n")


def daemon(name: str) -> str:
    """Shell text: a grandchild with a session of its own, no parent that waits for it, and no environment to know it by."""
    return f"(env -i setsid sh -c 'echo up; sleep 600; :' {name} &)"


def test_signals_reach_a_grandchild_that_left_its_session_parent_and_environment(lab: Any) -> None:
    name = uuid.uuid4().hex
    lab.cluster.start("n1", lab.launch("sh", "-c", f"{daemon(name)}; exec sleep 600"))
    lab.cluster.start("n2", lab.launch("sleep", "600"))
    assert within(PATIENCE_S, lambda: lab.output() == "up\n" and len(carriers(name)) == 1)
    (grandchild,) = carriers(name)

    def state() -> str:
        return Path(f"/proc/{grandchild}/stat").read_text().rpartition(")")[2].split()[0]

    lab.cluster.signal("n1", signal.SIGSTOP)
    assert state() == "T"
    lab.cluster.signal("n1", signal.SIGCONT)
    assert state() != "T"
    lab.cluster.signal("n1", signal.SIGKILL)
    assert carriers(name) == []
    assert lab.cluster.alive("n2")


def test_what_a_node_leaves_behind_when_it_ends_by_itself_is_ended(lab: Any) -> None:
    name = uuid.uuid4().hex
    lab.cluster.start(
        "n1", lab.launch("sh", "-c", f"{daemon(name)}; until grep -q up {lab.run}/output/1.log; do :; done; exit 5")
    )
    assert lab.cluster.wait_exit("n1", PATIENCE_S)
    assert lab.cluster.exit_status("n1") == 5
    assert carriers(name) == []


def test_a_signal_to_a_node_that_never_ran_does_nothing(make_lab: Callable[[int], Any]) -> None:
    lab = make_lab(1)
    lab.cluster.signal("n1", signal.SIGKILL)
    assert not lab.cluster.alive("n1")
    assert lab.cluster.exit_status("n1") is None
    assert lab.cluster.wait_exit("n1", 0.0)
    assert lab.cluster.cpu("n1") is None


def test_cpu_time_of_a_node_that_computes_grows_and_includes_its_children(lab: Any) -> None:
    loop = "while True: pass"
    lab.cluster.start("n1", lab.launch("sh", "-c", f"{sys.executable} -c '{loop}' & wait"))
    assert within(PATIENCE_S, lambda: lab.cluster.cpu("n1").running_s > 0.2)
    before = lab.cluster.cpu("n1")
    assert within(PATIENCE_S, lambda: lab.cluster.cpu("n1").running_s > before.running_s + 0.1)
    assert lab.cluster.cpu("n1").waiting_s >= before.waiting_s >= 0.0


def test_the_lab_outlives_the_thread_that_made_it(make_lab: Callable[[int], Any]) -> None:
    made: list[Any] = []

    def make() -> None:
        made.append(make_lab(1))
        made[0].cluster.start("n1", made[0].launch("sleep", "600"))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert made[0].cluster.probe([]) == {}
    assert made[0].cluster.alive("n1")


def test_many_threads_may_call_at_once(lab: Any) -> None:
    lab.serve("n1", "n2")

    def work(number: int) -> list[str | None]:
        answers = []
        for turn in range(10):
            lab.cluster.alive("n1")
            lab.cluster.probe([("n1", "n3"), ("n3", "n1")])
            answers.append(lab.ask(f"n{1 + number % 2}", f"echo {number}-{turn}"))
        return answers

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(work, range(8)))
    assert answers == [[f"{number}-{turn}" for turn in range(10)] for number in range(8)]


def test_burners_are_no_part_of_the_node_and_end_with_the_lab(make_lab: Callable[[int], Any]) -> None:
    lab = make_lab(2)
    lab.cluster.start("n1", lab.launch(sys.executable, "-S", "-c", "while True: pass"))
    lab.cluster.press_cpu("n1", 2, 60.0)
    lab.cluster.signal("n1", signal.SIGKILL)
    assert lab.cluster.wait_exit("n1", PATIENCE_S), "a burner was taken for the node's process"
    lab.cluster.down()
    assert lab.processes() == []
