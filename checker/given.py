"""Common table expressions of a check, taken apart, so that what is used more than once is planned and computed once.

Spark inlines every common table expression wherever it is named. A chain of them, each used two or three times, becomes a plan
of hundreds of nodes for a few thousand rows, and planning it takes longer than running it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_HEAD = re.compile(r"\s*,?\s*([a-z_][a-z_0-9]*)\s+AS\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Expression:
    """One common table expression: ``name AS (query)``."""

    name: str
    query: str

    def uses(self, name: str) -> int:
        """How often the query names ``name``, counting columns of that name too: too many is only slower, too few impossible."""
        return _count(name, self.query)


def take_apart(given: str) -> tuple[Expression, ...]:
    """Split ``a AS (…), b AS (…)`` at its outer parentheses. Raises ValueError where that is not its shape."""
    found: list[Expression] = []
    position = 0
    while given[position:].strip():
        head = _HEAD.match(given, position)
        if head is None:
            raise ValueError(f"no common table expression begins at: {given[position : position + 60]!r}")
        end = _closing(given, head.end())
        found.append(Expression(head.group(1), given[head.end() : end]))
        position = end + 1
    return tuple(found)


def shared(expressions: Iterable[Expression], queries: Iterable[str]) -> frozenset[str]:
    """The names that are used more than once, in expressions or in the queries that follow them."""
    expressions = tuple(expressions)
    texts = [each.query for each in expressions] + list(queries)
    return frozenset(each.name for each in expressions if sum(_count(each.name, text) for text in texts) > 1)


def preface(needed_by: str, inline: Iterable[Expression]) -> str:
    """The ``WITH`` clause of the inline expressions that a query needs, directly or through each other; empty for none."""
    known = {each.name: each for each in inline}
    wanted: dict[str, Expression] = {}

    def need(text: str) -> None:
        for name, expression in known.items():
            if name not in wanted and _count(name, text):
                wanted[name] = expression
                need(expression.query)

    need(needed_by)
    ordered = [each for each in known.values() if each.name in wanted]
    return "WITH " + ", ".join(f"{each.name} AS ({each.query})" for each in ordered) + " " if ordered else ""


def _count(name: str, text: str) -> int:
    return sum(1 for _ in re.finditer(rf"\b{name}\b", text))


def _closing(text: str, start: int) -> int:
    depth = 1
    for position, character in _outside_quotes(text, start):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return position
    raise ValueError(f"a parenthesis is not closed after: {text[start : start + 60]!r}")


def _outside_quotes(text: str, start: int) -> Iterator[tuple[int, str]]:
    quoted = False
    for position in range(start, len(text)):
        if text[position] == "'":
            quoted = not quoted
        elif not quoted:
            yield position, text[position]
