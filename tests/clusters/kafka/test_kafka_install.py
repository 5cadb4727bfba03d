"""Fetching jars and finding Java, with commands that only pretend."""

from __future__ import annotations

import hashlib

import pytest

from clusters.candidates.kafka import install, java
from clusters.candidates.kafka.releases import parse_release
from workloads.problem import Problem

RELEASE = parse_release("4.1.2")
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
    first = install.installed_class_path(RELEASE, told.append)
    second = install.installed_class_path(RELEASE, told.append)
    assert first == second
    assert (tmp_path / "calls").read_text() == "run\n"
    assert first.checksums()["kafka-raft-4.1.2.jar"] == hashlib.sha256(b"raft").hexdigest()
    assert len(told) == 2
    assert "MB" in told[1]
    assert [path.name for path in (tmp_path / "cache" / "kafka").iterdir()] == ["4.1.2"]


def test_a_release_that_does_not_exist_is_said_so(command, tmp_path):
    command("mvn", MVN_THAT_KNOWS_NOT)
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, print)
    assert raised.value.slug == "kafka-version"
    assert raised.value.usage
    assert "--kafka-home" in raised.value.remedy


def test_a_download_that_breaks_off_leaves_nothing_that_looks_like_a_release(command, tmp_path):
    command("mvn", MVN_THAT_FAILS_HALFWAY)
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, print)
    assert raised.value.slug == "kafka-download"
    assert "Connection reset" in raised.value.what
    assert list((tmp_path / "cache" / "kafka").iterdir()) == []


def test_without_mvn_a_person_is_told_of_a_local_build(monkeypatch, tmp_path):
    monkeypatch.setenv("NEMESIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem) as raised:
        install.installed_class_path(RELEASE, print)
    assert raised.value.slug == "mvn-missing"
    assert "--kafka-home" in raised.value.remedy


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
