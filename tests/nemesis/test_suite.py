"""A suite: what each run weighs, what a CI server is told, what is planned and what is skipped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as xml

import pytest

from checker.verdict import Anomaly, CheckResult, Kind, RunVerdict, Verdict
from nemesis.exit_codes import ExitCode
from nemesis.faults.capabilities import EVERYWHERE, OF_BACKEND
from nemesis.faults.kinds.kind import Capability
from nemesis.life.plan import RunOptions
from nemesis.scenario import Scenario
from nemesis.suite.junit import write_junit
from nemesis.suite.plan import candidate_options, find_suite, plan_suite
from nemesis.suite.record import SuiteRun, read_record
from nemesis.suite.weight import Weight, exit_code, meaning, weigh
from workloads.problem import Problem

ROOT = Path(__file__).parents[2]


def a_run(verdict: str | None = None, **fields: Any) -> SuiteRun:
    return SuiteRun(
        scenario="kill-leader", title="T", group="process", candidate="reference", seed=1, verdict=verdict, **fields
    )


@pytest.mark.parametrize(
    ("run", "weight", "code"),
    [
        (a_run("valid"), Weight.GOOD, 0),
        (a_run("invalid"), Weight.BAD, 1),
        (a_run("unknown"), Weight.UNSURE, 2),
        (a_run("invalid", expect="invalid"), Weight.GOOD, 0),
        (a_run("valid", expect="invalid"), Weight.BAD, 1),
        (a_run("unknown", expect="invalid"), Weight.UNSURE, 2),
        (a_run("unknown", expect="unknown"), Weight.GOOD, 0),
        (a_run("invalid", expect="valid", known_hazard="h"), Weight.BAD, 1),
        (a_run("invalid", known_hazard="h"), Weight.HAZARD, 0),
        (a_run("unknown", known_hazard="h"), Weight.UNSURE, 2),
        (a_run(failed="no Java"), Weight.FAILED, 255),
        (a_run(), Weight.OPEN, 2),
    ],
)
def test_what_a_run_weighs(run: SuiteRun, weight: Weight, code: int) -> None:
    assert weigh(run) is weight
    assert exit_code([run, a_run("valid")], interrupted=False) == code


def test_a_skipped_run_weighs_nothing_and_ctrl_c_hides_no_finding() -> None:
    assert exit_code([a_run("valid"), a_run(skipped="no")], interrupted=False) is ExitCode.VALID
    assert exit_code([a_run("valid"), a_run()], interrupted=True) is ExitCode.INTERRUPTED
    assert exit_code([a_run("invalid"), a_run()], interrupted=True) is ExitCode.INVALID
    assert meaning(a_run("valid", expect="invalid")) == "invalid was expected"


def check(name: str, verdict: Verdict | None, *messages: str, reason: str = "") -> CheckResult:
    found = tuple(Anomaly("r/1", name, Kind.SAFETY, "s", message) for message in messages)
    return CheckResult(name, Kind.SAFETY, "R1", f"{name} holds.", verdict, reason=reason, anomalies=found)


VERDICT = RunVerdict(
    "r/1",
    Verdict.INVALID,
    "Two led.",
    (
        check("one-leader", Verdict.INVALID, "n1 \x00 and <n2> led."),
        check("recovery", Verdict.UNKNOWN, reason="not tried"),
        check("pre-vote", None, reason="not promised"),
        check("log-matching", Verdict.VALID),
    ),
    {},
    1,
    1,
)


def told(tmp_path: Path, run: SuiteRun, verdict: RunVerdict | None) -> tuple[xml.Element, dict[str, list[str]]]:
    root = xml.parse(write_junit(tmp_path / "junit.xml", "s", [(run, verdict)])).getroot()
    (suite,) = root.findall("testsuite")
    return root, {str(case.get("name")): [child.tag for child in case] for case in suite.findall("testcase")}


def test_a_ci_server_sees_unknown_as_an_error_and_never_as_skipped(tmp_path: Path) -> None:
    root, cases = told(tmp_path, a_run("invalid", sentence="Two led.", run="runs/r/1"), VERDICT)
    assert cases == {
        "verdict": ["failure"],
        "one-leader": ["failure"],
        "recovery": ["error"],
        "pre-vote": ["skipped"],
        "log-matching": [],
    }
    assert [root.get(each) for each in ("tests", "failures", "errors", "skipped")] == ["5", "2", "1", "1"]
    text = "".join(root.itertext())
    assert "n1 \ufffd and <n2> led." in text
    assert "[[ATTACHMENT|runs/r/1/report.html]]" in text


def test_what_was_expected_fails_nothing(tmp_path: Path) -> None:
    _, cases = told(tmp_path, a_run("invalid", expect="invalid"), VERDICT)
    assert cases["verdict"] == []
    assert cases["one-leader"] == ["skipped"]
    _, cases = told(tmp_path, a_run("valid", expect="invalid"), None)
    assert cases == {"verdict": ["failure"]}


@pytest.mark.parametrize(
    ("run", "tag"),
    [(a_run(failed="no Java"), "error"), (a_run(), "error"), (a_run(skipped="no"), "skipped")],
)
def test_a_run_without_a_verdict_is_one_case(tmp_path: Path, run: SuiteRun, tag: str) -> None:
    assert told(tmp_path, run, None)[1] == {"verdict": [tag]}


@pytest.fixture
def ssh_without_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that cannot do everything, whatever it will learn."""
    monkeypatch.setitem(cast(dict[str, frozenset[Capability]], OF_BACKEND), "ssh", EVERYWHERE)


def base(tmp_path: Path, **options: Any) -> RunOptions:
    return RunOptions(scenario=Scenario("s", "", ""), argv=(), seed=5, store=tmp_path, **options)


@pytest.mark.usefixtures("ssh_without_pressure")
def test_a_group_skips_what_cannot_be_run_and_says_why(tmp_path: Path) -> None:
    runs = plan_suite(find_suite("process"), ("reference",), base(tmp_path, cluster="ssh"))
    skipped = {run.scenario: run.skipped for run in runs if run.skipped}
    assert set(skipped) == {"cpu-pressure-leader", "memory-pressure-follower", "rolling-upgrade"}
    assert "--cluster local" in skipped["cpu-pressure-leader"]
    assert "--to-version" in skipped["rolling-upgrade"]


def test_another_release_is_for_the_scenarios_that_start_nodes_under_it(tmp_path: Path) -> None:
    told = base(tmp_path, to_version="4.3.1")
    runs = plan_suite(find_suite("process"), ("kafka:3.9.2", "kafka:4.3.1", "reference"), told)
    skipped = {run.candidate: run.skipped for run in runs if run.scenario == "rolling-upgrade"}
    assert not skipped["kafka:3.9.2"]
    assert "all nodes begin with" in skipped["kafka:4.3.1"]
    assert "--candidate kafka" in skipped["reference"]
    assert not any(run.skipped for run in runs if run.scenario == "kill-leader")
    static = plan_suite(find_suite("network"), ("kafka:3.8.1",), base(tmp_path))
    assert [run.scenario for run in static if "observer" in run.skipped] == ["partition-leader-observers"]
    with pytest.raises(Problem, match="rolling-upgrade"):
        plan_suite(find_suite("clock"), ("kafka:3.9.2",), told)


def test_candidates_meet_the_same_seed_in_a_scenario_and_others_in_others(tmp_path: Path) -> None:
    runs = plan_suite(find_suite("network"), ("reference", "reference+no-pre-vote"), base(tmp_path))
    seeds = {run.scenario: {other.seed for other in runs if other.scenario == run.scenario} for run in runs}
    assert all(len(found) == 1 for found in seeds.values())
    assert len({seed for found in seeds.values() for seed in found}) == len(seeds)


@pytest.mark.usefixtures("ssh_without_pressure")
def test_a_list_of_ones_own_is_taken_at_its_word(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('title = "T"\ntext = "t"\n[[faults]]\nfault = "cpu-pressure"\n')
    listed = tmp_path / "nightly.toml"
    listed.write_text('title = "N"\nscenarios = ["none", "mine.toml"]\ncandidates = ["reference"]\n')
    found = find_suite(str(listed))
    assert (found.name, found.scenarios[1], found.candidates) == (
        "nightly",
        str(tmp_path / "mine.toml"),
        ("reference",),
    )
    assert len(plan_suite(found, found.candidates, base(tmp_path))) == 2
    with pytest.raises(Problem, match="--cluster local"):
        plan_suite(found, found.candidates, base(tmp_path, cluster="ssh"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('scenarios = ["none"]\nscenario = []\n', "list.toml:2: unknown key 'scenario'"),
        ("scenarios = 3\n", "list.toml:1: scenarios must be a list of texts"),
        ('candidates = ["reference"]\n', "scenarios is missing"),
        ("scenarios = [\n", "list.toml:1: this is no TOML"),
    ],
)
def test_a_mistake_in_a_list_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "list.toml"
    path.write_text(text)
    with pytest.raises(Problem) as caught:
        find_suite(str(path))
    assert said in caught.value.what
    assert caught.value.usage


def test_candidates_as_a_person_types_them() -> None:
    assert candidate_options("my+programs/kraft-1.0.toml") == {"candidate": "my+programs/kraft-1.0.toml"}
    assert candidate_options("kafka:3.9.2:static") == {
        "candidate": "kafka",
        "version": "3.9.2",
        "quorum": "static",
        "defects": (),
    }
    assert candidate_options("reference+no-pre-vote")["defects"] == ("no-pre-vote",)
    for wrong in ("", "kafka:", "kafka:1:2:3", "reference+"):
        with pytest.raises(Problem):
            candidate_options(wrong)
    with pytest.raises(Problem, match="process"):
        find_suite("proces")


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nemesis", "suite", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(started: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    try:
        out, err = started.communicate(timeout=240)
    finally:
        started.kill()
    assert out, err
    return started.returncode, json.loads(out), err


def wait_for(what: Path, pattern: str, count: int = 1) -> Path:
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        found = list(what.glob(pattern))
        if len(found) >= count:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern}")


@pytest.mark.namespaces
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_suite_keeps_what_is_done_resumes_and_judges_by_what_was_declared(tmp_path: Path) -> None:
    """Two candidates, one of them with a defect that its scenario is known to show; stopped in the second run, then resumed."""
    quick = (
        'title = "Kills"\ntext = "kills"\nwarm_up_s = 0.5\ngap_s = 0.5\n[[faults]]\nfault = "kill-leader"\nhold = 1.0\n'
    )
    (tmp_path / "kills.toml").write_text(quick)
    (tmp_path / "list.toml").write_text(
        'title = "Two"\nscenarios = ["kills.toml"]\ncandidates = ["reference", "reference+leader-resumes-epoch"]\n'
    )
    store = tmp_path / "store"
    started = start(
        tmp_path,
        str(tmp_path / "list.toml"),
        "--duration",
        "5",
        "--timers",
        "short",
        "--seed",
        "3",
        "--store",
        str(store),
    )
    folder = wait_for(store, "suites/list/*/suite.json").parent
    wait_for(folder, "runs/kills/*/nodes/n1/data/meta.properties", 2)
    os.kill(started.pid, signal.SIGINT)
    code, document, err = finish(started)
    assert document["interrupted"], err
    assert document["runs"][0]["verdict"] == "valid", err
    assert code in (ExitCode.INTERRUPTED, ExitCode.INVALID), err

    code, document, err = finish(start(tmp_path, "--resume", str(folder)))
    assert [run["verdict"] for run in document["runs"]] == ["valid", "invalid"], err
    assert code == ExitCode.INVALID
    record = read_record(folder)
    assert not record.interrupted
    page = (folder / "summary.html").read_text()
    assert "reference+leader-resumes-epoch" in page
    assert "leader-not-resumed" in page
    root = xml.parse(folder / "junit.xml").getroot()
    assert int(root.get("failures", "0")) >= 2
    assert all((folder / str(run.run) / "report.html").exists() for run in record.runs)
