"""Machines on which the one who logs in is not root."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from clusters.cluster import Launch
from clusters.links import between
from tests.clusters.ssh.machines import PATH, PATIENCE_S, UID
from workloads.problem import Problem

pytestmark = pytest.mark.ssh


@pytest.mark.skipif(shutil.which("sudo", path=PATH) is None, reason="there is no sudo")
def test_with_sudo_the_agent_is_root_and_the_node_is_the_one_who_logged_in(make_machines, make_cluster, tmp_path):
    machines = make_machines(count=2, login="tester", sudoers="tester ALL=(root) NOPASSWD: ALL\n")
    (tmp_path / "code").write_text("code\n")
    with machines.inside():
        cluster = make_cluster(machines, 2)
        cluster.up()
        cluster.install([tmp_path / "code"])
        (node, _) = cluster.nodes
        node.data.mkdir()
        (node.data / "formatted").write_text("new")
        cluster.place("n1")
        disk, code = cluster.site.inside(node.data), cluster.site.inside(tmp_path / "code")
        output = node.directory / "output" / "1.log"
        script = f"id -u; id -G; cat {code}; echo changed > {disk}/formatted; echo x > {code} || echo refused"
        cluster.start("n1", Launch(("sh", "-c", script), {}, node.directory, output))
        assert cluster.wait_exit("n1", PATIENCE_S)
        cluster.fetch("n1", ("formatted",), node.directory / "copy")
        said = [line for line in output.read_text().splitlines() if not line.startswith("sh:")]
        assert said == [str(UID), str(UID), "code", "refused"]
        assert (node.directory / "copy" / "formatted").read_text() == "changed\n"
        cluster.cut(between(["n1"], ["n2"]))
        assert cluster.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): False, ("n2", "n1"): True}
        cluster.down()
        assert list((machines.disk(1) / "runs").iterdir()) == []


@pytest.mark.skipif(shutil.which("sudo", path=PATH) is None, reason="there is no sudo")
def test_who_may_not_become_root_is_told_what_to_do(make_machines, make_cluster, tmp_path):
    machines = make_machines(count=1, login="tester", sudoers="root ALL=(ALL) ALL\n")
    with machines.inside():
        cluster = make_cluster(machines, 1)
        with pytest.raises(Problem) as caught:
            cluster.up()
        assert caught.value.slug == "sudo-refused"
        assert "tester ALL=(root) NOPASSWD: ALL" in caught.value.remedy
        without = tmp_path / "without.toml"
        python = f'python = "{os.path.realpath(sys.executable)}"'
        text = machines.inventory.read_text().replace("sudo = true", "sudo = false")
        assert python in text
        without.write_text(text.replace(python, f'python = "{shutil.which("python3", path="/usr/bin")}"'))
        with pytest.raises(Problem) as caught:
            make_cluster(machines, 1, without).up()
        assert caught.value.slug == "machine-not-root"
        assert "sudo = true" in caught.value.remedy
