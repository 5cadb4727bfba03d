"""``nemesis list``: what can be run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode


def list_all(
    what: Annotated[
        str | None,
        typer.Argument(
            help="faults: each with its parameters, and which backends can do it here (tried). placeholders: what the texts of a "
            "candidate's description may hold."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Show the scenarios, workloads, candidates and defects that exist; or all faults."""
    if what is not None:
        return _list_one(what, as_json=as_json)
    from nemesis import scenario
    from nemesis.candidates import CANDIDATES, defects
    from nemesis.faults.catalogue import GROUPS
    from workloads.registry import WORKLOADS

    scenarios = [scenario.load(name) for name in scenario.names()]
    if as_json:
        document = {
            "schema_version": 1,
            "scenarios": [
                {"name": s.name, "group": s.group, "title": s.title, "text": s.text, "nodes": s.nodes}
                for s in scenarios
            ],
            "workloads": [{"name": w.name, "title": w.title} for w in WORKLOADS],
            "candidates": [{"name": name, "text": text} for name, text in CANDIDATES.items()],
            "defects": [{"number": d.number, "name": d.name, "text": d.sentence} for d in defects()],
        }
        print(json.dumps(document, indent=2))
        return ExitCode.VALID
    for group in ("", *GROUPS):
        rows = [(s.name, s.title) for s in scenarios if s.group == group]
        if rows:
            _table(f"Scenarios{', group ' + group if group else ''} (nemesis run NAME)", rows)
    _table("Workloads (--workload)", [(w.name, w.title) for w in WORKLOADS])
    _table("Candidates (--candidate)", list(CANDIDATES.items()))
    _table("Defects of the reference (--defect)", [(d.name, f"{d.number:5} {d.sentence}") for d in defects()])
    return ExitCode.VALID


def _list_one(what: str, *, as_json: bool) -> int:
    from workloads.problem import Problem

    if what == "placeholders":
        return _list_placeholders(as_json=as_json)
    if what != "faults":
        raise Problem(
            "list-unknown",
            f"There is no list of {what!r}.",
            "There are `nemesis list faults` and `nemesis list placeholders`.",
            usage=True,
        )
    from nemesis.cli.fault_table import print_faults

    print_faults(as_json=as_json)
    return ExitCode.VALID


def _list_placeholders(*, as_json: bool) -> int:
    from clusters.candidates.external.placeholders import PLACES

    if as_json:
        print(json.dumps({"schema_version": 1, "placeholders": PLACES}, indent=2))
        return ExitCode.VALID
    for place, names in PLACES.items():
        _table(place, [("{{" + name + "}}", text) for name, text in names.items()])
    _table(
        "and of a description's own",
        [("{{artifact.NAME}}", "the path of an artifact, on the node"), ("{{NAME}}", "the spelling of [lists.NAME]")],
    )
    return ExitCode.VALID


def _table(title: str, rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    print(title)
    for name, text in rows:
        print(f"  {name:<{width}}  {text}")
    print()
