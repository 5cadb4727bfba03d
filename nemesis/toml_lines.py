"""Where in a TOML text a key stands: ``tomllib`` tells values and no lines, and a person who mends a file needs the line."""

from __future__ import annotations

import re
from collections.abc import Iterator

Path = tuple[str | int, ...]
"""keys from the top; an element of an array of tables by its number: ``("faults", 1, "hold")``"""

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=(.*)$"""
)
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*\.?""")
_DECODE_ERROR = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_TOKEN = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*|[\[\]{}]')


def lines_of(text: str) -> dict[Path, int]:
    """Path → line, counted from 1, of every table header and every key of a text that ``tomllib`` has accepted.

    Keys inside inline tables are not listed: :func:`line_of` answers with the line of the key that holds them.
    """
    found: dict[Path, int] = {(): 1}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in _logical_lines(text):
        if header := _HEADER.match(line):
            table = _enter(_parts(header[2]), array=header[1] == "[[", counts=counts)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            path = (*table, *_parts(key[1]))
            for length in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:length], number)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of a path, or of the nearest thing around it."""
    while path not in lines:
        path = path[:-1]
    return lines[path]


def decode_error(message: str) -> tuple[str, int | None]:
    """What ``tomllib`` complains of, and at which line."""
    match = _DECODE_ERROR.match(message)
    return (match[1], int(match[2])) if match else (message, None)


def _enter(parts: tuple[str, ...], *, array: bool, counts: dict[Path, int]) -> Path:
    """The path of a header; a name that is an array of tables means its newest element."""
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, parts[-1])
    if array:
        counts[path] = counts.get(path, 0) + 1
        path = (*path, counts[path] - 1)
    return path


def _parts(text: str) -> tuple[str, ...]:
    return tuple(quoted or literal or bare for quoted, literal, bare in _PART.findall(text))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines on which something can begin: not those inside a multi-line string or array."""
    closing, depth = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not closing and depth == 0:
            yield number, line
            if _HEADER.match(line):
                continue
        closing, depth = _scan(line, closing, depth)


def _scan(line: str, closing: str, depth: int) -> tuple[str, int]:
    """Which multi-line string is open after a line, and how many brackets are."""
    at = 0
    while at < len(line):
        if closing:
            end = line.find(closing, at)
            if end < 0:
                return closing, depth
            at, closing = end + 3, ""
            continue
        token = _TOKEN.search(line, at)
        if token is None:
            break
        at = token.end()
        if token[0] in ('"""', "'''"):
            closing = token[0]
        elif token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
    return closing, depth
