"""``nemesis image``: what containers run in."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nemesis.exit_codes import ExitCode

image_app = typer.Typer(
    name="image",
    help="The image that nodes of --cluster docker run in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@image_app.callback()
def image() -> None:
    """The image that nodes of --cluster docker run in."""


@image_app.command("build")
def build(
    again: Annotated[bool, typer.Option("--again", help="Build it even if the engine has it already.")] = False,
) -> int:
    """Build the image of this release from Debian's packages: a Java runtime, Python and what the reference needs.

    Its name on stdout, progress on stderr. The same recipe is built once; no image registry is asked.
    """
    from clusters.backends.docker.engine import connect
    from clusters.backends.docker.image import build_base, ensure_base

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    client = connect()
    try:
        print(build_base(client, say) if again else ensure_base(client, say))
    finally:
        client.close()
    return ExitCode.VALID
