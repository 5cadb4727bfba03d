"""The inventory of machines: what it says, and that a mistake is told with its line."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from clusters.backends.backend import Place
from clusters.backends.ssh import backend
from clusters.backends.ssh.inventory import EXAMPLE, parse_inventory, read_inventory
from clusters.backends.ssh.leftovers import ledger_machines, ledger_place
from workloads.problem import Problem

TWO = """\
data = "/srv/nemesis"

[defaults]
user = "tester"
lease_s = 5

[[machine]]
host = "10.0.0.1"

[[machine]]  # the second
host = "far.example"
address = "192.168.0.2"
user = "root"
port = 2200
"""


def test_the_example_is_an_inventory_of_three_machines():
    machines = read_inventory(EXAMPLE)
    assert [machine.address for machine in machines] == ["192.168.7.11", "192.168.7.12", "192.168.7.13"]
    assert [machine.sudo for machine in machines] == [False, False, True]
    assert str(machines[2]) == "tester@10.0.0.13"


def test_a_machine_says_what_differs_from_the_defaults():
    first, second = parse_inventory(TWO, "two.toml")
    assert (first.host, first.address, first.user, first.port) == ("10.0.0.1", "10.0.0.1", "tester", 22)
    assert (second.host, second.address, second.user, second.port) == ("far.example", "192.168.0.2", "root", 2200)
    assert first.data == second.data == PurePosixPath("/srv/nemesis")
    assert (first.lease_s, first.key) == (5.0, None)


@pytest.mark.parametrize(
    ("before", "after", "line", "what"),
    [
        ('user = "tester"', "user = tester", 4, "Invalid value"),
        ('user = "tester"', "usr = 'tester'", 4, "did you mean user?"),
        ('user = "tester"', "user = 7", 4, "user is 7, not a text"),
        ('user = "tester"', 'user = ""', 4, "user is '', not a text"),
        ("lease_s = 5", "lease_s = 1", 5, "a number of seconds from 2 to 3600"),
        ("lease_s = 5", 'data = "/srv"', 5, "there is no 'data' here"),
        ("port = 2200", "port = true", 14, "a number from 1 to 65535"),
        ("port = 2200", "port = 70000", 14, "a number from 1 to 65535"),
        ("port = 2200", "sudo = 1", 14, "true or false"),
        ('address = "192.168.0.2"', "", 11, "a host that is a name needs an address (IPv4)"),
        ('address = "192.168.0.2"', 'address = "192.168.0"', 12, "address is an IPv4 address"),
        ('address = "192.168.0.2"', 'address = "10.0.0.1"', 12, "two machines have the address 10.0.0.1"),
        ('host = "10.0.0.1"', 'address = "10.0.0.1"', 7, "a machine needs a host"),
        ('data = "/srv/nemesis"', 'data = "srv"', 1, "an absolute path"),
        ('data = "/srv/nemesis"', 'data = "/srv/../etc/x"', 1, "an absolute path"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(before, after, line, what):
    assert TWO.count(before) == 1
    with pytest.raises(Problem) as caught:
        parse_inventory(TWO.replace(before, after), "two.toml")
    assert caught.value.slug == "bad-inventory"
    assert caught.value.usage
    assert caught.value.what.startswith(f"two.toml, line {line}: "), caught.value.what
    assert what in caught.value.what


def test_an_inventory_without_machines_or_without_a_file_is_told(tmp_path):
    with pytest.raises(Problem, match=r"it names no machine: write a \[\[machine\]\] table"):
        parse_inventory('data = "/srv/nemesis"\n', "none.toml")
    with pytest.raises(Problem, match="No such file"):
        read_inventory(tmp_path / "missing.toml")


def test_more_nodes_than_machines_are_refused_before_anything_is_done(tmp_path):
    inventory = tmp_path / "two.toml"
    inventory.write_text(TWO)
    with pytest.raises(Problem, match=r"3 nodes need a machine each, and the inventory .* has 2") as caught:
        backend.plan(tmp_path, 2, 1, Place(inventory=inventory))
    assert caught.value.usage
    with pytest.raises(Problem, match="--inventory FILE"):
        backend.plan(tmp_path, 2, 1, Place())
    planned = backend.plan(tmp_path, 1, 1, Place(inventory=inventory))
    assert [(node.name, node.role, node.address, node.host) for node in planned.nodes] == [
        ("n1", "voter", "10.0.0.1", "10.0.0.1"),
        ("n2", "observer", "192.168.0.2", "far.example"),
    ]


def test_the_ledger_keeps_all_that_is_needed_to_reach_machines_again():
    machines = parse_inventory(TWO.replace('user = "tester"', 'key = "/keys/one"'), "two.toml")
    assert machines[0].key == Path("/keys/one")
    assert ledger_machines(ledger_place(machines)) == machines
    assert ledger_machines({}) == ()
