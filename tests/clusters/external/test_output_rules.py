"""Rules for a program's output: Apache Kafka's lines, read by the worked example, say what the built-in reader says they say."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from clusters.candidates.external.description import OutputRules, Rule
from clusters.candidates.external.output_rules import OutputReader
from clusters.candidates.kafka.node_log import collect_outputs
from nemesis.candidate_file import parse_description
from tests.clusters.kafka.manifests import manifest

OUTPUTS = Path(__file__).parents[1] / "kafka" / "outputs"
STARTED_AT = "2026-11-21T15:38:00+00:00"
RARE = (
    "[2026-11-21 15:50:00,001] INFO [RaftManager id=1] Truncated to offset 17 from Fetch response from leader 3 (org.apache.kafka.raft.X)\n"
    "[2026-11-21 15:50:00,002] INFO [RaftManager id=1] Did not receive fetch request from the majority of the voters within 1500ms. "
    "Current fetched voters are [], and voters are [] (org.apache.kafka.raft.LeaderState)\n"
    "[2026-11-21 15:50:00,003] ERROR Encountered fatal fault: lost committed data at offset 7 (org.apache.kafka.raft.X)\n"
    "[2026-11-21 15:50:00,004] INFO [RaftManager id=1] Completed transition to Sideways(epoch=9) from null (org.apache.kafka.raft.Q)\n"
    "[2026-11-21 15:50:00,005] INFO [RaftManager id=1] Completed transit"
)


def placed(tmp_path: Path, text: str) -> Path:
    output = tmp_path / "nodes" / "n1" / "output"
    output.mkdir(parents=True)
    (output / "1.log").write_text(text)
    return tmp_path


def kafka_reader() -> OutputReader:
    text = (resources.files("nemesis") / "templates" / "kafka.toml").read_text()
    how = parse_description(text, Path("kafka.toml")).output
    assert how is not None
    return OutputReader(how)


@pytest.mark.parametrize("release", ["3.6.2", "3.7.0", "3.9.2", "4.1.2", "4.3.1"])
def test_rules_make_the_same_rows_as_the_reader_that_is_built_in(tmp_path: Path, release: str) -> None:
    run = placed(tmp_path, (OUTPUTS / f"{release}.log").read_text() + RARE)
    described = manifest(started_at=STARTED_AT)
    built_in = collect_outputs(run, described, "n1", {1: "disk"}).to_pylist()
    by_rules = kafka_reader().table(run, described, "n1", {1: "disk"}).to_pylist()
    assert len(built_in) > 30
    assert {"truncate", "resign", "fatal", "problem"} <= {row["kind"] for row in built_in}
    told = [row.pop("detail") for rows in (built_in, by_rules) for row in rows if row["kind"] == "problem"]
    assert by_rules == built_in
    assert all("Sideways" in text for text in told), "what is not understood is told by both, in their own words"


def rows(tmp_path: Path, how: OutputRules, text: str) -> list[dict[str, object]]:
    table = OutputReader(how).table(placed(tmp_path, text), manifest(started_at=STARTED_AT), "n1", {1: "disk"})
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def test_a_rule_finds_columns_and_another_refines_them(tmp_path: Path) -> None:
    how = OutputRules(
        rules=(
            Rule(("state",), r"became (?P<state>\w+) in epoch (?P<epoch>\d+)(?: of (?P<leader>\d+))?"),
            Rule(("state",), "became boss", {"leader": "self"}, refine=True),
            Rule(("high_watermark",), r"committed (?P<high_watermark>\d+)", carry=("epoch", "state")),
        ),
        time_match=r"^(?P<time>\d+) ",
        time_format="epoch_ms",
        words={"boss": "leader"},
    )
    text = "1795275480250 became follower in epoch 3 of 2\nnoise\n1795275480500 became boss in epoch 4\n"
    text += "1795275480501 committed 12\n1795275480502 became cand"
    found = rows(tmp_path, how, text)
    assert [row["kind"] for row in found] == ["state", "state", "high_watermark"]
    assert [row.get("leader") for row in found] == ["n2", "n1", None]
    assert [row["epoch"] for row in found] == [3, 4, 4]
    assert found[2]["state"] == "leader"
    assert [row["ts_ns"] for row in found] == [250_000_000, 500_000_000, 501_000_000]
    assert {(row["directory_id"], row["incarnation"]) for row in found} == {("disk", 1)}


def test_what_cannot_be_a_column_is_told_and_not_misread(tmp_path: Path) -> None:
    how = OutputRules(
        (Rule(("state",), r"became (?P<state>\w+)"), Rule(("vote",), r"vote (?P<granted>\w+)")), must_match="^now"
    )
    found = rows(tmp_path, how, "became king\nvote perhaps\nnow what\n")
    (problem,) = found
    assert problem["kind"] == "problem"
    assert str(problem["detail"]).startswith("3 lines")
    assert "none of unattached" in str(problem["detail"])
