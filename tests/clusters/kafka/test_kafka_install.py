"""Fetching jars and finding Java, with commands that only pretend."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from clusters.candidates.kafka import install, java, maven
from clusters.candidates.kafka.releases import parse_release
from workloads.problem import Problem

RELEASE = parse_release("4.1.2")
JAVA = java.Java(Path("/nowhere/jdk"), 17)
MVN_THAT_BRINGS = """#!/bin/sh
for each in "$@"; do case $each in -DoutputDirectory=*) out=${each#-DoutputDirectory=};; esac; done
mkdir -p "$out" && printf server > "$out/kafka_2.13-4.1.2.jar" && printf raft > "$out/kafka-raft-4.1.2.jar"
echo run >> "$CALLS"
"""
MVN_THAT_KNOWS_NOT = """#!/bin/sh
echo '[ERROR] Could not find artifact org.apache.kafka:kafka_2.13:jar:4.1.2 in central (…)'
exit 1
"""
MVN_THAT_FAILS_HALFWAY = """#!/bin/sh
for each in "$@"; do case $each in -DoutputDirectory=*) out=${each#-DoutputDirectory=};; esac; done
mkdir -p "$out" && printf server > "$out/kafka_2.13-4.1.2.jar"
echo '[ERROR] Connection reset'
exit 1
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Puts a script before everything on the path."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))

    def put(name: str, text: str):
        path = directory / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    return put


def test_jars_are_fetched_once_and_told_with_their_checksums(command, tmp_path):
    command("mvn", MVN_THAT_BRINGS)
    told: list[str] = []
    first = install.installed_class_path(RELEASE, JAVA, told.append)
    second = install.installed_class_path(RELEASE, JAVA, told.append)
    assert first == second
    assert (tmp_path / "calls").read_text() == "run\n"
    assert first.checksums()["kafka-raft-4.1.2.jar"] == hashlib.sha256(b"raft").hexdigest()
    assert len(told) == 2
    assert "MB" in told[1]
    assert [path.name for path in (tmp_path / "cache" / "kafka").iterdir()] == ["4.1.2"]


def test_a_release_that_does_not_exist_is_said_so(command, tmp_path):
    command("mvn", MVN_THAT_KNOWS_NOT)
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, JAVA, print)
    assert raised.value.slug == "kafka-version"
    assert raised.value.usage
    assert "--kafka-home" in raised.value.remedy


def test_a_download_that_breaks_off_leaves_nothing_that_looks_like_a_release(command, tmp_path):
    command("mvn", MVN_THAT_FAILS_HALFWAY)
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, JAVA, print)
    assert raised.value.slug == "kafka-download"
    assert "Connection reset" in raised.value.what
    assert list((tmp_path / "cache" / "kafka").iterdir()) == []


def test_without_mvn_a_person_is_told_of_a_local_build(monkeypatch, tmp_path):
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, JAVA, print)
    assert raised.value.slug == "mvn-missing"
    assert "--kafka-home" in raised.value.remedy


MVN_THAT_SHOWS_HOW_IT_WAS_CALLED = """#!/bin/sh
printf '%s\\n' "JAVA_HOME=${JAVA_HOME:-}" "$@" > "$CALLS"
printf '\\377 not UTF-8\\n'
exit 1
"""
APT_THAT_REFUSES = """#!/bin/sh
case $* in
*--assume-no*) printf 'Need to get 10.0 MB of archives.\\nAfter this operation, 13.0 MB of additional disk space will be used.\\n' ;;
*install*) echo 'E: Unable to locate package maven'; exit 100 ;;
esac
"""


def test_mvn_gets_our_java_and_a_repository_where_the_machine_has_neither(command, tmp_path, monkeypatch):
    command("mvn", MVN_THAT_SHOWS_HOW_IT_WAS_CALLED)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "no home"))
    monkeypatch.setattr(maven.shutil, "which", lambda name: str(tmp_path / "bin" / "mvn") if name == "mvn" else None)
    with pytest.raises(Problem, match="not UTF-8"):
        install.installed_class_path(RELEASE, JAVA, print)
    called = (tmp_path / "calls").read_text().splitlines()
    assert called[0] == f"JAVA_HOME={JAVA.home}"
    assert any(each.startswith(f"-Dmaven.repo.local={tmp_path}") for each in called)


def test_what_debian_would_fetch_is_said_first_and_why_it_failed_after(command, tmp_path, monkeypatch):
    apt = command("apt-get", APT_THAT_REFUSES)
    monkeypatch.setattr(maven.shutil, "which", lambda name: str(apt) if name == "apt-get" else None)
    monkeypatch.setattr(maven.os, "geteuid", lambda: 0)
    told: list[str] = []
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, JAVA, told.append)
    assert told == ["mvn is missing: installing Debian's package maven (10.0 MB to fetch, 13.0 MB on disk)"]
    assert raised.value.slug == "mvn-missing"
    assert "Unable to locate package maven" in raised.value.what
    assert not raised.value.usage


def test_a_cache_that_cannot_be_written_is_told_with_its_remedy(command, tmp_path, monkeypatch):
    command("mvn", MVN_THAT_BRINGS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path / "file"))
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, JAVA, print)
    assert raised.value.slug == "cache-not-writable"
    assert "NEMESIS_CACHE" in raised.value.remedy


def test_jars_say_where_they_came_from(command, tmp_path, monkeypatch):
    command("mvn", MVN_THAT_BRINGS)
    assert "org.apache.kafka:kafka_2.13:4.1.2" in install.installed_class_path(RELEASE, JAVA, print).origin
    libs = tmp_path / "kafka build" / "libs"
    libs.mkdir(parents=True)
    for name in ("kafka_2.13-4.1.2.jar", "log4j-slf4j-impl-2.25.3.jar"):
        (libs / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    built = install.local_class_path(Path("kafka build"))
    assert str(libs) in built.origin
    assert all(jar.is_absolute() for jar in built.jars)


def runtime(home, version: str):
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    return home


def test_the_launchers_java_is_asked_first(tmp_path, monkeypatch):
    home = runtime(tmp_path / "jdk", "21.0.4")
    monkeypatch.setenv("NEMESIS_JAVA_HOME", str(home))
    assert java.find_java() == java.Java(home, 21)


def test_an_old_java_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("NEMESIS_JAVA_HOME", str(runtime(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "new", "17.0.15")))
    assert java.find_java().major == 17


def test_without_a_java_those_that_are_too_old_are_named(tmp_path, monkeypatch):
    old = runtime(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java, "_candidates", lambda: iter([old, tmp_path / "none"]))
    with pytest.raises(Problem) as raised:
        java.find_java()
    assert raised.value.slug == "java-missing"
    assert f"{old} is Java 11" in raised.value.what
