"""The disk shim delays what a program writes and syncs below one directory, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.backends.files import read_shared, write_shared
from clusters.backends.shim.compile import can_compile, shim_library
from clusters.backends.shim.disk import DiskShim
from clusters.backends.shim.preload import with_shims
from clusters.cluster import HERE, Launch, NodeSpec

pytestmark = pytest.mark.skipif(not can_compile(["disk"])[0], reason="no C compiler")

# Says how long each call took, in ms: below the disk's directory, then elsewhere.
_PROGRAM = """
import json, os, sys, time
took = {}
for where in sys.argv[1:]:
    file = os.open(where, os.O_CREAT | os.O_WRONLY)
    for name, call in (("write", lambda: os.write(file, b"1")), ("pwrite", lambda: os.pwrite(file, b"12", 0)),
                       ("writev", lambda: os.writev(file, [b"3", b"4"])), ("pwritev", lambda: os.pwritev(file, [b"1"], 0)),
                       ("fsync", lambda: os.fsync(file)), ("fdatasync", lambda: os.fdatasync(file))):
        began = time.monotonic(); call(); took[name + " " + os.path.basename(where)] = 1000 * (time.monotonic() - began)
print(json.dumps(took))
"""


class Here:
    """Files of this machine, shared with a process."""

    def write_shared(self, node: str, path: Path, offset: int, data: bytes) -> None:
        write_shared(path, offset, data)

    def read_shared(self, node: str, path: Path) -> bytes:
        return read_shared(path)

    def file_size(self, node: str, path: Path) -> int:
        return path.stat().st_size


def test_each_call_on_the_disk_waits_and_is_counted(tmp_path: Path) -> None:
    node = NodeSpec("n1", 1, "voter", "10.77.0.1", 9093, tmp_path / "n1")
    node.data.mkdir(parents=True)
    (tmp_path / "link").symlink_to(node.data)
    shim = DiskShim(shim_library("disk"))
    inside, through_link, outside = node.data / "log", tmp_path / "link" / "index", tmp_path / "n1" / "database"
    program = (sys.executable, "-c", _PROGRAM, str(inside), str(through_link), str(outside))
    launch = with_shims(Launch(program, {}, tmp_path, tmp_path / "out"), [shim], node, 1, HERE)

    def run() -> dict[str, float]:
        env = {**os.environ, **launch.env}
        told = subprocess.run(launch.argv, env=env, capture_output=True, check=True, timeout=30).stdout
        return {name: float(took) for name, took in json.loads(told).items()}

    run()
    assert shim.delays(Here(), node).loaded
    assert shim.delays(Here(), node).writes == shim.delays(Here(), node).syncs == 0
    shim.delay(Here(), node, 30)
    took = run()
    assert all(ms >= 30 for name, ms in took.items() if not name.endswith("database")), took
    assert all(
        ms < 30 for name, ms in took.items() if name.startswith(("write", "pwrite")) and name.endswith("database")
    ), took
    seen = shim.delays(Here(), node)
    assert (seen.writes, seen.syncs) == (8, 4)
    assert seen.slept_ms >= 12 * 30
    assert inside.read_bytes() == outside.read_bytes() == b"134", "what was written arrived"
