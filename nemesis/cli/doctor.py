"""``nemesis doctor``: what this machine can do, one line a check, each with its remedy; with an inventory, what its machines can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode


def doctor(
    inventory: Annotated[
        Path | None, typer.Option(help="Try the machines that this TOML file lists instead (--cluster ssh).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Try what a run needs on this machine and say what is missing and how to mend it."""
    from nemesis.machine import examine, examine_inventory

    findings = examine() if inventory is None else examine_inventory(inventory)
    if as_json:
        rows = [{"check": f.check, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings]
        print(json.dumps({"schema_version": 1, "checks": rows}, indent=2))
    else:
        for finding in findings:
            mark = "ok     " if finding.ok else ("missing" if finding.needed else "absent ")
            print(f"{mark}  {finding.check}: {finding.detail}")
            if not finding.ok and finding.remedy:
                print(f"         {finding.remedy}")
    missing = [finding for finding in findings if finding.needed and not finding.ok]
    return ExitCode.FRAMEWORK if missing else ExitCode.VALID
