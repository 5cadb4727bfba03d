"""Reads tables of a TOML file key by key, and keeps every mistake with its line and with what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemesis.toml_lines import Path, line_of

_SHOWN_MISTAKES = 20

Check = Callable[[object], str | None]
"""says what a value must be, None where it is that"""


@dataclass(slots=True)
class Reader:
    """One file; ``mistakes`` are (line, sentence)."""

    source: str
    lines: dict[Path, int]
    mistakes: list[tuple[int, str]] = field(default_factory=list)

    def wrong(self, path: Path, what: str) -> None:
        """A mistake at the line of ``path``, or of what holds it."""
        self.mistakes.append((line_of(self.lines, path), what))

    def unknown(self, path: Path, what: str, name: str, known: Iterable[str]) -> None:
        """A name that is none of the known ones."""
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}."
        self.wrong(path, f"unknown {what} {name!r}; {hint}")

    def take(self, table: Mapping[str, Any], path: Path, key: str, check: Check, default: Any) -> Any:
        """The value of a key; ``default`` where it is absent, and where ``check`` says that it is a mistake."""
        if key not in table:
            return default
        if (must := check(table[key])) is not None:
            self.wrong((*path, key), f"{key} must be {must}, not {table[key]!r}.")
            return default
        return table[key]


def is_text(value: object) -> str | None:
    """A text with something in it."""
    return None if isinstance(value, str) and value.strip() else "a text"


def is_number(least: float, most: float) -> Check:
    """A number between two others, which it may be."""

    def check(value: object) -> str | None:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        return None if fits else f"a number from {least:g} to {most:g}"

    return check


def is_whole(least: int, most: int) -> Check:
    """A whole number between two others, which it may be."""

    def check(value: object) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return None if fits else f"a whole number from {least} to {most}"

    return check


def is_one_of(words: Iterable[str]) -> Check:
    """One of some words."""
    known = tuple(words)

    def check(value: object) -> str | None:
        return None if isinstance(value, str) and value in known else f"one of {', '.join(known)}"

    return check


def told_mistakes(source: str, mistakes: Iterable[tuple[int, str]]) -> str:
    """The mistakes for people, in order of lines; the first twenty of them."""
    found = sorted(mistakes)
    told = [f"{source}:{line}: {what}" for line, what in found[:_SHOWN_MISTAKES]]
    if len(found) > len(told):
        told.append(f"… and {len(found) - len(told)} more")
    return "\n         ".join(told)
