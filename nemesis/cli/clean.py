"""``nemesis clean``: shows and removes what a killed controller left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is left, remove nothing.")] = False,
    inventory: Annotated[
        Path | None, typer.Option(help="Look also at the machines that this TOML file lists, whoever's runs they are.")
    ] = None,
) -> int:
    """Show what killed or crashed runs left on this machine, and remove it. Running runs are not touched.

    What runs of this machine left on others (--cluster ssh) is in the ledger and is found without an inventory.
    """
    from clusters.backends.leftovers import pending, sweep

    lines = []
    for left in pending(thorough=True) if dry_run else sweep(thorough=True):
        lines.append(f"{'left' if dry_run or left.problem else 'removed'}: {left}")
    if inventory is not None:
        from clusters.backends.backend import Place
        from clusters.backends.ssh.backend import clean_machines

        lines += [f"{found.state}: {found}" for found in clean_machines(Place(inventory=inventory), dry_run=dry_run)]
    print("\n".join(lines) if lines else "nothing is left behind")
    return ExitCode.VALID
