"""``python modules.py NAME…``: load modules of this kernel, and what they need, where there is no modprobe."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_FINIT_MODULE = 313
"""of x86-64"""


def load(names: list[str]) -> None:
    """Raises OSError for one that cannot be loaded, KeyError for one that is not there; those that are built in are no modules."""
    folder = Path("/usr/lib/uml/modules", os.uname().release)
    built_in = {_name(line) for line in (folder / "modules.builtin").read_text().splitlines()}
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[_name(path)] = [path, *others.split()]
    system = ctypes.CDLL(None, use_errno=True)
    for path in [path for name in names if name not in built_in for path in reversed(needs[name])]:
        with (folder / path).open("rb") as module:
            failed = system.syscall(_FINIT_MODULE, module.fileno(), b"", 0)
        if failed and ctypes.get_errno() != errno.EEXIST:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


def _name(path: str) -> str:
    return Path(path).name.partition(".")[0].replace("-", "_")


if __name__ == "__main__":
    load(sys.argv[1:])
