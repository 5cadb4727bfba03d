"""``nemesis check``: judges stored runs, any number at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def check(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold runs.", metavar="RUN…")],
    master: Annotated[str | None, typer.Option("--master", help="Spark master, e.g. spark://host:7077.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Judge stored runs again, also those whose controller was killed, and write their reports."""
    from checker.session import start_session
    from clusters.backends.leftovers import sweep
    from nemesis.cli.outcome import print_outcomes
    from nemesis.judge import judge, prepare
    from nemesis.store.layout import find_runs

    found = find_runs(runs)
    # Nodes of a killed controller may still write what is about to be copied.
    for leftover in sweep():
        print(f"cleaned up after a run that was killed: {leftover}", file=sys.stderr)
    for run in found:
        prepare(run)
    session = start_session(master)
    judged = judge(session, found)
    return print_outcomes(judged, as_json=as_json)
