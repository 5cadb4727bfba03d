"""Files on machines: artifacts by content, disks placed, evidence of nodes that are not to be trusted."""

from __future__ import annotations

import hashlib
import os
import stat
import sys

import pytest

from clusters.backends.files import Limits
from clusters.backends.ssh import transfer
from clusters.backends.ssh.agent.cache import Cache, CacheError
from clusters.backends.ssh.agent.files import Files, FilesError
from clusters.backends.ssh.artifacts import bring, pack, pack_packages
from clusters.cluster import Launch
from tests.clusters.ssh.machines import PATIENCE_S
from workloads.problem import Problem


def jars(folder):
    (folder / "libs" / "deep").mkdir(parents=True)
    (folder / "libs" / "big.jar").write_bytes(os.urandom(3 << 20))
    (folder / "libs" / "deep" / "empty").touch()
    (folder / "libs" / "tool").write_text("#!/bin/sh\n")
    (folder / "libs" / "tool").chmod(0o755)
    return folder / "libs"


def test_the_same_content_has_the_same_checksum_whatever_its_times_and_compiled_modules(tmp_path):
    one, two = jars(tmp_path / "one"), tmp_path / "two"
    two.mkdir()
    for path in sorted(one.rglob("*"), reverse=True):
        if path.is_file():
            copy = two / path.relative_to(one)
            copy.parent.mkdir(exist_ok=True, parents=True)
            copy.write_bytes(path.read_bytes())
            copy.chmod(stat.S_IMODE(path.stat().st_mode))
            os.utime(copy, (1, 1))
    (two / "__pycache__").mkdir()
    (two / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    assert pack(one) == pack(two)
    (two / "tool").write_text("#!/bin/bash\n")
    assert pack(one).sha256 != pack(two).sha256


def test_the_packages_of_the_reference_are_whole(tmp_path):
    cache = Cache(str(tmp_path / "cache"))
    packages = pack_packages()
    cache.write(packages.sha256, 0, packages.content)
    cache.commit(packages.sha256, True)
    there = tmp_path / "cache" / packages.sha256
    code = "import crc32c, kio.serial, msgspec; print(kio.__file__, crc32c.__file__, msgspec.__file__)"
    with os.popen(f"PYTHONPATH={there} {sys.executable} -S -c '{code}'") as told:
        assert all(path.startswith(str(there)) for path in told.read().split())


def test_content_that_is_damaged_on_the_way_or_later_is_not_taken(tmp_path):
    cache = Cache(str(tmp_path / "cache"))
    artifact = pack(jars(tmp_path / "one"))
    cache.write(artifact.sha256, 0, artifact.content[:-1] + b"x")
    with pytest.raises(CacheError, match="what arrived is not"):
        cache.commit(artifact.sha256, True)
    assert cache.missing([artifact.sha256]) == [artifact.sha256]
    cache.write(artifact.sha256, 0, artifact.content)
    cache.commit(artifact.sha256, True)
    assert cache.missing([artifact.sha256]) == []
    damaged = tmp_path / "cache" / artifact.sha256 / "tool"
    damaged.chmod(0o755)
    damaged.write_text("#!/bin/false\n")
    assert cache.missing([artifact.sha256]) == [artifact.sha256]
    assert not damaged.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "0" * 63, "", "A" * 64])
def test_the_cache_has_no_other_names_than_checksums(tmp_path, name):
    with pytest.raises(CacheError, match="is no checksum"):
        Cache(str(tmp_path / "cache")).place(name)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "n1/../../x", "n1//x", "", ".", "n1/x\0"])
def test_no_path_leads_out_of_the_run(tmp_path, path):
    files = Files(str(tmp_path), os.getuid(), os.getgid())
    for attempt in (files.entries, files.make_directory, files.remove, files.open_output):
        with pytest.raises(FilesError, match="is no path below"):
            attempt(path)


def test_no_symbolic_link_is_followed(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "n1").mkdir(parents=True)
    (root / "n1" / "way").symlink_to(outside)
    (root / "n1" / "link").symlink_to(outside / "secret")
    files = Files(str(root), os.getuid(), os.getgid())
    attempts = [
        lambda: files.read("n1/way/secret", 0),
        lambda: files.read("n1/link", 0),
        lambda: files.write("n1/way/new", -1, b"", 0, 0o644),
        lambda: files.write("n1/link", -1, b"", 0, 0o644),
        lambda: files.open_output("n1/link"),
        lambda: files.entries("n1/way"),
    ]
    for attempt in attempts:
        with pytest.raises(OSError, match=r"Too many levels of symbolic links|Not a directory"):
            attempt()
    files.remove("n1/way")
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    os.mkfifo(root / "n1" / "fifo")
    with pytest.raises(FilesError, match="no regular file"):
        files.read("n1/fifo", 0)


@pytest.mark.ssh
def test_an_artifact_is_sent_once_and_again_when_it_is_damaged(machines, make_cluster, tmp_path):
    artifact = pack(jars(tmp_path))
    sent = []
    for _ in range(2):
        cluster = make_cluster(machines, 1)
        cluster.up()
        sent.append(bring(cluster.host("n1").channel, [artifact]))
        cluster.down()
    assert sent == [len(artifact.content), 0]
    kept = machines.disk(1) / "cache" / artifact.sha256 / "tool"
    assert hashlib.sha256(kept.read_bytes()).digest() == hashlib.sha256(b"#!/bin/sh\n").digest()
    kept.chmod(0o755)
    kept.write_text("changed")
    cluster = make_cluster(machines, 1)
    cluster.up()
    assert bring(cluster.host("n1").channel, [artifact]) == len(artifact.content)
    assert kept.read_text() == "#!/bin/sh\n"


@pytest.mark.ssh
def test_not_even_a_node_that_is_root_changes_what_was_installed(machines, make_cluster, tmp_path):
    libs = jars(tmp_path)
    cluster = make_cluster(machines, 1)
    cluster.up()
    cluster.install([libs])
    (node,) = cluster.nodes
    tool = cluster.site.inside(libs / "tool")
    output = node.directory / "output" / "1.log"
    script = f"id -u; cat {tool}; echo x > {tool} || echo refused; rm -f {tool} || echo refused"
    cluster.start("n1", Launch(("sh", "-c", script), {}, node.directory, output))
    assert cluster.wait_exit("n1", PATIENCE_S)
    cluster.fetch("n1", (), node.directory)
    said = [line for line in output.read_text().splitlines() if not line.startswith(("sh:", "rm:"))]
    assert said == ["0", "#!/bin/sh", "refused", "refused"]


@pytest.mark.ssh
def test_evidence_beyond_the_limits_is_refused_and_holes_count_for_nothing(machines, make_cluster, tmp_path):
    cluster = make_cluster(machines, 1)
    cluster.up()
    (node,) = cluster.nodes
    node.data.mkdir()
    with (node.data / "holes.log").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"middle")
    (node.data / "big.log").write_bytes(bytes(2 << 20))
    cluster.place("n1")
    assert not node.data.exists()
    channel = cluster.host("n1").channel
    small = Limits(size_bytes=1 << 20, files=10)
    transfer.pull_matching(channel, "n1/data", ("holes*",), tmp_path / "copy", small)
    holes = (tmp_path / "copy" / "holes.log").stat()
    assert (holes.st_size, holes.st_blocks * 512 <= 1 << 20) == (1 << 30, True)
    for limits in (small, Limits(size_bytes=1 << 30, files=1)):
        with pytest.raises(Problem) as caught:
            transfer.pull_matching(channel, "n1/data", ("*.log",), tmp_path / "copy2", limits)
        assert caught.value.slug == "evidence-too-large"
    assert not (tmp_path / "copy2").exists()


@pytest.mark.ssh
def test_a_disk_is_not_put_over_another_one(machines, make_cluster):
    cluster = make_cluster(machines, 1)
    cluster.up()
    (node,) = cluster.nodes
    for content in ("old", "new"):
        node.data.mkdir()
        (node.data / "content").write_text(content)
        if content == "old":
            cluster.place("n1")
    with pytest.raises(Problem, match="n1/data is there already"):
        cluster.place("n1")
    cluster.wipe("n1", "data.wiped-0")
    cluster.place("n1")
    cluster.fetch("n1", ("content",), node.directory / "copy")
    assert (node.directory / "copy" / "content").read_text() == "new"
    assert (node.directory / "data.wiped-0").is_dir()
