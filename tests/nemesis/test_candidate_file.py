"""A program's description: what is wrong in it is told with its line and with what was probably meant."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from nemesis.candidate_file import load_description, parse_description
from nemesis.candidates import make_candidate
from nemesis.cli.main import outcome
from tests.nemesis.described import REFERENCE
from workloads.problem import Problem


def mistakes(*changes: tuple[str, str], text: str = REFERENCE) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    with pytest.raises(Problem) as caught:
        parse_description(text, Path("mine.toml"))
    assert caught.value.usage
    return caught.value.what


def line_with(piece: str) -> int:
    return next(number for number, line in enumerate(REFERENCE.splitlines(), 1) if piece in line)


@pytest.mark.parametrize(
    ("old", "new", "at", "said"),
    [
        ("{{seed}}", "{{sead}}", '"seed"', "unknown placeholder 'sead'; did you mean 'seed'?"),
        ("{{seed}}", "{{each.node_id}}", '"seed"', "{{each.node_id}} means something in [lists.NAME] each only."),
        ("directory.id={{directory_id}}", "directory.id={{incarnation}}", "directory.id", "means something in [[files]] and [start]"),
        ("{{data | json}}", "{{data | jsno}}", '"data_directory"', "unknown filter of {{data}} 'jsno'; did you mean 'json'?"),
        ("{{data | json}}", "{{data | json}", '"data_directory"', "a {{ that begins no placeholder"),
        ("{{artifact.clusters}}", "{{artifact.cluster}}", "env =", "did you mean 'artifact.clusters'?"),
        ('quorum = "dynamic"', 'quorum = "elastic"', "quorum =", "quorum must be one of static, dynamic, not 'elastic'."),
        ('version = "1.0"', "version = 1.0", "version =", "version must be a text, not 1.0"),
        ('name = "stranger"', 'name = "kafka"', "name =", "name 'kafka' is taken"),
        ("[format]", "[fromat]", "[format]", "unknown key 'fromat'; did you mean 'format'?"),
        ('"pre-vote"', '"prevote"', "promises", "unknown promise 'prevote'; did you mean 'pre-vote'?"),
        ("trace = true", "trace = false", "promises", "node-trace is promised, and [evidence] has no trace = true."),
        ('protocol = "reference"', 'protocol = "kafka"', "protocol =", "protocol must be one of kafka-controller, reference"),
        ('directory_id = "meta.properties"', 'directory_id = "meta"', "directory_id =", "directory_id must be one of assigned"),
        ('directory_id = "meta.properties"', 'directory_id = "none"', "promises", "directory-identity is promised, and [format] says"),
        ('path = "config/node.json"', 'path = "data/node.json"', 'path = "config', "data/ is not for files of yours"),
        ('path = "config/node.json"', 'path = "../node.json"', 'path = "config', "path must be a relative path without .."),
        ('transitions = "kip-996"', 'transitions = "raft"', "transitions", "transitions must be one of kip-595, kip-996"),
        ('of = "nodes"', 'of = "peers"', "of =", "of must be one of voters, nodes, others"),
        ('log = "__cluster_metadata-0"', 'log = "/var/log"', "log =", "log must be a path relative to {{data}}"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(old: str, new: str, at: str, said: str) -> None:
    told = mistakes((old, new)).replace("\n         ", "\n").splitlines()
    (line,) = (each for each in told if said in each)
    where = line_with("promises = [") if at == "promises" else line_with(at)
    assert line.startswith(f"mine.toml:{where}: "), line


def test_all_mistakes_are_told_at_once_and_in_order() -> None:
    told = mistakes(('version = "1.0"\n', ""), ("{{seed}}", "{{sead}}"), ("[clients]", "[client]"))
    lines = [int(line.strip().split(":")[1]) for line in told.splitlines()]
    assert lines == sorted(lines)
    assert len(lines) == 4, (
        "the missing version, the placeholder, the unknown table, and the protocol that is missing then"
    )


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("kind = 'stat'\nmatch = 'x'", "unknown kind of event 'stat'; did you mean 'state'?"),
        ("kind = 'state'\nmatch = '(?P<epok>x)'", "'epok' is no column of node_events"),
        ("kind = 'state'\nmatch = '('", "match is no pattern"),
        ("kind = 'state'\nmatch = 'x'\nset = { state = 'boss' }", "state is 'boss', none of unattached"),
        ("match = 'x'", "kind is missing"),
    ],
)
def test_a_rule_for_the_output_is_checked_before_anything_runs(rules: str, said: str) -> None:
    text = REFERENCE.replace("trace = true", "").replace('"node-trace", ', "").replace("{{trace | json}}", '"-"')
    told = mistakes(text=text + "\n[[evidence.output.rules]]\n" + rules + "\n")
    assert said in told


def test_the_files_that_init_writes_have_no_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("candidate", "kafka"):
        path = tmp_path / f"{what}.toml"
        assert outcome(["init", what, str(path)]) == 0
        assert f"doctor --candidate {path}" in capsys.readouterr().out
        described = load_description(path)
        assert described.written == (resources.files("nemesis") / "templates" / path.name).read_text()
    assert described.name == "apache-kafka"


def test_what_a_file_does_not_offer_is_withheld() -> None:
    bare = "".join(
        line for line in REFERENCE.splitlines(keepends=True) if not line.startswith(("log =", "trace =", "transitions"))
    )
    described = parse_description(bare.replace('"node-trace", ', ""), Path("mine.toml"))
    assert described.evidence == ("quorum_states", "quorum_samples", "lifecycle")
    assert set(described.withheld) == {"log_entries", "node_events", "snapshots", "state_digests", "state-changes"}


def test_options_that_the_file_decides_are_refused_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(REFERENCE)
    candidate, kind = make_candidate(str(path))
    assert (kind, candidate.workloads) == ("dynamic", ("register", "log"))
    with pytest.raises(Problem, match="--version and --defect cannot be given beside") as caught:
        make_candidate(str(path), version="1.2.3", defects=("M-1",))
    assert caught.value.usage
    with pytest.raises(Problem, match="cannot be read"):
        make_candidate(str(tmp_path / "none.toml"))
