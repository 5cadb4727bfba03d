"""Import kio without hypothesis.

kio registers strategies with hypothesis whenever hypothesis is installed, which makes its first import take three seconds in
a development environment. A process that has to start fast calls :func:`import_kio` before anything else imports kio.
"""

from __future__ import annotations

import importlib
import sys


def import_kio() -> None:
    """Import kio's base module with hypothesis hidden; a later ``import hypothesis`` works as always.

    Does nothing where hypothesis or kio is loaded already.
    """
    if "kio.static.primitive" in sys.modules or "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
