"""Whole runs in containers: the same scenarios, evidence of the same kind, the same judgement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from checker.verdict import Verdict
from clusters.backends.docker import backend
from nemesis.judge import Judged, judge
from nemesis.store.layout import TABLES
from tests.clusters.conformance.grounds import docker
from tests.runs import perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.docker, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[dict[str, Judged]]:
    """A reference that is wrong and Apache Kafka, both isolated from their followers again and again."""
    store = tmp_path_factory.mktemp("docker-runs")
    with docker(store):
        runs = {
            "reference": perform(
                store, "partition-leader", 11, cluster="docker", duration_s=9.0, defects=("no-check-quorum",)
            ),
            "kafka": perform(
                store, "partition-leader", 12, cluster="docker", duration_s=9.0, candidate="kafka", version="4.3.1"
            ),
        }
        yield dict(zip(runs, judge(spark, list(runs.values())), strict=True))


def rows(run: Path, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(run / TABLES / f"{table}.parquet").to_pylist()
    return found


@pytest.mark.kafka
@pytest.mark.parametrize("name", ["reference", "kafka"])
def test_every_kind_of_evidence_comes_out_of_containers_and_every_fault_was_seen_to_bite(
    judged: dict[str, Judged], name: str
) -> None:
    run, manifest = judged[name].run, judged[name].manifest
    assert manifest.finished
    assert manifest.backend == "docker"
    assert {"engine", "image", "subnet"} <= manifest.place.keys()
    assert manifest.place["image"] in judged[name].report.read_text()
    assert {node.host for node in manifest.nodes} == {"docker"}
    for table in manifest.candidate.evidence:
        assert {row["node"] for row in rows(run, table)} == {"n1", "n2", "n3"}, table
    faults = rows(run, "faults")
    assert faults
    assert all(fault["verified"] for fault in faults), faults
    assert any(row["status"] == "ok" for row in rows(run, "operations"))


@pytest.mark.kafka
def test_a_leader_that_does_not_resign_is_not_passed_and_kafka_is_not_convicted(judged: dict[str, Judged]) -> None:
    wrong = judged["reference"].verdict
    assert wrong.verdict is not Verdict.VALID, wrong.sentence
    assert judged["kafka"].verdict.verdict is not Verdict.INVALID, judged["kafka"].verdict.sentence


@pytest.mark.kafka
def test_nothing_is_left_of_the_runs(judged: dict[str, Judged]) -> None:
    runs = {str(each.run) for each in judged.values()}
    assert not runs & set(backend.strays().values())
