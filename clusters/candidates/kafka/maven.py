"""Maven, which fetches released jars: found, or installed from Debian's packages as root, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from clusters.candidates.kafka.java import Java
from workloads.problem import Problem

Say = Callable[[str], None]

_MVN_TIMEOUT_S = 900.0
_APT_TIMEOUT_S = 600.0
_ASK_TIMEOUT_S = 60.0
_APT_LOCK_PATIENCE_S = 300
_INSTALL = ("--no-install-recommends", "maven")
_TO_FETCH = re.compile(r"^Need to get (.+) of archives\.$", re.MULTILINE)
_ON_DISK = re.compile(r"^After this operation, (.+) of additional disk space will be used\.$", re.MULTILINE)


def find_mvn(say: Say) -> str:
    """The command ``mvn``; as root on a Debian it is installed where it is missing. Raises Problem ``mvn-missing``."""
    found = shutil.which("mvn")
    if found:
        return found
    why = ""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        why = _install(say)
        found = shutil.which("mvn")
        if found:
            return found
    raise Problem(
        "mvn-missing",
        f"Apache Kafka is fetched with mvn, which is not installed{f' ({why})' if why else ''}.",
        "Install Maven (as root: apt-get install maven), or give a local distribution with --kafka-home DIR.",
    )


def run_mvn(mvn: str, arguments: Sequence[str], directory: Path, java: Java) -> subprocess.CompletedProcess[str]:
    """Run Maven in a directory, with this Java unless the path or JAVA_HOME has one. Raises Problem where it does not end."""
    environment = dict(os.environ)
    if not environment.get("JAVA_HOME") and shutil.which("java") is None:
        environment["JAVA_HOME"] = str(java.home)
    command = [mvn, "-B", "-q", *_repository(directory), *arguments]
    try:
        return subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_MVN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Problem(
            "kafka-download", f"mvn did not end within {_MVN_TIMEOUT_S:.0f} s.", "Try again, or give --kafka-home DIR."
        ) from None


def _repository(directory: Path) -> list[str]:
    """Maven's own repository is in the home directory; where that cannot be written, a throw-away one does."""
    home = Path(os.path.expanduser("~"))
    for place in (home / ".m2" / "repository", home / ".m2", home):
        if place.exists():
            return [] if os.access(place, os.W_OK | os.X_OK) else [f"-Dmaven.repo.local={directory / 'repository'}"]
    return [f"-Dmaven.repo.local={directory / 'repository'}"]


def _install(say: Say) -> str:
    """Ask Debian for Maven; whether it came is seen by whether ``mvn`` is there. Returns what apt complained of."""
    started = time.monotonic()
    _apt(["update"], _APT_TIMEOUT_S)  # a source that does not answer is no reason to stop: another may have it
    asked = _apt(["install", "--assume-no", *_INSTALL], _ASK_TIMEOUT_S)
    sizes = [
        f"{found[1]} {where}"
        for rule, where in ((_TO_FETCH, "to fetch"), (_ON_DISK, "on disk"))
        if (found := rule.search(asked))
    ]
    say("mvn is missing: installing Debian's package maven" + (f" ({', '.join(sizes)})" if sizes else ""))
    said = _apt(["-o", f"DPkg::Lock::Timeout={_APT_LOCK_PATIENCE_S}", "install", "-y", *_INSTALL], _APT_TIMEOUT_S)
    if shutil.which("mvn"):
        say(f"installed maven in {time.monotonic() - started:.0f} s")
        return ""
    return " ".join(line for line in said.splitlines() if line.startswith("E:"))[:300] or "apt-get brought no mvn"


def _apt(arguments: Sequence[str], timeout_s: float) -> str:
    """What ``apt-get`` says, in English; whatever fails is in it."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["apt-get", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"E: {error}"
    return done.stdout
