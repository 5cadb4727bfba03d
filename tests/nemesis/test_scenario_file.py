"""A person's own scenario: what is wrong in it is told with its line and with what was probably meant."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nemesis.cli.main import outcome
from nemesis.scenario import FaultChoice, load, names, parse
from nemesis.toml_lines import line_of, lines_of
from workloads.problem import Problem

HEAD = 'title = "T"\ntext = "says what"\n'


def mistakes(text: str) -> str:
    with pytest.raises(Problem) as caught:
        parse("mine", text, "mine.toml")
    assert caught.value.usage
    return caught.value.what


def test_a_file_is_a_scenario_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "two-cuts.toml"
    path.write_text(
        HEAD
        + 'group = "network"\nquorum = "unrestricted"\nexpect = "invalid"\n'
        + '[[faults]]\nfault = "kill"\ntargets = "all"\nstagger_ms = 10\nlane = "a"\n[[faults]]\nfault = "isolate-leader"\n'
    )
    scenario = load(str(path))
    assert (scenario.name, scenario.group, scenario.expect, scenario.quorum_preserving) == (
        "two-cuts",
        "network",
        "invalid",
        False,
    )
    assert scenario.faults == (
        FaultChoice("kill", lane="a", parameters=(("targets", "all"), ("stagger_ms", 10))),
        FaultChoice("isolate-leader"),
    )


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ('titel = "x"\n', 3, "unknown key 'titel'; did you mean 'title'?"),
        ('group = "netwrok"\n', 3, "group must be one of network, process"),
        ("nodes = 2.5\n", 3, "nodes must be a whole number from 1 to 9, not 2.5"),
        ('expect = "maybe"\n', 3, "expect must be one of valid, invalid, unknown"),
        ('[[faults]]\nfault = "kil-leader"\n', 4, "unknown fault 'kil-leader'; did you mean 'kill-leader'?"),
        (
            '[[faults]]\nfault = "kill"\ntargts = "all"\n',
            5,
            "unknown parameter of kill 'targts'; did you mean 'targets'?",
        ),
        ('[[faults]]\nfault = "kill"\ntargets = "boss"\n', 5, "targets must be one of leader"),
        ('[[faults]]\nfault = "flapping"\ncut_ms = "fast"\n', 5, "cut_ms must be a whole number from 50 to 60000 ms"),
        ('[[faults]]\nfault = "kill-leader"\nhold = true\n', 5, "hold must be a number"),
        ('[[faults]]\nfault = "kill-leader"\ntargets = "n1"\n', 5, "unknown parameter of kill-leader 'targets'"),
        ('[[faults]]\nfault = "kill"\n\nreplace_share = 0.5\n', 6, "kill cannot be replaced"),
        ("[[faults]]\nhold = 1.0\n", 3, "fault is missing"),
        ('[faults]\nfault = "kill"\n', 3, "write [[faults]]"),
        ("[needs]\nfalts = 1\n", 4, "unknown key of [needs] 'falts'; did you mean 'faults'?"),
        ("[needs]\nfaults = -1\n", 4, "faults must be a whole number"),
        ('[known_hazard]\nstatik = "x"\n', 4, "did you mean 'static'?"),
        (
            '[[faults]]\nfault = "pause"\n# a comment\ntargets = "majority"\n',
            6,
            'pause of majority leaves no majority: write quorum = "unrestricted"',
        ),
        (
            '[[faults]]\nfault = "wipe"\nlane = "a"\n[[faults]]\nfault = "flip-bits"\nlane = "b"\n',
            8,
            "faults that damage disks must all be in one lane",
        ),
        ("nodes = [1,\n", 3, "this is no TOML"),
        ("nodes = 3\nnodes = 4\n", 4, "this is no TOML"),
    ],
)
def test_a_mistake_is_told_with_its_line(body: str, line: int, said: str) -> None:
    told = mistakes(HEAD + body)
    assert f"mine.toml:{line}: " in told, told
    assert said in told


def test_all_mistakes_are_told_at_once_in_the_order_of_lines() -> None:
    told = mistakes('title = 3\ngap = 1\n[[faults]]\nfault = "kill"\nweight = 0\n')
    lines = [int(part.split(":")[1]) for part in told.split("\n")]
    assert lines == sorted(lines) == [1, 1, 2, 5]  # the text is missing, which is told of line 1


def test_a_file_that_is_not_there_is_a_usage_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        load(str(tmp_path / "nowhere.toml"))
    assert (caught.value.slug, caught.value.usage) == ("scenario-unreadable", True)


def test_lines_are_found_behind_multi_line_strings_and_arrays() -> None:
    text = (
        'a = """\nb = 1\n[c]\n"""\n'  # 1 to 4
        "d = [ # [x]\n  1,\n  ']',\n]\n"  # 5 to 8
        '[t."u v"]\nw.x = 1\n'  # 9, 10
        "[[r]]\ny = 1\n[[r]]\n[r.s]\ny = 2\n"  # 11 to 15
    )
    tomllib.loads(text)
    lines = lines_of(text)
    assert {
        path: lines[path] for path in [("a",), ("d",), ("t", "u v", "w", "x"), ("r", 0, "y"), ("r", 1, "s", "y")]
    } == {
        ("a",): 1,
        ("d",): 5,
        ("t", "u v", "w", "x"): 10,
        ("r", 0, "y"): 12,
        ("r", 1, "s", "y"): 15,
    }
    assert ("b",) not in lines
    assert ("c",) not in lines
    assert line_of(lines, ("r", 1, "nothing", "such")) == 13


def test_every_shipped_scenario_begins_with_a_comment_and_belongs_to_a_group() -> None:
    folder = Path(__file__).parents[2] / "nemesis" / "scenarios"
    for name in names():
        assert (folder / f"{name}.toml").read_text().startswith("# "), name
        assert load(name).group or name == "none", name


def test_the_file_that_init_writes_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert outcome(["init", "scenario", str(path)]) == 0
    assert {choice.lane for choice in load(str(path)).faults} == {"network", "process"}
    assert outcome(["init", "scenario", str(path)]) == 254, "an existing file is not written over"
