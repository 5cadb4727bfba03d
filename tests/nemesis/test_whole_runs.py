"""What a person does, through real processes: run, interrupt, kill the controller, check what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0

pytestmark = [pytest.mark.namespaces, pytest.mark.spark, pytest.mark.sweeps, pytest.mark.timeout(600)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_of(tmp_path)


def environment_of(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir()
    own = {"XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(folder / "tmp")}
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


@dataclass(frozen=True)
class Killed:
    """What two killed controllers left, one of them a torn journal, judged by one command."""

    environment: dict[str, str]
    broken: Path
    torn: Path
    left: list[int]
    """processes that outlived the first controller"""
    cleaned: list[tuple[int, str, str]]
    code: int
    told: dict[str, dict[str, Any]]
    """by run"""
    err: str


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = tmp_path_factory.mktemp("killed")
    environment = environment_of(folder)
    stores = {scenario: folder / scenario for scenario in ("kill-leader", "none")}
    started = {
        scenario: begin(environment, "run", scenario, "--duration", "600", "--store", str(store))
        for scenario, store in stores.items()
    }
    broken, torn = (wait_for_load(store) for store in stores.values())
    wait_for_fault(broken)
    os.kill(started["kill-leader"].pid, signal.SIGKILL)
    end(started["kill-leader"])
    left = [] if gone(broken) else list(processes_of(broken))
    # The other one lives, and is no leftover.
    cleaned = [end(begin(environment, "clean")) for _ in range(2)]
    assert started["none"].poll() is None
    os.kill(started["none"].pid, signal.SIGKILL)
    end(started["none"])
    segment = journal_of(torn)
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) - 7])
    code, out, err = end(begin(environment, "check", str(broken), str(torn), "--json"))
    assert out, err
    told = {run["run"]: run for run in document(out)["runs"]}
    return Killed(environment, broken, torn, left, cleaned, code, told, err)


def wait_for_fault(run: Path) -> None:
    """Wait until a node has been killed and started again, or that has begun: it has a second output."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(run.glob("nodes/*/output/2.log")):
        assert time.monotonic() < deadline, "no fault within two minutes"
        time.sleep(0.1)


def journal_of(run: Path) -> Path:
    (segment,) = (run / "journal").iterdir()
    return segment


def test_what_a_killed_controller_had_recorded_can_be_checked(killed: Killed) -> None:
    assert not killed.left, "nodes outlived their controller"
    (code, _, err), (_, again, _) = killed.cleaned
    assert code == 0, err
    assert "nothing is left" in again, err

    told = killed.told[str(killed.broken)]
    assert killed.code == 2, killed.err
    assert told["verdict"] == "unknown"
    assert told["operations"]["ok"] > 0
    assert {anomaly["check"] for anomaly in told["anomalies"]} <= {"faults-happened"}
    assert any("controller ended" in check["reason"] for check in told["checks"])
    assert Path(told["report"]).exists()


def test_a_torn_history_is_read_to_the_tear_and_a_foreign_one_is_refused(killed: Killed) -> None:
    run = killed.torn
    assert killed.told[str(run)]["verdict"] == "unknown", killed.err
    assert "torn" in (run / "run.json").read_text()

    for path in (run / "tables").iterdir():
        path.unlink()
    (run / "tables").rmdir()
    journal_of(run).write_bytes(b"not a journal at all" * 10)
    code, _, err = end(begin(killed.environment, "check", str(run)))
    assert code == 255
    assert "Traceback" not in err
    assert "journal" in err
