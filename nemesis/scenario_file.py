"""Reads a scenario's TOML: every mistake is told with file and line and what was probably meant, all of them at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from checker.verdict import Verdict
from nemesis.faults.catalogue import CATALOGUE, GROUPS
from nemesis.faults.parameters import BREAKING, Value
from nemesis.scenario import FaultChoice, Scenario, breaks_quorum
from nemesis.toml_lines import Path, decode_error, lines_of
from nemesis.toml_reader import Check, Reader, is_number, is_one_of, is_text, is_whole, told_mistakes
from workloads.problem import Problem

NEEDS = ("faults", "isolations", "leader_changes", "cut_off_operations")
_HAZARDS = ("static", "dynamic", "any")
_QUORUM = ("preserved", "unrestricted")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_KEYS: dict[str, Check] = {
    "title": is_text,
    "text": is_text,
    "group": is_one_of(GROUPS),
    "nodes": is_whole(1, 9),
    "observers": is_whole(0, 9),
    "warm_up_s": is_number(0, 3600),
    "gap_s": is_number(0, 3600),
    "request_timeout_ms": is_whole(50, 600_000),
    "quorum": is_one_of(_QUORUM),
    "expect": is_one_of(each.value for each in Verdict),
}
_TABLES = ("faults", "needs", "known_hazard")
_FAULT_KEYS: dict[str, Check] = {
    "weight": is_number(1e-6, 1e6),
    "replace_share": is_number(0, 1),
    "hold": is_number(0.05, 1e4),
    "lane": is_text,
}


def read_scenario(name: str, text: str, source: str) -> Scenario:
    """Read a scenario. Raises Problem ``scenario-malformed`` (usage) with every mistake."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, line = decode_error(str(error))
        raise _malformed(source, [(line or len(text.splitlines()), f"this is no TOML: {what}.")]) from error
    reader = Reader(source, lines_of(text))
    if not _NAME.fullmatch(name):
        reader.wrong((), f"the file's name {name!r} is the scenario's: letters, digits, and . _ - between.")
    for key in raw:
        if key not in _KEYS and key not in _TABLES:
            reader.unknown((key,), "key", key, (*_KEYS, *_TABLES))
    for key in ("title", "text"):
        if key not in raw:
            reader.wrong((), f"{key} is missing: say in a sentence what is broken.")
    got = {key: reader.take(raw, (), key, check, None) for key, check in _KEYS.items()}
    preserving = got["quorum"] != "unrestricted"
    scenario = Scenario(
        name=name,
        title=got["title"] or "",
        text=(got["text"] or "").strip(),
        group=got["group"] or "",
        nodes=3 if got["nodes"] is None else got["nodes"],
        observers=got["observers"] or 0,
        warm_up_s=1.0 if got["warm_up_s"] is None else float(got["warm_up_s"]),
        gap_s=1.2 if got["gap_s"] is None else float(got["gap_s"]),
        request_timeout_ms=got["request_timeout_ms"],
        quorum_preserving=preserving,
        expect=got["expect"],
        faults=_faults(reader, raw, preserving=preserving),
        needs=_table(reader, raw, "needs", NEEDS, is_whole(0, 10_000)),
        known_hazard=_table(reader, raw, "known_hazard", _HAZARDS, is_text),
        written=text,
    )
    if reader.mistakes:
        raise _malformed(source, reader.mistakes)
    return scenario


def _faults(reader: Reader, raw: Mapping[str, Any], *, preserving: bool) -> tuple[FaultChoice, ...]:
    entries = raw.get("faults", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        reader.wrong(("faults",), "faults must be tables: write [[faults]] above each one.")
        return ()
    found = [_fault(reader, entry, ("faults", number), preserving=preserving) for number, entry in enumerate(entries)]
    damaging = {choice.lane: number for number, choice in enumerate(found) if choice is not None and choice.budget}
    if len(damaging) > 1:
        number = max(damaging.values())
        reader.wrong(("faults", number, "lane"), "faults that damage disks must all be in one lane: they are counted.")
    return tuple(choice for choice in found if choice is not None)


def _fault(reader: Reader, entry: Mapping[str, Any], path: Path, *, preserving: bool) -> FaultChoice | None:
    name = entry.get("fault")
    if not isinstance(name, str):
        reader.wrong(path, 'fault is missing: fault = "kill-leader", say; `nemesis list faults` shows all.')
        return None
    kind = CATALOGUE.get(name)
    if kind is None:
        reader.unknown((*path, "fault"), "fault", name, CATALOGUE)
        return None
    parameters: list[tuple[str, Value]] = []
    known = {each.name: each for each in kind.parameters}
    for key, value in entry.items():
        if key in known:
            try:
                parameters.append((key, known[key].read(value)))
            except ValueError as error:
                reader.wrong((*path, key), f"{error}.")
        elif key != "fault" and key not in _FAULT_KEYS:
            reader.unknown((*path, key), f"parameter of {name}", key, (*known, *_FAULT_KEYS))
    got = {key: reader.take(entry, path, key, check, None) for key, check in _FAULT_KEYS.items()}
    if got["replace_share"] and not kind.changes_links:
        reader.wrong(
            (*path, "replace_share"), f"{name} cannot be replaced by the next fault: only changes of links can."
        )
    plain = FaultChoice(name)
    choice = FaultChoice(
        fault=name,
        weight=plain.weight if got["weight"] is None else float(got["weight"]),
        replace_share=float(got["replace_share"] or 0.0),
        hold=plain.hold if got["hold"] is None else float(got["hold"]),
        lane=got["lane"] or "",
        parameters=tuple(parameters),
    )
    if preserving and breaks_quorum(choice):
        reader.wrong(
            (*path, "targets"),
            f'{name} of {choice.targets} leaves no majority: write quorum = "unrestricted" at the top, or aim at '
            f"something else than {', '.join(sorted(BREAKING))}.",
        )
    return choice


def _table(reader: Reader, raw: Mapping[str, Any], key: str, known: Iterable[str], check: Check) -> dict[str, Any]:
    table = raw.get(key, {})
    if not isinstance(table, dict):
        reader.wrong((key,), f"{key} must be a table: write [{key}] above its keys.")
        return {}
    for name in table:
        if name not in known:
            reader.unknown((key, name), f"key of [{key}]", name, known)
    return {name: reader.take(table, (key,), name, check, None) for name in table if name in known}


def _malformed(source: str, mistakes: list[tuple[int, str]]) -> Problem:
    told = told_mistakes(source, mistakes)
    return Problem("scenario-malformed", told, "`nemesis list faults` shows faults and parameters.", usage=True)
