"""``nemesis report``: writes the HTML of stored runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold runs.", metavar="RUN…")],
    out: Annotated[Path | None, typer.Option("--out", help="For several runs: where the summary goes.")] = None,
) -> int:
    """Write the report of stored runs again: a pure function of what was recorded and judged."""
    from nemesis.store.layout import find_runs
    from reports.html import write_report
    from reports.summary import write_summary

    found = find_runs(runs)
    for run in found:
        print(write_report(run))
    if len(found) > 1:
        print(write_summary(found, out or Path("summary.html")))
    return ExitCode.VALID
