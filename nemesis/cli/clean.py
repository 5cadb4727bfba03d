"""``nemesis clean``: shows and removes what a killed controller left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is left, remove nothing.")] = False,
) -> int:
    """Show what killed or crashed runs left on this machine, and remove it. Running runs are not touched."""
    from clusters.backends.leftovers import pending, sweep

    left = pending(thorough=True) if dry_run else sweep(thorough=True)
    if not left:
        print("nothing is left behind")
    for line in left:
        done = "left" if dry_run or line.problem else "removed"
        print(f"{done}: {line}")
    return ExitCode.VALID
