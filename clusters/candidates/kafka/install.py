"""Fetch a release's jars once: Maven Central through ``mvn``, or a local build named by ``--kafka-home``.

The class path of a release lies in ``<cache>/kafka/<version>/``. It is filled in a temporary directory beside it and renamed,
so that an interrupted download leaves nothing behind that could be taken for a release. The POM lacks the logging binding, which
is added here: without it nothing is logged at all, and the state transitions would be missing from the evidence.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusters.candidates.kafka.releases import Release, parse_release
from workloads.problem import Problem

Say = Callable[[str], None]

_MVN_TIMEOUT_S = 900.0
_APT_TIMEOUT_S = 600.0
_RELOAD4J = (("org.slf4j", "slf4j-reload4j", "1.7.36"), ("ch.qos.reload4j", "reload4j", "1.2.25"))
_LOG4J2 = (("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"),)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>nemesis</groupId><artifactId>kafka-class-path</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_SERVER_JAR = re.compile(r"kafka_2\.\d+-(\d[^/]*)\.jar")
_BINDINGS = ("slf4j-reload4j-", "log4j-slf4j-impl-", "log4j-slf4j2-impl-")


@dataclass(frozen=True, slots=True)
class ClassPath:
    """The jars of one release, in a fixed order."""

    release: Release
    directory: Path
    jars: tuple[Path, ...]

    def checksums(self) -> dict[str, str]:
        """File name → SHA-256 of every jar."""
        return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in self.jars}


def cache_directory() -> Path:
    """Where downloads are kept: ``NEMESIS_CACHE``, else ``nemesis`` in the user's cache directory."""
    named = os.environ.get("NEMESIS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nemesis"


def _jars(directory: Path) -> tuple[Path, ...]:
    return tuple(sorted(directory.glob("*.jar")))


def local_class_path(home: Path) -> ClassPath:
    """The class path of a local build or unpacked distribution. Raises Problem (usage) when it is none."""
    for directory in (home / "libs", home):
        jars = _jars(directory)
        names = [_SERVER_JAR.fullmatch(jar.name) for jar in jars]
        versions = {match.group(1) for match in names if match}
        if not versions:
            continue
        if len(versions) > 1:
            raise Problem(
                "kafka-home", f"{directory} holds several versions: {', '.join(sorted(versions))}.", usage=True
            )
        if not any(jar.name.startswith(_BINDINGS) for jar in jars):
            raise Problem(
                "kafka-home",
                f"{directory} holds no logging binding ({', '.join(name + '*.jar' for name in _BINDINGS)}), "
                "so that the nodes would log nothing.",
                "Name a distribution made by Kafka's `releaseTarGz`.",
                usage=True,
            )
        return ClassPath(parse_release(versions.pop()), directory, jars)
    raise Problem(
        "kafka-home",
        f"{home} is no Kafka: neither it nor its libs/ holds a kafka_2.13-*.jar.",
        "Name the directory of an unpacked distribution, the one with bin/ and libs/.",
        usage=True,
    )


def installed_class_path(release: Release, say: Say) -> ClassPath:
    """The class path of a released version, downloaded unless the cache has it.

    Raises Problem when ``mvn`` cannot be had or the release does not exist.
    """
    target = cache_directory() / "kafka" / release.text
    jars = _jars(target)
    if not jars:
        _download(release, target, say)
        jars = _jars(target)
    return ClassPath(release, target, jars)


def _download(release: Release, target: Path, say: Say) -> None:
    mvn = _find_mvn(say)
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"Apache Kafka {release.text}: downloading the jars from Maven Central (about 45 MB)")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{release.text}-", dir=target.parent) as scratch:
        work = Path(scratch)
        dependencies = (
            ("org.apache.kafka", "kafka_2.13", release.text),
            *(_LOG4J2 if release.log4j2 else _RELOAD4J),
        )
        pom = _POM.format(dependencies="\n".join(_DEPENDENCY.format(*each) for each in dependencies))
        (work / "pom.xml").write_text(pom)
        _run_mvn(mvn, release, work)
        jars = _jars(work / "jars")
        if not any(_SERVER_JAR.fullmatch(jar.name) for jar in jars):
            raise Problem("kafka-download", f"mvn ended well and brought no kafka_2.13-{release.text}.jar.")
        size_mb = sum(jar.stat().st_size for jar in jars) / 1e6
        _publish(work / "jars", target)
    say(
        f"Apache Kafka {release.text}: {len(jars)} jars, {size_mb:.0f} MB, {time.monotonic() - started:.0f} s → {target}"
    )


def _publish(made: Path, target: Path) -> None:
    """Rename into place; another process may have been faster, which is as good."""
    try:
        made.rename(target)
    except OSError:
        if not _jars(target):
            raise


def _run_mvn(mvn: str, release: Release, work: Path) -> None:
    command = [
        mvn,
        "-B",
        "-q",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={work}/jars",
    ]
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=_MVN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Problem(
            "kafka-download", f"mvn did not end within {_MVN_TIMEOUT_S:.0f} s.", "Try again, or give --kafka-home DIR."
        ) from None
    if done.returncode == 0:
        return
    said = done.stdout + done.stderr
    if re.search(
        rf"(Could not find artifact|Failure to find) org\.apache\.kafka:kafka_2\.13:\S*{re.escape(release.text)}", said
    ):
        raise Problem(
            "kafka-version",
            f"Maven Central has no Apache Kafka {release.text}.",
            "Give a released version with --version, or a local build with --kafka-home DIR.",
            usage=True,
        )
    lines = [line for line in said.splitlines() if "ERROR" in line][:3] or said.splitlines()[-3:]
    raise Problem(
        "kafka-download",
        f"mvn failed with exit status {done.returncode}: {' '.join(lines)[:600]}",
        "Mend the connection and try again, or give --kafka-home DIR.",
    )


def _find_mvn(say: Say) -> str:
    found = shutil.which("mvn")
    if found:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say("mvn is missing: installing Debian's package maven (about 60 MB)")
        _install_maven()
        found = shutil.which("mvn")
        if found:
            return found
    raise Problem(
        "mvn-missing",
        "Apache Kafka is fetched with mvn, which is not installed.",
        "Install Maven (apt-get install maven), or give a local distribution with --kafka-home DIR.",
    )


def _install_maven() -> None:
    """Ask Debian for Maven; whether it came is seen by whether ``mvn`` is there."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "maven"]
    for command in (["apt-get", "update", "-q"], install):
        try:
            subprocess.run(command, env=environment, capture_output=True, timeout=_APT_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return
