"""Common table expressions taken apart."""

from __future__ import annotations

import pytest

from checker.given import preface, shared, take_apart

GIVEN = """
one AS (SELECT ')' AS a, (1 + 2) AS b FROM runs),
two AS (SELECT * FROM one),
three AS (SELECT * FROM one INNER JOIN two)"""


def test_expressions_end_at_their_own_parenthesis_whatever_is_quoted() -> None:
    assert [(each.name, each.query[:12]) for each in take_apart(GIVEN)] == [
        ("one", "SELECT ')' A"),
        ("two", "SELECT * FRO"),
        ("three", "SELECT * FRO"),
    ]


def test_what_is_used_twice_is_shared_and_what_is_used_once_is_not() -> None:
    assert shared(take_apart(GIVEN), ["SELECT * FROM three"]) == {"one"}


def test_a_preface_holds_what_is_needed_through_others_too_and_in_order() -> None:
    _, two, three = take_apart(GIVEN)
    assert preface("SELECT * FROM three", (two, three)).startswith("WITH two AS (")
    assert preface("SELECT 1", (two, three)) == ""


def test_an_open_parenthesis_is_refused() -> None:
    with pytest.raises(ValueError, match="not closed"):
        take_apart("one AS (SELECT (1)")
