"""Releases, local distributions, and promises."""

from __future__ import annotations

import pytest

from clusters.candidates.kafka.candidate import KafkaCandidate
from clusters.candidates.kafka.configuration import check_timers, properties_text
from clusters.candidates.kafka.formatting import directory_id_for
from clusters.candidates.kafka.install import local_class_path
from clusters.candidates.kafka.releases import parse_release
from clusters.evidence.identity import text_to_uuid
from workloads.history.manifest import Timers
from workloads.problem import Problem


def slug(call) -> str:
    with pytest.raises(Problem) as raised:
        call()
    return raised.value.slug


@pytest.mark.parametrize("text", ["", "4", "4.1", "4.1.2.3", "newest", "v4.1.2", "../4.1.2"])
def test_what_is_no_version_is_refused(text):
    assert slug(lambda: parse_release(text)) == "kafka-version"


def test_releases_before_kraft_is_tested_are_refused():
    assert slug(lambda: parse_release("3.5.2")) == "kafka-version"


def test_what_differs_between_releases():
    old, identities, dynamic, pre_vote = (parse_release(text) for text in ("3.6.2", "3.7.0", "3.9.2", "4.0.0"))
    assert not old.writes_directory_id
    assert identities.writes_directory_id
    assert not identities.dynamic_quorums
    assert dynamic.dynamic_quorums
    assert dynamic.generation == "kip-595"
    assert pre_vote.generation == "kip-996"
    assert parse_release("4.4.0-SNAPSHOT").minor == 4


def test_a_dynamic_quorum_needs_a_release_that_has_it():
    assert slug(lambda: KafkaCandidate("3.8.1", quorum="dynamic")) == "quorum-kind"
    assert slug(lambda: KafkaCandidate("4.1.2", quorum="elastic")) == "quorum-kind"


def test_registers_are_served_where_controllers_tell_configurations():
    assert "register" not in KafkaCandidate("3.6.2").workloads
    assert KafkaCandidate("3.7.0").workloads[0] == "counter"
    assert "register" in KafkaCandidate("3.7.0").workloads


def distribution(home, *jars):
    (home / "libs").mkdir()
    for jar in jars:
        (home / "libs" / jar).write_bytes(b"jar")
    return home


def test_a_local_distribution_tells_its_version(tmp_path):
    home = distribution(tmp_path, "kafka_2.13-4.4.0-SNAPSHOT.jar", "log4j-slf4j-impl-2.25.4.jar")
    assert local_class_path(home).release.text == "4.4.0-SNAPSHOT"
    assert KafkaCandidate(home=home).release.minor == 4
    assert slug(lambda: KafkaCandidate("4.1.2", home=home)) == "kafka-version"


def test_a_directory_that_is_no_distribution_is_refused(tmp_path):
    assert slug(lambda: local_class_path(tmp_path)) == "kafka-home"


def test_a_distribution_that_would_log_nothing_is_refused(tmp_path):
    assert slug(lambda: local_class_path(distribution(tmp_path, "kafka_2.13-4.1.2.jar"))) == "kafka-home"


def test_directory_ids_are_drawn_from_the_seed_and_differ_from_disk_to_disk():
    drawn = {directory_id_for(7, node, disk) for node in ("n1", "n2") for disk in range(200)}
    assert len(drawn) == 400
    assert directory_id_for(7, "n1", 0) == directory_id_for(7, "n1", 0) != directory_id_for(8, "n1", 0)
    for text in drawn:
        assert not text.startswith("-")
        assert text_to_uuid(text).int >= 100


def test_a_run_may_not_judge_check_quorum_by_a_shorter_bound_than_the_release_has():
    check_timers(Timers(election_timeout_ms=500, fetch_timeout_ms=1000, check_quorum_ms=1500, request_timeout_ms=1000))
    with pytest.raises(ValueError, match="1500 ms"):
        check_timers(
            Timers(election_timeout_ms=500, fetch_timeout_ms=1000, check_quorum_ms=1000, request_timeout_ms=1000)
        )


def test_a_path_with_any_character_survives_the_way_java_reads_properties(tmp_path):
    path = "/home/bj\u00f6rn/my runs/a\\b/\U0001f433"
    text = properties_text({"log.dirs": path})
    assert text.isascii()
    name, _, value = text.rstrip("\n").partition("=")
    assert name == "log.dirs"
    assert value == "/home/bj\\u00f6rn/my runs/a\\\\b/\\ud83d\\udc33"
