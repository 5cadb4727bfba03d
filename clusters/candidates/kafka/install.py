"""Fetch a release's jars once: Maven Central through ``mvn``, or a local build named by ``--kafka-home``.

The class path of a release lies in ``<cache>/kafka/<version>/``. It is filled in a temporary directory beside it and renamed,
so that an interrupted download leaves nothing behind that could be taken for a release. The POM lacks the logging binding, which
is added here: without it nothing is logged at all, and the state transitions would be missing from the evidence.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from clusters.cache import cache_directory, make_directory
from clusters.candidates.kafka.java import Java
from clusters.candidates.kafka.maven import Say, find_mvn, run_mvn
from clusters.candidates.kafka.releases import Release, parse_release
from workloads.problem import Problem

_ARTIFACT = "org.apache.kafka:kafka_2.13"
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
    origin: str
    """where the jars came from, for people"""

    def checksums(self) -> dict[str, str]:
        """File name → SHA-256 of every jar."""
        return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in self.jars}


def _jars(directory: Path) -> tuple[Path, ...]:
    return tuple(sorted(directory.glob("*.jar")))


def local_class_path(home: Path) -> ClassPath:
    """The class path of a local build or unpacked distribution. Raises Problem (usage) when it is none."""
    home = home.absolute()  # nodes run in directories of their own
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
        return ClassPath(parse_release(versions.pop()), directory, jars, f"--kafka-home {home}: {directory}")
    raise Problem(
        "kafka-home",
        f"{home} is no Kafka: neither it nor its libs/ holds a kafka_2.13-*.jar.",
        "Name the directory of an unpacked distribution, the one with bin/ and libs/.",
        usage=True,
    )


def installed_class_path(release: Release, java: Java, say: Say) -> ClassPath:
    """The class path of a released version, downloaded unless the cache has it; ``java`` is for Maven.

    Raises Problem when ``mvn`` cannot be had or the release does not exist.
    """
    target = cache_directory() / "kafka" / release.text
    jars = _jars(target)
    if not jars:
        _download(release, target, java, say)
        jars = _jars(target)
    origin = f"Maven Central, by mvn: {_ARTIFACT}:{release.text} and what it depends on; kept in {target}"
    return ClassPath(release, target, jars, origin)


def _download(release: Release, target: Path, java: Java, say: Say) -> None:
    make_directory(target.parent)
    mvn = find_mvn(say)
    say(f"Apache Kafka {release.text}: downloading the jars from Maven Central (about 45 MB)")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{release.text}-", dir=target.parent) as scratch:
        work = Path(scratch)
        dependencies = (
            (*_ARTIFACT.split(":"), release.text),
            *(_LOG4J2 if release.log4j2 else _RELOAD4J),
        )
        pom = _POM.format(dependencies="\n".join(_DEPENDENCY.format(*each) for each in dependencies))
        (work / "pom.xml").write_text(pom)
        _copy_jars(mvn, release, java, work)
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


def _copy_jars(mvn: str, release: Release, java: Java, work: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}/jars"]
    done = run_mvn(mvn, goal, work, java)
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
