"""Connections to machines: who is refused, and what a person is told."""

from __future__ import annotations

import subprocess

import pytest

from workloads.problem import Problem

pytestmark = pytest.mark.ssh


def refused(make_cluster, machines, inventory=None):
    cluster = make_cluster(machines, 3, inventory)
    with pytest.raises(Problem) as caught:
        cluster.up()
    cluster.down()
    return caught.value


def changed(machines, tmp_path, before, after):
    """The inventory with one thing changed."""
    text = machines.inventory.read_text()
    assert before in text
    inventory = tmp_path / "changed.toml"
    inventory.write_text(text.replace(before, after, 1))
    return inventory


def known_hosts(machines, tmp_path, lines):
    path = tmp_path / "known"
    path.write_text("".join(lines))
    return changed(machines, tmp_path, str(machines.folder / "known_hosts"), str(path))


def test_a_machine_that_nobody_knows_is_refused_with_the_key_that_it_shows(machines, make_cluster, tmp_path):
    lines = (machines.folder / "known_hosts").read_text().splitlines(keepends=True)
    problem = refused(make_cluster, machines, known_hosts(machines, tmp_path, lines[:2]))
    assert problem.slug == "host-key-unknown"
    fingerprint = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(machines.folder / "host3.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert (
        f"root@10.88.3.2:2203 is not in {tmp_path / 'known'}; it shows the key ssh-ed25519 {fingerprint}"
        in problem.what
    )


def test_a_machine_with_another_key_than_the_known_one_is_refused(machines, make_cluster, tmp_path):
    lines = (machines.folder / "known_hosts").read_text().splitlines(keepends=True)
    (name, kind, _), (_, _, key) = (line.split() for line in lines[:2])
    problem = refused(make_cluster, machines, known_hosts(machines, tmp_path, [f"{name} {kind} {key}\n", *lines[1:]]))
    assert problem.slug == "host-key-changed"
    assert "another machine answers there" in problem.what
    assert "ssh-keygen" in problem.remedy


def test_a_key_that_the_machine_does_not_let_in_is_told(machines, make_cluster, tmp_path):
    key = machines.folder / "host1"
    problem = refused(make_cluster, machines, changed(machines, tmp_path, str(machines.folder / "key"), str(key)))
    assert problem.slug == "login-refused"
    assert f"does not let root in with {key}" in problem.what


def test_keys_that_cannot_be_used_are_told(machines, make_cluster, tmp_path):
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)], check=True)
    key = str(machines.folder / "key")
    assert "has a passphrase" in refused(make_cluster, machines, changed(machines, tmp_path, key, str(locked))).what
    problem = refused(make_cluster, machines, changed(machines, tmp_path, key, str(tmp_path / "absent")))
    assert problem.slug == "key-unreadable"
    known = str(machines.folder / "known_hosts")
    problem = refused(make_cluster, machines, changed(machines, tmp_path, known, str(tmp_path / "absent")))
    assert (problem.slug, "ssh-keyscan" in problem.remedy) == ("known-hosts-unreadable", True)


def test_a_machine_where_nobody_listens_is_told(machines, make_cluster, tmp_path):
    problem = refused(make_cluster, machines, changed(machines, tmp_path, "port = 2202", "port = 2299"))
    assert problem.slug == "machine-unreachable"
    assert "root@10.88.2.2:2299 cannot be reached through ssh" in problem.what


def test_a_python_that_is_not_there_is_told(machines, make_cluster, tmp_path):
    inventory = changed(machines, tmp_path, 'python = "', 'python = "/absent')
    problem = refused(make_cluster, machines, inventory)
    assert problem.slug == "agent-not-started"
    assert "/absent" in problem.what


def test_a_controller_that_a_partition_would_cut_off_is_refused(machines, make_cluster, tmp_path):
    machines.run(2, "ip address add 10.88.1.1/32 dev lo")
    try:
        inventory = changed(machines, tmp_path, 'address = "10.99.0.2"', 'address = "10.88.1.1"')
        problem = refused(make_cluster, machines, inventory)
    finally:
        machines.run(2, "ip address del 10.88.1.1/32 dev lo")
    assert problem.slug == "control-over-data"
    assert "comes from 10.88.1.1, the data address of n2" in problem.what


def test_an_address_that_is_not_the_machines_own_is_told(machines, make_cluster, tmp_path):
    inventory = changed(machines, tmp_path, 'address = "10.99.0.2"', 'address = "10.99.0.77"')
    problem = refused(make_cluster, machines, inventory)
    assert problem.slug == "address-not-there"
    assert "10.99.0.77 is not an address of root@10.88.2.2:2202" in problem.what


def test_two_runs_do_not_share_a_machine(machines, make_cluster, monkeypatch):
    first = make_cluster(machines, 1)
    first.up()
    monkeypatch.setattr("clusters.backends.ssh.host.BUSY_PATIENCE_S", 0.2)
    problem = refused(make_cluster, machines)
    assert problem.slug == "machine-busy"
    assert first.lab in problem.what
    assert first.probe([]) == {}
