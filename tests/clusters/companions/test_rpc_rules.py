"""Rules of the relay: what matches, what is selected, and what is refused."""

from typing import Any

import pytest

from clusters.backends.companions.rpc_rules import Frame, Rules, read_rule

VOTE = Frame("Vote", "response", "n2", "n1", {"epoch": 7, "granted": True, "error": 0})


def rule(**values: Any) -> Any:
    return read_rule({"id": "r", "action": "drop", "part": "response", **values})


def test_a_rule_matches_by_everything_that_it_names() -> None:
    named = {"api": "Vote", "senders": ["n2"], "receivers": ["n1"], "epoch": [">=", 7], "content": "granted"}
    assert rule(**named).matches(VOTE)
    for other in (
        {"api": "Fetch"},
        {"part": "request"},
        {"senders": ["n1"]},
        {"receivers": ["n2"]},
        {"epoch": ["<", 7]},
        {"content": "refused"},
    ):
        assert not rule(**{**named, **other}).matches(VOTE)
    assert rule().matches(VOTE)


def test_what_tells_no_epoch_matches_no_rule_of_epochs() -> None:
    assert not rule(epoch=[">=", 0]).matches(Frame("ApiVersions", "response", "n2", "n1"))


@pytest.mark.parametrize(
    ("told", "contents"),
    [
        ({"bytes": 0, "error": 0}, {"empty"}),
        ({"bytes": 9, "error": 0}, {"records"}),
        ({"bytes": 0, "error": 0, "diverging_epoch": 3, "diverging_end": 8}, {"diverging"}),
        ({"bytes": 0, "error": 0, "snapshot_end": 3, "snapshot_epoch": 8}, {"snapshot"}),
        ({"error": 74}, {"error"}),
        ({"granted": False, "error": 0}, {"refused"}),
    ],
)
def test_contents(told: dict[str, Any], contents: set[str]) -> None:
    frame = Frame("Fetch", "response", "n2", "n1", told)
    names = ("granted", "refused", "diverging", "snapshot", "records", "empty", "error")
    assert {name for name in names if rule(content=name).matches(frame)} == contents


def applied(**values: Any) -> list[int]:
    rules = Rules()
    rules.add(rule(**values))
    return [number for number in range(1, 13) if rules.choose(VOTE)]


def test_which_of_those_that_match() -> None:
    assert applied() == list(range(1, 13))
    assert applied(nth=3) == [3]
    assert applied(every=4) == [4, 8, 12]
    assert applied(limit=2) == [1, 2]
    assert applied(percent=0) == []
    drawn = applied(percent=50, seed=4)
    assert drawn == applied(percent=50, seed=4)
    assert drawn != applied(percent=50, seed=5)
    assert 1 <= len(drawn) <= 11


def test_the_first_rule_that_selects_acts_and_all_count() -> None:
    rules = Rules()
    rules.add(rule(id="second vote", nth=2))
    rules.add(rule(id="any", action="delay", delay_ms=5))
    assert [rules.choose(VOTE).id for _ in range(3)] == ["any", "second vote", "any"]  # type: ignore[union-attr]
    assert (rules.counts["any"].matched, rules.counts["any"].applied) == (3, 2)
    rules.remove("any")
    assert rules.choose(VOTE) is None
    assert rules.counts["any"].applied == 2
    with pytest.raises(ValueError, match="before"):
        rules.add(rule(id="any"))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"action": "eat"}, "action must be one of drop"),
        ({"part": "both"}, "part must be one of request"),
        ({"content": "odd"}, "content must be one of granted"),
        ({"epoch": ["~", 3]}, "comparison must be one of <"),
        ({"action": "duplicate"}, "only requests"),
        ({"every": 0}, "every is 1 or more"),
        ({"color": "red"}, "a rule has no color"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        rule(**values)
