"""What a description does: commands that run, files that are written, directory ids that are found, artifacts that are checked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from clusters.candidates.candidate import Disk, Quorum
from clusters.candidates.external.candidate import ExternalCandidate
from clusters.cluster import NodeSpec
from nemesis.candidate_file import parse_description
from nemesis.life.plan import SHORT_TIMERS
from workloads.problem import Problem

ID, OTHER = "7GY9-yMb_gk8Xz218baD4A", "TK0Mw29mQuq7IVV5pLayVg"
HEAD = """
name = "mine"
version = "1"
quorum = "dynamic"
"""
TAIL = """
[start]
command = ["sh", "{{directory}}/config/start", "{{incarnation}}", "{{peers}}"]

[clients]
protocol = "reference"

[lists.peers]
of = "others"
each = "{{each.node_id}}={{each.address}}:{{each.port}}/{{each.voter}}"
between = ";"

[[files]]
path = "config/start"
text = "{{role}} {{directory_id}} {{voters}} {{election_timeout_ms}} {{data | json}} {{cluster_id | properties}}"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path / "cache"))


def made(tmp_path: Path, middle: str = "") -> ExternalCandidate:
    return ExternalCandidate(parse_description(HEAD + middle + TAIL, tmp_path / "mine.toml"))


def quorum(tmp_path: Path) -> Quorum:
    roles = {1: "voter", 2: "voter", 3: "observer"}
    nodes = []
    for number, role in roles.items():
        directory = tmp_path / "nodes" / f"n{number}"
        directory.mkdir(parents=True, exist_ok=True)
        nodes.append(NodeSpec(f"n{number}", number, role, f"10.0.0.{number}", 9093, directory))
    ids = {"n1": ID, "n2": OTHER, "n3": "yGFEQAOSS_q73yxlSFL7cw"}
    return Quorum("c:1=\\", tuple(nodes), SHORT_TIMERS, "dynamic", ids, 7)


def test_a_node_is_told_who_it_is_and_who_the_others_are(tmp_path: Path) -> None:
    candidate, nodes = made(tmp_path), quorum(tmp_path)
    candidate.install(lambda _: None)
    node = nodes.nodes[0]
    assert candidate.format(nodes, node, first=True) == Disk(ID)
    launch = candidate.launch(nodes, node, 3)
    assert launch.argv == ("sh", f"{node.directory}/config/start", "3", "2=10.0.0.2:9093/true;3=10.0.0.3:9093/false")
    text = (node.directory / "config" / "start").read_text()
    assert text == f'voter {ID} 1@10.0.0.1:9093,2@10.0.0.2:9093 200 "{node.data}" c:1=\\\\'
    assert launch.needs[0] == node.directory / "config" / "start"
    assert (launch.env["TZ"], launch.writes) == ("UTC", ())


def test_after_a_wipe_a_disk_is_to_have_another_directory_id_and_another_command_formats_it(tmp_path: Path) -> None:
    middle = """
[format]
command = ["sh", "-c", "echo first > {{data}}/how"]
rejoin_command = ["sh", "-c", "echo rejoin {{directory_id}} > {{data}}/how"]
"""
    candidate, nodes = made(tmp_path, middle), quorum(tmp_path)
    voter, _, observer = nodes.nodes
    assert candidate.format(nodes, voter, first=True).directory_id == ID
    assert (voter.data / "how").read_text() == "first\n"
    candidate.format(nodes, observer, first=True)
    assert (observer.data / "how").read_text().startswith("rejoin yGFEQAOSS")
    voter.data.rename(voter.directory / "data.wiped-0")
    fresh = candidate.format(nodes, voter, first=False).directory_id
    assert fresh not in (ID, OTHER)
    assert (voter.data / "how").read_text() == f"rejoin {fresh}\n"


@pytest.mark.parametrize(
    ("how", "command", "found"),
    [
        ('"none"', "true", Disk(ID, assigned=True)),
        ("{ file = 'id', match = '^is (?P<directory_id>\\S+)' }", f"echo is {OTHER} > {{{{data}}}}/id", Disk(OTHER)),
        ("{ output = 'formatted (?P<directory_id>\\S+)' }", f"echo formatted {OTHER}", Disk(OTHER)),
    ],
)
def test_the_directory_id_is_found_where_the_file_says(tmp_path: Path, how: str, command: str, found: Disk) -> None:
    candidate = made(tmp_path, f'[format]\ncommand = ["sh", "-c", "{command}"]\ndirectory_id = {how}\n')
    nodes = quorum(tmp_path)
    assert candidate.format(nodes, nodes.nodes[0], first=True) == found


@pytest.mark.parametrize(
    ("how", "command", "said"),
    [
        ("{ file = 'id', match = '(?P<directory_id>x)' }", "true", "there is no id on the disk of n1"),
        ("{ output = 'id (?P<directory_id>x)' }", "echo nothing like it", "| nothing like it"),
        (
            "{ output = 'id (?P<directory_id>.*)' }",
            "echo id 12",
            "'12', found in what the [format] command printed, is no directory id",
        ),
        ('"assigned"', "echo no room; exit 4", "ended with status 4"),
        ('"assigned"', "sleep 9", "did not end within 1 s"),
    ],
)
def test_a_format_that_fails_says_why(tmp_path: Path, how: str, command: str, said: str) -> None:
    candidate = made(tmp_path, f'[format]\npatience_s = 1\ncommand = ["sh", "-c", "{command}"]\ndirectory_id = {how}\n')
    nodes = quorum(tmp_path)
    with pytest.raises(Problem) as caught:
        candidate.format(nodes, nodes.nodes[0], first=True)
    assert said in caught.value.what


def test_what_is_installed_once_is_kept_until_its_table_changes(tmp_path: Path) -> None:
    count = tmp_path / "count"
    middle = f"""
[install]
once = true
command = ["sh", "-c", "echo x >> {count}; cat seed > program"]

[install.files]
seed = "grown"

[artifacts]
program = "{{{{built}}}}/program"
"""
    for _ in range(2):
        candidate = made(tmp_path, middle)
        entry = candidate.install(lambda _: None)
    assert count.read_text() == "x\n"
    (path,) = candidate.artifacts()
    assert path.read_text() == "grown"
    assert entry.provenance["program: program"] == hashlib.sha256(b"grown").hexdigest()
    made(tmp_path, middle.replace("grown", "older")).install(lambda _: None)
    assert count.read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("middle", "slug", "said"),
    [
        ('[artifacts]\nserver = "target/sever"\n', "artifact-missing", "holds server: is it that?"),
        (
            f'[artifacts]\nserver = {{ path = "target/server", sha256 = "{"0" * 64}" }}\n',
            "artifact-differs",
            "and mine.toml says 0000",
        ),
        ('[install]\ncommand = ["sh", "-c", "echo error: no crate; exit 1"]\n', "install-failed", "| error: no crate"),
        ('[install]\ncommand = ["cargoo", "build"]\n', "install-failed", "cannot be run: cargoo"),
    ],
)
def test_what_cannot_be_installed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, middle: str, slug: str, said: str
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "server").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    candidate = ExternalCandidate(parse_description(HEAD + middle + TAIL, Path("mine.toml")))
    with pytest.raises(Problem) as caught:
        candidate.install(lambda _: None)
    assert caught.value.slug == slug
    assert said in caught.value.what


def test_a_program_that_this_machine_cannot_start_is_told_before_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("#!/bin/sh\n")
    tail = TAIL.replace('"sh", ', '"{{artifact.server}}", ')
    candidate = ExternalCandidate(
        parse_description(HEAD + '[artifacts]\nserver = "server"\n' + tail, tmp_path / "mine.toml")
    )
    candidate.install(lambda _: None)
    nodes = quorum(tmp_path)
    with pytest.raises(Problem, match="may not be executed"):
        candidate.launch(nodes, nodes.nodes[0], 1)
    os.chmod(tmp_path / "server", 0o755)
    assert candidate.launch(nodes, nodes.nodes[0], 1).argv[0] == str(tmp_path / "server")
