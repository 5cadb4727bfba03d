"""Nodes that are started under another release: what runs, what is recorded, what is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.checks.transitions import GENERATIONS
from clusters.candidates.kafka.candidate import KafkaCandidate
from nemesis import scenario
from nemesis.life.plan import RunOptions, plan_run
from nemesis.life.releases import older
from nemesis.store.manifest import read_manifest
from tests.nemesis.effects import OtherReference
from tests.nemesis.short_runs import Lived, fault
from workloads.problem import Problem


@pytest.mark.namespaces
@pytest.mark.shows("upgrade-next", made_of=("restart-under",))
def test_nodes_go_to_the_other_release_one_by_one_and_one_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.life.plan.other_release", lambda *_: OtherReference(tmp_path))
    body = 'quorum = "unrestricted"\n' + fault("upgrade-next", 0.2)
    lived = Lived(tmp_path, "nodes = 2\n" + body, duration_s=3.3, to_version="9.9.9")
    *upgraded, back = lived.faults
    assert [row["targets"] for row in upgraded] == [["n1"], ["n2"]]
    assert all(row["verified"] for row in lived.faults), [row["detail"] for row in lived.faults]
    for row in upgraded:
        (node,) = row["targets"]
        outputs = lived.run / "nodes" / node / "output"
        assert "this is 9.9.9" not in (outputs / "1.log").read_text()
        assert "this is 9.9.9" in (outputs / "2.log").read_text()
    (node,) = back["targets"]
    assert "this is 9.9.9" not in (lived.run / "nodes" / node / "output" / "3.log").read_text()
    starts = [row["detail"] for row in lived.rows("lifecycle", node=node, kind="start")][:3]
    assert starts == ["release 0.1.0", "release 9.9.9", "release 0.1.0"]
    entry = read_manifest(lived.run).candidate
    assert entry.releases == ("0.1.0", "9.9.9")
    assert "pre-vote" not in entry.promises
    assert "check-quorum" in entry.promises
    assert entry.generation == "kip-595 or kip-996"
    assert set(GENERATIONS[entry.generation]) == set(GENERATIONS["kip-595"]) | set(GENERATIONS["kip-996"])


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ({"candidate": "kafka", "version": "3.9.2"}, "release-missing"),
        ({"candidate": "kafka", "version": "3.9.2", "to_version": "3.9.2"}, "release-same"),
        ({"to_version": "4.3.1"}, "option-of-kafka"),
        ({"candidate": "kafka", "version": "3.9.2", "to_version": "tomorrow"}, "kafka-version"),
        ({"candidate": "kafka", "to_version": "4.1.2", "scenario": "kill-leader"}, "release-unused"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(
    options: dict[str, str], slug: str, tmp_path: Path
) -> None:
    name = options.pop("scenario", "rolling-upgrade")
    asked = RunOptions(scenario=scenario.load(name), argv=(), seed=1, store=tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(Problem) as refused:
        plan_run(asked)
    assert refused.value.slug == slug
    assert refused.value.usage


def test_disks_are_those_of_the_older_release() -> None:
    old, new = KafkaCandidate("3.9.2"), KafkaCandidate("3.10.0")
    assert older(old, new) is older(new, old) is old
    assert older(new, None) is new
