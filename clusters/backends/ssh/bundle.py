"""The agent as one file: a zip archive that ``python3`` runs, the same bytes from the same sources."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

_PROJECT = Path(__file__).parents[3]
_AGENT = "clusters/backends/ssh/agent"
_COMPANIONS = "clusters/backends/companions"
_BESIDE = (
    "clusters/backends/local/namespaces.py",
    "clusters/backends/netfilter.py",
    "clusters/backends/pressure.py",
    "clusters/backends/proc.py",
    "workloads/problem.py",
)
"""modules of the standard library only that the agent shares with others"""
_MAIN = "import sys\nfrom clusters.backends.ssh.agent.__main__ import main\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The archive and its checksum."""

    content: bytes
    sha256: str


@functools.cache
def agent_bundle() -> Bundle:
    """Pack the agent's modules and the companions, with empty packages around them."""
    modules = [path for package in (_AGENT, _COMPANIONS) for path in (_PROJECT / package).glob("*.py")]
    files = {path.relative_to(_PROJECT).as_posix(): path.read_text() for path in modules}
    del files[f"{_AGENT}/loader.py"]
    for name in _BESIDE:
        files[name] = (_PROJECT / name).read_text()
    for name in list(files):
        for package in Path(name).parents:
            if package != Path("."):
                files.setdefault(f"{package.as_posix()}/__init__.py", "")
    files["__main__.py"] = _MAIN
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return Bundle(content, hashlib.sha256(content).hexdigest())


def loader_text() -> str:
    """The program that the login shell starts: it takes the archive from its standard input and becomes it."""
    return (_PROJECT / _AGENT / "loader.py").read_text()
