"""Lines of a program's output → rows of ``node_events``, by the patterns of its description.

Each file ``output/<incarnation>.log`` is one process; the order of its lines is the order of events. A pattern's named groups are columns
of the table. Of the rules of one kind the first that matches a line makes its row, which those that refine add to; rules of different
kinds may all make one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from clusters.candidates.external.description import OutputRules, Rule
from clusters.collect.outputs import LineTimes, line_times, outputs, whole_lines
from clusters.evidence.identity import node_name
from clusters.evidence.schema import NODE_EVENTS
from workloads.history.manifest import Manifest

Row = dict[str, Any]
When = Callable[[int], int]
"""from the wall clock that a line is stamped with to the time of the run"""

SELF = "self"
"""as a node: the one whose output it is"""
NODES = ("leader", "peer", "voted_for")
"""columns that name a node: found as a number or as n1, n2, …"""
COLUMNS = tuple(
    name
    for name in NODE_EVENTS.names
    if name
    not in {"run_id", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "voters", "checksum", "digest"}
)
"""columns that a rule may fill"""
KINDS = (
    "start",
    "state",
    "vote",
    "append",
    "truncate",
    "high_watermark",
    "fetch",
    "apply",
    "acknowledge",
    "read",
    "read_offset",
    "resign",
    "fatal",
    "problem",
)
STATES = ("unattached", "voted", "prospective", "candidate", "leader", "follower", "resigned", "observer")
_TRUE, _FALSE = ("true", "yes", "granted", "1"), ("false", "no", "rejected", "denied", "0")
_LINE_CHARACTERS_MAX = 2000


@dataclass(slots=True)
class _Process:
    """What is known of one incarnation while its output is read."""

    node: str
    last_state: Row = field(default_factory=dict)
    ts_ns: int | None = None
    not_understood: list[str] = field(default_factory=list)


class OutputReader:
    """Reads outputs by one description's rules."""

    def __init__(self, how: OutputRules) -> None:
        self._how = how
        self._time = re.compile(how.time_match) if how.time_match else None
        self._rules = tuple((rule, re.compile(rule.match)) for rule in how.rules)
        self._must = re.compile(how.must_match) if how.must_match else None

    def table(self, run: Path, manifest: Manifest, node: str, directory_ids: Mapping[int, str | None]) -> pa.Table:
        """All outputs of one node; ``directory_ids`` tells the disk of each incarnation."""
        rows: list[Row] = []
        for incarnation, path in outputs(run, node):
            head = {
                "run_id": manifest.run_id,
                "node": node,
                "directory_id": directory_ids.get(incarnation),
                "incarnation": incarnation,
            }
            for seq, row in enumerate(self.events(path, node, line_times(run, manifest, node, incarnation))):
                rows.append({**head, "seq": seq, **row})
        return pa.Table.from_pylist(rows, schema=NODE_EVENTS)

    def events(self, path: Path, node: str, times: LineTimes) -> Iterator[Row]:
        """The rows of one process, each with ``ts_ns`` and ``kind``."""
        process = _Process(node)
        for at, text in whole_lines(path):
            yield from self._line(process, text, partial(times.ts_ns, at))
        if process.not_understood:
            told = f"{len(process.not_understood)} lines are not understood, the first: {process.not_understood[0]}"
            yield {"ts_ns": process.ts_ns, "kind": "problem", "detail": told}

    def _line(self, process: _Process, text: str, when: When) -> Iterator[Row]:
        rows: dict[str, Row] = {}
        for rule, pattern in self._rules:
            wanted = [kind for kind in rule.kinds if (kind in rows) == rule.refine]
            if not wanted or (match := pattern.search(text)) is None:
                continue
            try:
                row = self._row(process, rule, match)
            except ValueError as error:
                process.not_understood.append(f"{text[:_LINE_CHARACTERS_MAX]} ({error})")
                continue
            for kind in wanted:
                rows[kind] = {**rows.get(kind, {}), **row}
        missed = not rows and self._must is not None and self._must.search(text) is not None
        if rows or missed:
            process.ts_ns = self._ts_ns(text, when, process.ts_ns)
        if missed:
            process.not_understood.append(text[:_LINE_CHARACTERS_MAX])
        process.last_state = rows.get("state", process.last_state)
        for kind, row in rows.items():
            yield {"ts_ns": process.ts_ns, "kind": kind, **row}

    def _row(self, process: _Process, rule: Rule, match: re.Match[str]) -> Row:
        told: dict[str, str | int | bool | None] = {
            name: self._how.words.get(value, value) for name, value in match.groupdict().items() if value is not None
        }
        row = {name: _value(name, value, process.node) for name, value in {**told, **rule.constants}.items()}
        for name in rule.carry:
            if row.get(name) is None:
                row[name] = process.last_state.get(name)
        return row

    def _ts_ns(self, text: str, when: When, before_ns: int | None) -> int | None:
        match = self._time.search(text) if self._time is not None else None
        if match is None:
            return before_ns
        try:
            return when(_wall_ns(match["time"], self._how.time_format))
        except ValueError:
            return before_ns


def _wall_ns(text: str, time_format: str) -> int:
    if time_format in ("epoch_s", "epoch_ms"):
        try:
            return int(Decimal(text) * (1_000_000_000 if time_format == "epoch_s" else 1_000_000))
        except (InvalidOperation, OverflowError) as error:
            raise ValueError(f"{text!r} is no number") from error
    at = datetime.strptime(text, time_format)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000


def _value(column: str, value: str | int | bool | None, node: str) -> Any:
    """What was found, as the column has it. Raises ValueError for what cannot be that."""
    if value is None or value == "":
        return None
    if column in NODES:
        if value == SELF:
            return node
        text = str(value).removeprefix("n")
        return None if text.startswith("-") else node_name(int(text))
    kind = NODE_EVENTS.field(column).type
    if pa.types.is_boolean(kind):
        word = str(value).lower()
        if word not in (*_TRUE, *_FALSE):
            raise ValueError(f"{column} is {value!r}, neither true nor false")
        return word in _TRUE
    if pa.types.is_integer(kind):
        return int(value)
    if column in ("state", "previous_state") and value not in STATES:
        raise ValueError(f"{column} is {value!r}, none of {', '.join(STATES)}")
    return str(value)[:_LINE_CHARACTERS_MAX]


def checked(rule: Rule) -> str | None:
    """What is wrong with a rule, None when nothing is."""
    try:
        groups = re.compile(rule.match).groupindex
    except re.error as error:
        return f"match is no pattern: {error}"
    for name in (*groups, *rule.constants, *rule.carry):
        if name not in COLUMNS:
            return f"{name!r} is no column of node_events; there are {', '.join(COLUMNS)}"
    try:
        for name, value in rule.constants.items():
            _value(name, value, "n1")
    except ValueError as error:
        return f"set: {error}"
    return None
