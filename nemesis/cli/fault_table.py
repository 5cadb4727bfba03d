"""``nemesis list faults``: the catalogue, with what each backend can do on this machine, tried and not assumed."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from nemesis.faults.capabilities import probe
from nemesis.faults.catalogue import CATALOGUE, GROUPS
from nemesis.faults.kinds.kind import Ability, FaultKind
from nemesis.faults.parameters import ROLES, Parameter

_WIDTH_LEAST = 150
Probed = dict[str, dict[Any, Ability]]


def print_faults(*, as_json: bool) -> None:
    """Try the backends and print the table, or one JSON document."""
    if not as_json:
        print("trying the backends …", file=sys.stderr)
    probed: Probed = dict(probe())
    if as_json:
        print(json.dumps(document(probed), indent=2))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_LEAST)
    for group in GROUPS:
        kinds = [kind for kind in CATALOGUE.values() if kind.group == group]
        if kinds:
            console.print(_table(group, kinds, probed))
            console.print()
    _print_reasons(console, probed)
    console.print("Roles for targets (a node's own name, n2, is one too):")
    for role, text in ROLES.items():
        console.print(f"  {role:<10} {text}", markup=False)


def ability(kind: FaultKind, abilities: dict[Any, Ability]) -> Ability:
    """Whether a backend can do all that a fault needs: the first thing that it cannot do decides."""
    needed = [abilities[capability] for capability in sorted(kind.needs)]
    return next((each for each in needed if each.ok is False), None) or next(
        (each for each in needed if each.ok is None), Ability(True)
    )


def _table(group: str, kinds: list[FaultKind], probed: Probed) -> Table:
    table = Table(title=group, title_justify="left", title_style="bold", show_lines=True)
    for column, ratio in (("fault", 3), ("what it does, parameters", 6), ("here", 2), ("how", 4), ("verified by", 4)):
        table.add_column(column, ratio=ratio, overflow="fold")
    for kind in kinds:
        told = [kind.text]
        if kind.short_for:
            told.append(
                f"short for {kind.acts_as} with {', '.join(f'{k} = {v}' for k, v in kind.short_for[1].items())}"
            )
        told += [_parameter(each) for each in kind.parameters]
        here = [f"{_WORDS[ability(kind, abilities).ok]} {name}" for name, abilities in probed.items()]
        table.add_row(kind.name, "\n".join(told), "\n".join(here), kind.how, kind.verified)
    return table


_WORDS = {True: "yes", False: "no ", None: "?  "}


def _parameter(parameter: Parameter) -> str:
    unit = f" {parameter.unit}" if parameter.unit else ""
    kind = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
    return f"· {parameter.name} = {parameter.default}{unit}{kind}: {parameter.text}"


def _print_reasons(console: Console, probed: Probed) -> None:
    for backend, abilities in probed.items():
        reasons = dict.fromkeys(each.reason for each in abilities.values() if each.reason)
        for reason in reasons:
            console.print(f"{backend}: {reason}", markup=False)
    console.print()


def document(probed: Probed) -> dict[str, Any]:
    """The table as ``--json`` prints it."""
    return {
        "schema_version": 1,
        "roles": ROLES,
        "faults": [
            {
                "name": kind.name,
                "group": kind.group,
                "text": kind.text,
                "how": kind.how,
                "verified": kind.verified,
                "needs": sorted(kind.needs),
                "short_for": None if kind.short_for is None else {"fault": kind.acts_as, **kind.short_for[1]},
                "damages": kind.damages,
                "parameters": [
                    {
                        "name": each.name,
                        "type": each.kind,
                        "default": each.default,
                        "unit": each.unit,
                        "must_be": each.type_text,
                        "text": each.text,
                    }
                    for each in kind.parameters
                ],
                "backends": {
                    name: {"ok": can.ok, "reason": can.reason}
                    for name, abilities in probed.items()
                    for can in [ability(kind, abilities)]
                },
            }
            for kind in CATALOGUE.values()
        ],
    }
