"""The agent's parts and its archive, without a machine."""

from __future__ import annotations

import ast
import io
import json
import os
import struct
import subprocess
import sys
import zipfile

import pytest

from clusters.backends.ssh.agent.frames import BLOB_BYTES_MAX, Decoder, FrameError, encode
from clusters.backends.ssh.bundle import agent_bundle, loader_text
from clusters.backends.ssh.clock import Offset, RoundTrip

OLDEST = (3, 10)


def test_messages_are_whole_however_the_stream_is_cut():
    messages = [({"id": 1, "op": "ping"}, b""), ({"id": 2, "text": "žluť"}, bytes(range(256))), ({}, b"x")]
    stream = b"".join(encode(message, blob) for message, blob in messages)
    for size in (1, 2, 7, 64, len(stream)):
        decoder = Decoder()
        found = [each for at in range(0, len(stream), size) for each in decoder.feed(stream[at : at + size])]
        assert found == messages


@pytest.mark.parametrize(
    "stream",
    [
        struct.pack(">II", 2, BLOB_BYTES_MAX + 1),
        struct.pack(">II", 1 << 31, 0),
        struct.pack(">II", 2, 0) + b"[]",
        struct.pack(">II", 3, 0) + b"{x}",
    ],
)
def test_what_is_no_message_is_refused(stream):
    with pytest.raises(FrameError):
        Decoder().feed(stream)


def test_the_archive_is_the_same_each_time_and_needs_nothing_but_its_python():
    bundle = agent_bundle()
    agent_bundle.cache_clear()
    assert agent_bundle() == bundle
    with zipfile.ZipFile(io.BytesIO(bundle.content)) as archive:
        sources = {name: archive.read(name).decode() for name in archive.namelist()}
    for name, text in {**sources, "loader": loader_text()}.items():
        tree = ast.parse(text, name, feature_version=OLDEST)
        modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        modules += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
        for module in modules:
            ours = module.replace(".", "/")
            assert module.split(".")[0] in sys.stdlib_module_names or {f"{ours}.py", f"{ours}/__init__.py"} & set(
                sources
            ), f"{name} imports {module}"


def test_the_archive_runs_without_the_project(tmp_path):
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(agent_bundle().content)
    options = {"mode": "sweep", "data": str(tmp_path / "nothing"), "wanted": None, "dry_run": True, "keep_files": False}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(agent), json.dumps(options), str(os.getuid()), str(os.getgid())],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert Decoder().feed(done.stdout) == [({"id": 0, "value": []}, b"")]


def trip(asked_ns, took_ns, ahead_ns, there_after_ns):
    """A round trip whose question was answered ``there_after_ns`` after it was asked."""
    there_ns = asked_ns + there_after_ns + ahead_ns
    return RoundTrip(asked_ns, asked_ns + took_ns, asked_ns + took_ns, there_ns, there_ns)


def test_the_true_offset_is_within_the_bound_of_the_fastest_round_trip():
    offset = Offset()
    for number in range(16):
        took_ns = 1_000_000 if number != 9 else 10_000
        offset.take(trip(number * 10**9, took_ns, ahead_ns=5_000_000_000, there_after_ns=took_ns - 1))
    clock = offset.clock()
    assert clock.error_ns <= 5_001
    assert abs(clock.ahead_ns - 5_000_000_000) <= clock.error_ns
    assert clock.wall_ahead_ns == clock.ahead_ns


def test_clocks_that_drift_apart_widen_the_bound():
    offset = Offset()
    drift_ns = 2_000_000
    for number in range(160):
        ahead_ns = -7_000_000 + drift_ns * number // 159
        offset.take(trip(number * 10**9, 20_000, ahead_ns=ahead_ns, there_after_ns=10_000))
    clock = offset.clock()
    # The fastest round trip of the last window need not be the last one.
    assert 0.9 * drift_ns / 2 <= clock.error_ns <= drift_ns / 2 + 20_000
    assert abs(clock.ahead_ns - (-7_000_000 + drift_ns // 2)) <= 0.1 * drift_ns


def test_without_a_round_trip_nothing_is_known():
    with pytest.raises(ValueError, match="no round trip"):
        Offset().clock()
