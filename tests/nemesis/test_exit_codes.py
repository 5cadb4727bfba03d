"""Exit codes: stable for scripts, and nothing that failed by itself looks like a finding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checker.verdict import Verdict
from nemesis.exit_codes import ExitCode, of_several, of_verdict

ROOT = Path(__file__).parents[2]


def nemesis(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nemesis", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_finding_outweighs_ctrl_c_and_nothing_else_does() -> None:
    assert of_verdict(Verdict.INVALID, interrupted=True) == 1
    assert of_verdict(Verdict.VALID, interrupted=True) == 130
    assert of_verdict(Verdict.UNKNOWN, interrupted=False) == 2


def test_several_runs_rank_255_1_2_0() -> None:
    order = [ExitCode.FRAMEWORK, ExitCode.INVALID, ExitCode.UNKNOWN, ExitCode.VALID]
    for position, worst in enumerate(order):
        assert of_several(order[position:]) is worst


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "partition-leeder"], "partition-leader"),
        (["run", "partition-leader", "--sede", "1"], "--seed"),
        (["run", "partition-leader", "--seed", "-1"], "seed"),
        (["run", "partition-leader", "--candidate", "zookeeper"], "reference"),
        (["run", "partition-leader", "--workload", "counter"], "register"),
        (["run", "partition-leader", "--defect", "no-chek-quorum"], "no-check-quorum"),
        (["run", "partition-leader", "--version", "3.9.2"], "--candidate kafka"),
        (["run", "partition-leader", "--candidate", "kafka", "--defect", "M-1"], "reference"),
        (["run", "partition-leader", "--candidate", "kafka", "--version", "3.8.0", "--quorum", "dynamic"], "3.9"),
        (["run", "partition-leader", "--duration", "1"], "--duration"),
        (["run", "partition-ring", "--nodes", "3"], "5"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["list", "faluts"], "nemesis list faults"),
        (["init", "scenery", "x.toml"], "scenario"),
        (["init", "scenario", "/"], "/"),
        (["check", "/nowhere"], "/nowhere"),
        (["chekc"], "check"),
    ],
)
def test_wrong_arguments_exit_254_and_say_what_was_meant(arguments: list[str], said: str, tmp_path: Path) -> None:
    ended = nemesis(*arguments, *(["--store", str(tmp_path)] if arguments[0] == "run" else []))
    assert ended.returncode == 254, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_wrong_argument_is_one_json_document_when_that_was_asked_for(tmp_path: Path) -> None:
    ended = nemesis("run", "nothing", "--json", "--store", str(tmp_path))
    document = json.loads(ended.stdout)
    assert document["error"]["slug"] == "scenario-unknown"
    assert document["verdict"] is None


def test_missing_java_is_a_failure_of_the_framework_and_says_what_to_install(tmp_path: Path) -> None:
    ended = nemesis("doctor", NEMESIS_JAVA_HOME=str(tmp_path))
    assert ended.returncode == 255
    assert "openjdk-17-jre-headless" in ended.stdout


def test_help_teaches_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom nemesis.cli.main import outcome\nassert outcome(['--help']) == 0\n"
        "heavy = {'pyspark', 'docker', 'paramiko', 'numba', 'pyarrow', 'networkx'} & set(sys.modules)\nassert not heavy, heavy"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "nemesis run partition-leader" in ended.stdout
