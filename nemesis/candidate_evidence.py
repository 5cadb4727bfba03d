"""Reads [disk] and [evidence] of a program's description: where things lie, and how output lines become events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from clusters.candidates.candidate import DiskFiles
from clusters.candidates.external.description import Layout, OutputRules, Rule
from clusters.candidates.external.output_rules import KINDS, checked
from nemesis.toml_lines import Path
from nemesis.toml_reader import Reader, is_one_of

_OUTPUT = ("time", "time_format", "must_match", "words", "rules")
_RULE = ("kind", "match", "set", "carry", "refine")


def read_layout(reader: Reader, table: Mapping[str, Any]) -> Layout:
    """``[disk]``."""

    def place(key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
            reader.wrong(("disk", key), f"{key} must be a path relative to {{{{data}}}}, without .., not {value!r}.")
            return ""
        return value.strip("/")

    everything = table.get("everything", list(DiskFiles().everything))
    if (
        not isinstance(everything, list)
        or not all(isinstance(each, str) and each for each in everything)
        or not everything
    ):
        reader.wrong(("disk", "everything"), 'everything must be a list of patterns: ["*.*", "log/*"]')
        everything = []
    return Layout(
        everything=tuple(everything),
        meta_properties=place("meta_properties"),
        log=place("log"),
        quorum_state=place("quorum_state"),
        snapshots=place("snapshots"),
    )


def read_evidence(
    reader: Reader, table: Mapping[str, Any], generations: Iterable[str]
) -> tuple[str, bool, OutputRules | None]:
    """``[evidence]``: the table of transitions that holds, whether there is a trace, the rules for the output."""
    path: Path = ("evidence",)
    transitions: str = reader.take(table, path, "transitions", is_one_of(generations), "")
    trace = table.get("trace", False)
    if not isinstance(trace, bool):
        reader.wrong((*path, "trace"), "trace must be true or false.")
        trace = False
    output = _output(reader, table["output"]) if "output" in table else None
    if trace and output is not None:
        reader.wrong((*path, "output"), "trace and output are two ways to tell the same events: choose one.")
    if transitions and not trace and output is None:
        reader.wrong((*path, "transitions"), "transitions are told by nobody: there is neither trace nor output.")
    return transitions, trace, output


def _output(reader: Reader, table: Any) -> OutputRules | None:
    path: Path = ("evidence", "output")
    if not isinstance(table, dict):
        reader.wrong(path, "output must be a table: write [evidence.output] above its keys.")
        return None
    for key in table:
        if key not in _OUTPUT:
            reader.unknown((*path, key), "key of [evidence.output]", key, _OUTPUT)
    time_match = _pattern(reader, table, path, "time", "time")
    time_format = table.get("time_format", "")
    if bool(time_match) != bool(time_format) or not isinstance(time_format, str):
        reader.wrong(path, "time (a pattern with a group (?P<time>…)) and time_format belong together.")
    words = table.get("words", {})
    if not isinstance(words, dict) or not all(isinstance(each, str) for each in words.values()):
        reader.wrong((*path, "words"), 'words must be a table of texts: Leader = "leader"')
        words = {}
    return OutputRules(
        rules=_rules(reader, table.get("rules", [])),
        time_match=time_match,
        time_format=str(time_format),
        must_match=_pattern(reader, table, path, "must_match"),
        words=words,
    )


def _rules(reader: Reader, entries: Any) -> tuple[Rule, ...]:
    path: Path = ("evidence", "output", "rules")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        reader.wrong(path, "rules must be tables: write [[evidence.output.rules]] above each one.")
        return ()
    found = []
    for number, entry in enumerate(entries):
        here = (*path, number)
        for key in entry:
            if key not in _RULE:
                reader.unknown((*here, key), "key of a rule", key, _RULE)
        for key in ("kind", "match"):
            if key not in entry:
                reader.wrong(here, f"{key} is missing.")
        constants, carry = entry.get("set", {}), entry.get("carry", [])
        if (
            not isinstance(constants, dict)
            or not isinstance(carry, list)
            or not isinstance(entry.get("match", ""), str)
        ):
            reader.wrong(here, 'a rule has kind = "…", match = \'…\', set = { column = value }, carry = ["column"].')
            continue
        kinds = entry.get("kind", KINDS[0])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind not in KINDS:
                reader.unknown((*here, "kind"), "kind of event", str(kind), KINDS)
        rule = Rule(
            kinds=tuple(map(str, kinds)) if isinstance(kinds, list) else (),
            match=entry.get("match", ""),
            constants=constants,
            carry=tuple(map(str, carry)),
            refine=entry.get("refine") is True,
        )
        if (mistake := checked(rule)) is not None:
            reader.wrong((*here, "match"), f"{mistake}.")
        found.append(rule)
    return tuple(found)


def _pattern(reader: Reader, table: Mapping[str, Any], path: Path, key: str, group: str = "") -> str:
    text = table.get(key, "")
    try:
        named = re.compile(text).groupindex
    except (re.error, TypeError) as error:
        reader.wrong((*path, key), f"{key} is no pattern: {error}.")
        return ""
    if text and group and group not in named:
        reader.wrong((*path, key), f"{key} must have a group (?P<{group}>…).")
    return str(text)
