"""Described programs as real processes: tried on one node wherever nodes run, run and read like the candidates that are built in."""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checker.check import Check
from checker.checks.registry import CHECKS
from checker.gate import NO_EVIDENCE, gate
from checker.tables import StoredRun
from clusters.backends.backend import Place
from clusters.cache import cache_directory
from clusters.candidates.candidate import Candidate
from clusters.candidates.external.description import Description
from clusters.candidates.external.installing import built_directory
from clusters.candidates.kafka.candidate import KafkaCandidate
from clusters.candidates.kafka.install import installed_class_path
from clusters.candidates.kafka.java import find_java
from clusters.candidates.kafka.releases import parse_release
from nemesis import scenario
from nemesis.candidate_file import load_description
from nemesis.candidates import stored_candidate
from nemesis.life.plan import SHORT_TIMERS, RunOptions
from nemesis.machine import Finding
from nemesis.store.layout import DESCRIPTION
from nemesis.store.manifest import read_manifest
from nemesis.trial import try_candidate
from tests.clusters.conformance.grounds import docker
from tests.nemesis.described import REFERENCE
from tests.runs import perform
from workloads.history.manifest import Manifest


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that fails keeps what was written, for a person to look at."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def tried(file: Path, cluster: str = "local", inventory: Path | None = None) -> dict[str, Finding]:
    """Step → what came of it."""
    options = RunOptions(
        scenario=scenario.load("none"),
        argv=(),
        seed=1,
        store=Path(),
        candidate=str(file),
        timers=SHORT_TIMERS,
        cluster=cluster,
        place=Place(inventory=inventory),
    )
    found: list[Finding] = []
    try_candidate(options, found.append)
    return {each.check: each for each in found}


def written(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = REFERENCE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    file = tmp_path / "stranger.toml"
    file.write_text(text)
    return file


def expect_all_well(found: dict[str, Finding]) -> None:
    assert [each for each in found.values() if not each.ok] == []
    every = f"{len(CHECKS)} of {len(CHECKS)} checks can be made"
    assert every in found["evidence"].detail, "with a trace every check can be made"
    assert list(found)[-1] == "disk"


@pytest.mark.docker
def test_a_described_program_is_tried_in_a_container(tmp_path: Path) -> None:
    with docker(tmp_path):
        expect_all_well(tried(written(tmp_path), "docker"))


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("old", "new", "step", "said"),
    [
        ("reference.server", "reference.srever", "start", "exit status 1"),
        ('"port": {{each.port}}', '"port": 9999', "port", "Nobody listens at 10.77."),
        ("directory.id={{directory_id}}\n", "", "format", "meta.properties has no directory.id"),
    ],
)
def test_the_first_errors_of_a_new_user_say_which_step_failed_and_why(
    tmp_path: Path, old: str, new: str, step: str, said: str
) -> None:
    found = tried(written(tmp_path, (old, new), ("[clients]", "[probe]\npatience_s = 2\n\n[clients]")))
    failed = [each.check for each in found.values() if not each.ok]
    assert failed == [step]
    assert list(tmp_path.glob("nemesis-trial-*/none/*/nodes/n1/config/node.json")), "what was written is kept"
    assert said in found[step].detail
    assert found[step].remedy
    assert "No module named" in found[step].detail or "srever" not in new, "the last of what it printed is told"


def tables_of(run: Path, manifest: Manifest, candidate: Candidate) -> dict[str, pa.Table]:
    parts: dict[str, list[pa.Table]] = {}
    for name, table in candidate.evidence(manifest, run):
        parts.setdefault(name, []).append(table)
    return {name: pa.concat_tables(each) for name, each in parts.items()}


@pytest.mark.kafka
@pytest.mark.namespaces
def test_the_described_apache_kafka_leaves_what_the_built_in_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is read by both: the same promises and the same rows, so the same checks decide the same."""
    file = tmp_path / "kafka.toml"
    file.write_text((resources.files("nemesis") / "templates" / "kafka.toml").read_text())
    described = load_description(file)
    _jars_from_the_cache(described, tmp_path / "cache", monkeypatch)
    run = perform(tmp_path / "store", "kill-leader", 3, candidate=str(file), duration_s=4.0)
    manifest = read_manifest(run)
    assert (run / DESCRIPTION).read_text() == described.written
    built_in = KafkaCandidate(described.version, quorum="dynamic")
    entry = built_in.install(lambda _: None)
    assert set(manifest.candidate.promises) == set(entry.promises)
    assert set(manifest.candidate.evidence) == set(entry.evidence)
    assert manifest.candidate.generation == entry.generation
    by_description, by_built_in = (
        tables_of(run, manifest, each) for each in (stored_candidate(manifest, run), built_in)
    )
    assert by_description.keys() == by_built_in.keys()
    for name, table in by_built_in.items():
        assert by_description[name].to_pylist() == table.to_pylist(), name
        assert name == "snapshots" or table.num_rows > 3, name
    assert pq.read_table(run / "tables" / "node_events.parquet").num_rows == by_built_in["node_events"].num_rows
    made = {each.name for each in CHECKS if _applies(each, run, manifest)}
    assert made == {each.name for each in CHECKS if set(each.promises) <= set(entry.promises)}


def _jars_from_the_cache(described: Description, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What [install] would fetch, from where the built-in candidate keeps it: the tests fetch each release once."""
    jars = installed_class_path(parse_release(described.version), find_java(), print).directory
    shared = cache_directory()
    monkeypatch.setenv("NEMESIS_CACHE", str(cache))
    built_directory(described).mkdir(parents=True)
    (built_directory(described) / "jars").symlink_to(jars)
    for each in shared.glob("kafka*"):
        (cache / each.name).symlink_to(each)


def _applies(check: Check, run: Path, manifest: Manifest) -> bool:
    rows = dict.fromkeys(("operations", "faults", "rpcs", *manifest.candidate.evidence), 1)
    decided = gate(check, StoredRun(run, manifest, rows))
    assert NO_EVIDENCE not in decided.reason
    return decided.applies
