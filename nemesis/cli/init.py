"""``nemesis init``: writes a commented file to begin with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode

TEMPLATES = {"scenario": "scenario.toml", "candidate": "candidate.toml", "kafka": "kafka.toml"}
_NEXT = {"scenario": "run it with: bin/nemesis run {file}"}
_TRY = "mend it for your program, then try one node of it: bin/nemesis doctor --candidate {file}"


def init(
    what: Annotated[
        str,
        typer.Argument(
            help="What to write: scenario, candidate (a program of yours), kafka (the worked example of one)."
        ),
    ],
    file: Annotated[Path, typer.Argument(help="Where to; it must not exist yet.", metavar="FILE.toml")],
) -> int:
    """Write a commented file to begin with: a scenario that is ready to run, the description of a program of yours, or Apache Kafka's."""
    from workloads.problem import Problem

    if what not in TEMPLATES:
        raise Problem(
            "init-unknown", f"There is no {what!r} to begin.", f"There are {', '.join(TEMPLATES)}.", usage=True
        )
    text = (resources.files("nemesis") / "templates" / TEMPLATES[what]).read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as fresh:
            fresh.write(text)
    except OSError as error:
        raise Problem(
            "init-not-written", f"{file} cannot be written: {error.strerror}.", "Name a new file.", usage=True
        ) from error
    print(f"wrote {file}; {_NEXT.get(what, _TRY).format(file=file)}")
    return ExitCode.VALID
