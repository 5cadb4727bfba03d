"""``python -m clusters.backends.companions NAME``: started by :mod:`.company`, or by a test, in the namespace where it shall act."""

from __future__ import annotations

import importlib
import sys

from clusters.backends.companions.requests import Requests
from clusters.backends.local.namespaces import die_with_parent


def main(name: str) -> None:
    """Serve until the end of standard input."""
    die_with_parent()
    importlib.import_module(f"clusters.backends.companions.{name}").serve(Requests())


if __name__ == "__main__":
    main(sys.argv[1])
