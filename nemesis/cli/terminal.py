"""Standard output and error for whatever terminal there is: a character that it does not know costs a question mark, not the run."""

from __future__ import annotations

import codecs
import io
import locale
import os
import sys


def open_terminal() -> None:
    """Write in the locale's character set and replace what it lacks.

    The launcher makes UTF-8 the encoding of all files (``PYTHONUTF8``), which would be that of the terminal too. ASCII is what a
    machine without any locale says of itself: its terminal is taken for UTF-8, as Python does (PEP 538).
    """
    named = codecs.lookup(locale.getencoding()).name
    encoding = None if named in ("ascii", "utf-8") or "PYTHONIOENCODING" in os.environ else named
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="replace")
