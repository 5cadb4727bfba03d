"""``nemesis init``: writes a commented file to begin with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode

TEMPLATES = {"scenario": "scenario.toml"}


def init(
    what: Annotated[str, typer.Argument(help="What to write: scenario.")],
    file: Annotated[Path, typer.Argument(help="Where to; it must not exist yet.", metavar="FILE.toml")],
) -> int:
    """Write a commented file to begin with, ready to run."""
    from workloads.problem import Problem

    if what not in TEMPLATES:
        raise Problem(
            "init-unknown", f"There is no {what!r} to begin.", f"There is {', '.join(TEMPLATES)}.", usage=True
        )
    text = (resources.files("nemesis") / "templates" / TEMPLATES[what]).read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as fresh:
            fresh.write(text)
    except OSError as error:
        raise Problem(
            "init-not-written", f"{file} cannot be written: {error.strerror}.", "Name a new file.", usage=True
        ) from error
    print(f"wrote {file}; run it with: bin/nemesis run {file}")
    return ExitCode.VALID
