"""Standard output and error for whatever terminal there is: a character that it does not know costs a question mark, not the run."""

from __future__ import annotations

import codecs
import io
import locale
import os
import sys


def open_terminal() -> None:
    """Write in the terminal's character set and replace what it lacks.

    The launcher makes everything UTF-8, for files and their names, and hands on what the terminal is where it is something else
    (``NEMESIS_TERMINAL``). ASCII is what a machine without any locale says of itself: its terminal is taken for UTF-8, as
    Python does (PEP 538).
    """
    named = _known(os.environ.get("NEMESIS_TERMINAL") or locale.getencoding())
    encoding = None if named in ("ascii", "utf-8") or "PYTHONIOENCODING" in os.environ else named
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="replace")


def _known(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "ascii"
