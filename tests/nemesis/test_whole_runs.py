"""What a person does, through real processes: run, interrupt, kill the controller, check what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0

pytestmark = [pytest.mark.namespaces, pytest.mark.spark, pytest.mark.sweeps]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "tmp")}
    return {**os.environ, "PYTHONPATH": str(ROOT), **own}


def begin(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nemesis", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = started.communicate(timeout=PATIENCE_S * 2)
    finally:
        started.kill()
    return started.returncode, out, err


def one_run(store: Path) -> Path:
    (manifest,) = store.glob("*/*/run.json")
    return manifest.parent


def wait_for_load(store: Path) -> Path:
    """Wait until some operations are in the journal."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for journal in store.glob("*/*/journal/*"):
            if journal.stat().st_size > 20_000:
                return journal.parents[1]
        time.sleep(0.1)
    raise AssertionError("no load within two minutes")


def processes_of(run: Path) -> Iterator[int]:
    """Processes that have the run's folder on their command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(run).encode() in command and int(entry.name) != os.getpid():
                yield int(entry.name)


def gone(run: Path) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not list(processes_of(run)):
            return True
        time.sleep(0.05)
    return False


def document(out: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def test_a_run_prints_one_document_and_exits_with_its_verdict(tmp_path: Path, environment: dict[str, str]) -> None:
    store = tmp_path / "store"
    code, out, err = end(
        begin(environment, "run", "none", "--duration", "3", "--seed", "5", "--store", str(store), "--json")
    )
    told = document(out)
    assert (code, told["verdict"]) == (0, "valid"), err + out
    assert told["schema_version"] == 1
    assert told["seed"] == 5
    assert told["operations"]["ok"] > 100
    assert {"name", "kind", "requirement", "verdict", "evidence_rows", "exercised"} <= told["checks"][0].keys()
    assert Path(told["report"]).read_text().count("<html") == 1
    assert gone(one_run(store))
    assert not list(Path(environment["TMPDIR"]).glob("nemesis-spark-*"))


def test_ctrl_c_heals_stops_checks_and_cleans_up(tmp_path: Path, environment: dict[str, str]) -> None:
    store = tmp_path / "store"
    started = begin(environment, "run", "partition-leader", "--duration", "60", "--store", str(store), "--json")
    run = wait_for_load(store)
    time.sleep(3)
    os.kill(started.pid, signal.SIGINT)
    code, out, err = end(started)
    told = document(out)
    assert code in (130, 1), err
    assert told["verdict"] in ("valid", "unknown"), err
    assert "healing" in err
    assert json.loads((run / "run.json").read_text())["interrupted"] is True
    assert gone(run)


def test_what_a_killed_controller_had_recorded_can_be_checked(tmp_path: Path, environment: dict[str, str]) -> None:
    store = tmp_path / "store"
    started = begin(environment, "run", "kill-leader", "--duration", "60", "--store", str(store))
    run = wait_for_load(store)
    time.sleep(2)
    os.kill(started.pid, signal.SIGKILL)
    end(started)
    assert gone(run), "nodes outlived their controller"

    code, out, err = end(begin(environment, "clean"))
    assert code == 0, err
    code, out, err = end(begin(environment, "clean"))
    assert "nothing is left" in out, err

    code, out, err = end(begin(environment, "check", str(run), "--json"))
    told = document(out)
    assert code == 2, err
    assert told["verdict"] == "unknown"
    assert told["operations"]["ok"] > 0
    assert {anomaly["check"] for anomaly in told["anomalies"]} <= {"faults-happened"}
    assert any("controller ended" in check["reason"] for check in told["checks"])
    assert Path(told["report"]).exists()


def test_a_torn_history_is_read_to_the_tear_and_a_foreign_one_is_refused(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    store = tmp_path / "store"
    started = begin(environment, "run", "none", "--duration", "60", "--store", str(store))
    run = wait_for_load(store)
    os.kill(started.pid, signal.SIGKILL)
    end(started)
    (segment,) = (run / "journal").iterdir()
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) - 7])
    code, _, err = end(begin(environment, "check", str(run), "--json"))
    assert code == 2, err
    assert "torn" in (run / "run.json").read_text()

    for path in (run / "tables").iterdir():
        path.unlink()
    (run / "tables").rmdir()
    segment.write_bytes(b"not a journal at all" * 10)
    code, _, err = end(begin(environment, "check", str(run)))
    assert code == 255
    assert "Traceback" not in err
    assert "journal" in err
