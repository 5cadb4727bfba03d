"""Disks that fail under nodes, shown on real file systems: what was not synced is gone, and errors are those that the node meets."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from clusters.backends import leftovers
from clusters.backends.backend import Place
from clusters.backends.files import read_shared
from clusters.backends.image_disks import ImageDisks, Room, lost_bytes, met, tear
from clusters.backends.loop_disk import FILESYSTEMS, find_program, mounts_below
from clusters.backends.shim.compile import can_compile, shim_library
from clusters.backends.shim.disk import DiskShim, parse_delays
from clusters.backends.shim.preload import control_file, with_shims
from clusters.backends.shim_disks import ShimDisks
from clusters.cluster import HERE, Launch, NodeSpec
from nemesis.faults.disk_choice import choose_filesystem
from nemesis.faults.schedule import NS, PlannedFault
from nemesis.life.plan import SHORT_TIMERS
from nemesis.scenario import load
from tests.clusters.conformance.grounds import Ground, docker, local
from tests.runs import perform
from workloads.problem import Problem

PROJECT = Path(__file__).resolve().parents[2]
root_only = pytest.mark.skipif(
    os.geteuid() != 0 or not all(find_program(f"mkfs.{each}") for each in FILESYSTEMS),
    reason="file systems are made and mounted by root, with mkfs.ext4 and mkfs.xfs",
)

# Appends to a log with a sync, then without; rewrites one file with a sync, and another without; and is killed.
_WRITER = """
import os, signal, sys
os.chdir(sys.argv[1])
log = os.open("0.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
os.write(log, b"a" * 7000); os.fsync(log); os.write(log, b"b" * 9000)
def replace(name, data, sync):
    with open(name + ".tmp", "wb") as file:
        file.write(data); file.flush()
        if sync: os.fsync(file.fileno())
    os.replace(name + ".tmp", name)
    if sync: os.fsync(os.open(".", os.O_RDONLY))
replace("kept", b"old", True); replace("kept", b"new", True)
replace("lost", b"old", True); replace("lost", b"new", False)
open("never", "wb").write(b"n" * 70_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def node_on(tmp_path: Path) -> NodeSpec:
    node = NodeSpec("n1", 1, "voter", "10.77.0.1", 9093, tmp_path / "nodes" / "n1")
    node.data.mkdir(parents=True)
    (node.data / "meta.properties").write_text("formatted")
    return node


@root_only
@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_power_cut_takes_what_was_not_synced_and_nothing_else(filesystem: str, tmp_path: Path) -> None:
    node = node_on(tmp_path)
    disks = ImageDisks([node], filesystem, Room())
    try:
        disks.place("n1")
        assert subprocess.run([sys.executable, "-c", _WRITER, str(node.data)], check=False).returncode == -9
        assert (node.data / "0.log").stat().st_size == 16_000
        cut = disks.cut_power("n1", None)
        assert cut.happened
        assert (node.data / "meta.properties").read_text() == "formatted"
        log = (node.data / "0.log").read_bytes()
        assert log[:7000] == b"a" * 7000
        assert not log[7000:].strip(b"\0"), "the size may be durable before the blocks are"
        assert (node.data / "kept").read_bytes() == b"new"
        assert (node.data / "lost").read_bytes() in (b"", b"old"), "renamed over without a sync"
        assert not (node.data / "never").exists() or (node.data / "never").stat().st_size == 0
        assert dict(cut.lost) == {"0.log": 9000, "lost": 3, "never": 70_000}
        assert dict(disks.cut_power("n1", 0.5).lost) == {}, "what is left is on the disk"
        with (node.data / "0.log").open("ab") as more:
            more.write(b"c" * 1000)
        torn = disks.cut_power("n1", 0.5)
        assert dict(torn.torn) == {"0.log": 500}
        assert (node.data / "0.log").read_bytes() == log + b"c" * 500
        assert [disks.break_disk("n1", "full"), met(node.data)] == ["ENOSPC"] * 2
        disks.mend_disk("n1")
        assert [met(node.data), disks.break_disk("n1", "failing"), met(node.data)] == ["", "EIO", "EIO"]
        disks.fetch("n1", ["*"], tmp_path / "evidence")
        assert (tmp_path / "evidence" / "meta.properties").read_text() == "formatted", "read after the disk works again"
        if filesystem == "ext4":
            with (node.data / "0.log").open("ab", buffering=0) as log:
                assert disks.break_disk("n1", "read-only") == "EROFS"
                with pytest.raises(OSError, match="Read-only"):
                    log.write(b"d")
            disks.mend_disk("n1")
            assert met(node.data) == ""
    finally:
        disks.close()
    assert not mounts_below(tmp_path)


@pytest.mark.namespaces
@pytest.mark.shows("power-cut", "disk-full", "disk-read-only", "disk-eio", disks="shim")
@pytest.mark.skipif(not can_compile(["disk"])[0], reason="no C compiler")
def test_without_root_a_power_cut_takes_what_was_not_synced_too(tmp_path: Path) -> None:
    node = node_on(tmp_path)
    disks, shim = ShimDisks([node]), DiskShim(shim_library("disk"), durable_at_sync=True)
    disks.place("n1")

    def run(program: str) -> int:
        argv = (sys.executable, "-c", program, str(node.data))
        launch = with_shims(Launch(argv, {}, tmp_path, tmp_path / "out"), [shim], node, 1, HERE)
        return subprocess.run(launch.argv, env={**os.environ, **launch.env}, check=False, timeout=30).returncode

    assert run(_WRITER) == -9
    cut = disks.cut_power("n1", None)
    assert cut.happened
    assert (node.data / "meta.properties").read_text() == "formatted"
    assert (node.data / "0.log").read_bytes() == b"a" * 7000
    assert (node.data / "kept").read_bytes() == b"new"
    assert (node.data / "lost").read_bytes() == b"", "renamed over without a sync"
    assert not (node.data / "never").exists()
    assert dict(cut.lost) == {"0.log": 9000, "lost": 3, "never": 70_000}
    assert run("import os, sys; open(sys.argv[1] + '/0.log', 'ab').write(b'c' * 1000)") == 0
    assert dict(disks.cut_power("n1", 0.5).torn) == {"0.log": 500}
    assert (node.data / "0.log").read_bytes() == b"a" * 7000 + b"c" * 500
    assert dict(disks.cut_power("n1", None).lost) == {}
    assert run("import os, sys; os.mkdir(sys.argv[1] + '/d'); os.remove(sys.argv[1] + '/kept')") == 0
    disks.cut_power("n1", None)
    assert (node.data / "d").is_dir()
    assert not (node.data / "kept").exists()
    fails = "import os, sys, time; from pathlib import Path; f = open(sys.argv[1] + '/0.log', 'ab', buffering=0)\n"
    fails += "while True:\n  try: f.write(b'd'); time.sleep(0.01)\n  except OSError as error: sys.exit(error.errno)"
    argv = (sys.executable, "-c", fails, str(node.data))
    for times, (how, error) in enumerate((("full", "ENOSPC"), ("read-only", "EROFS"), ("failing", "EIO")), start=2):
        launch = with_shims(Launch(argv, {}, tmp_path, tmp_path / "out"), [shim], node, times, HERE)
        with subprocess.Popen(launch.argv, env={**os.environ, **launch.env}) as running:
            assert disks.break_disk("n1", how) == error
            assert running.wait(30) == getattr(errno, error)
        disks.mend_disk("n1")
        assert parse_delays(read_shared(control_file(node, "disk"))).failed == 1


def test_what_is_lost_is_counted_from_the_first_byte_that_differs(tmp_path: Path) -> None:
    before = {"same": b"abc", "cut": b"abcdef", "other": b"abXdef", "gone": b"12", "0.log": b"0123456789"}
    after = {"same": b"abc", "cut": b"abc", "other": b"abYdefg", "0.log": b"01"}
    assert lost_bytes(before, after) == {"cut": 3, "other": 4, "gone": 2, "0.log": 8}
    (tmp_path / "0.log").write_bytes(b"01")
    assert tear(tmp_path, before, after, 0.99) == {"0.log": 7}, "never all of it"
    assert (tmp_path / "0.log").read_bytes() == b"012345678"


def test_a_run_gets_disks_that_can_fail_only_where_they_shall(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_filesystem(load("kill-leader"), "local", None) is None
    for scenario, asked, slug in (
        ("kill-leader", "ext4", "filesystem-unneeded"),
        ("power-cut-leader", "ntfs", "filesystem-unknown"),
        ("disk-read-only-follower", "xfs", "disk-unable"),
    ):
        with pytest.raises(Problem) as caught:
            choose_filesystem(load(scenario), "local", asked)
        assert (caught.value.slug, caught.value.usage) == (slug, True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert choose_filesystem(load("power-cut-leader"), "local", None) == "shim"
    with pytest.raises(Problem, match="only root"):
        choose_filesystem(load("power-cut-leader"), "local", "ext4")
    with pytest.raises(Problem, match="for --cluster local"):
        choose_filesystem(load("power-cut-leader"), "ssh", "shim")


STORAGE_FAULTS = (("power-cut", "n1"), ("disk-full", "n2"), ("disk-eio", "n3"), ("disk-read-only", "n4"))


@pytest.mark.namespaces
@pytest.mark.skipif(not can_compile(["disk"])[0], reason="no C compiler")
def test_nodes_of_an_ordinary_user_lose_power_and_meet_errors(tmp_path: Path) -> None:
    """Disks by the preloaded library; those that root has: ``test_fault_effects.py``."""
    path = tmp_path / "storage.toml"
    # One after the other: a node meets an error when it writes, and who has no majority around it may have nothing to write.
    planned = [
        PlannedFault(number, name, (1 + 2 * number) * NS, 3 * NS // 2, False, 0.3, parameters=(("targets", node),))
        for number, (name, node) in enumerate(STORAGE_FAULTS)
    ]
    path.write_text(
        'title = "T"\ntext = "t"\nobservers = 1\n'
        + "".join(f'[[faults]]\nfault = "{name}"\n' for name, _ in STORAGE_FAULTS)
    )
    place = Place(filesystem="shim")
    run = perform(tmp_path / "store", str(path), 1, schedule=planned, timers=SHORT_TIMERS, duration_s=9.0, place=place)
    faults = rows(run, "faults")
    assert {row["fault"] for row in faults} == {name for name, _ in STORAGE_FAULTS}
    for row in faults:
        assert row["verified"], row["detail"]
        assert "not healed" not in row["detail"]
    by_name = {row["fault"]: row["detail"] for row in faults}
    assert "power cut on shim; n1: " in by_name["power-cut"]
    assert "bytes of the node were lost" in by_name["power-cut"]
    kinds = [row["kind"] for row in rows(run, "lifecycle") if row["node"] == "n1" and row["kind"] != "starved"]
    assert kinds[:5] == ["format", "start", "kill", "power-cut", "start"]
    # The library's error is the node's own: the reference ends because of it, and says so.
    for node, name, error in (
        ("n2", "disk-full", "No space left"),
        ("n3", "disk-eio", "Input/output error"),
        ("n4", "disk-read-only", "Read-only file system"),
    ):
        assert f"{node} ended by itself" in by_name[name]
        assert error in "".join(each.read_text() for each in (run / "nodes" / node / "output").glob("*.log"))


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return list(pq.read_table(run / "tables" / f"{table}.parquet").to_pylist())


_CONTROLLER = """
import sys, time
from pathlib import Path
from clusters.backends.backend import Place
from clusters.backends.registry import find_backend
name, run, ledger = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
place, backend = Place(filesystem="ext4"), find_backend(name)
(node,) = backend.plan(run, 1, 0, place).nodes
node.data.mkdir(parents=True)
(node.data / "meta.properties").write_text("formatted")
cluster = backend.make([node], place, ledger)
cluster.up()
cluster.place(node.name)
cluster.fetch(node.name, ["*"], run / "seen")
print("runs", flush=True)
time.sleep(600)
"""


@root_only
@pytest.mark.namespaces
@pytest.mark.parametrize("ground", [local, pytest.param(docker, marks=pytest.mark.docker)], ids=["local", "docker"])
def test_no_mount_outlives_a_killed_controller_for_longer_than_until_the_next_command(
    ground: Callable[[Path], AbstractContextManager[Ground]], tmp_path: Path
) -> None:
    with ground(tmp_path) as place:
        backend = place.backend
    run, ledger = tmp_path / "run", tmp_path / "ledger"
    command = [sys.executable, "-c", _CONTROLLER, backend, str(run), str(ledger)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    ) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"runs\n"
        assert (run / "seen" / "meta.properties").read_text() == "formatted"
        assert _loop_devices(run), "the disk is on a loop device"
        assert bool(mounts_below(run)) is (backend == "docker"), "the lab's mounts are seen by the lab only"
        controller.kill()
    found = leftovers.sweep(ledger)
    assert [each.problem for each in found] == [None]
    deadline = time.monotonic() + 10
    while _loop_devices(run) and time.monotonic() < deadline:
        time.sleep(0.05)  # a mount namespace is taken down after its last process
    assert not _loop_devices(run)
    assert not mounts_below(run)


def _loop_devices(run: Path) -> list[str]:
    """Loop devices whose image lies in the run's folder."""
    names = [each.read_text().strip() for each in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [name for name in names if Path(name).is_relative_to(run)]
