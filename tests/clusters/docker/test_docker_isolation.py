"""What a container of a node must not be able to do: leave the run's network, reach the host, write where the controller writes."""

from __future__ import annotations

import signal
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.backends.backend import Place
from clusters.backends.docker.engine import connect
from clusters.backends.docker.image import base_tag
from clusters.backends.docker.marks import RUN
from clusters.links import between
from tests.clusters.conformance.grounds import Ground, docker
from tests.clusters.conformance.lab import Lab

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("isolation")
    with docker(folder) as ground:
        lab = Lab(ground, folder / "run", 2, folder / "ledger")
        try:
            lab.cluster.up(print)
            yield lab
        finally:
            lab.cluster.down()


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    shared_lab.clear()
    shared_lab.serve("n1", "n2")
    return shared_lab


def gateway(lab: Lab) -> str:
    """The host's own address on the run's network, which clients come from."""
    with lab.cluster.client_socket() as client:
        client.connect_ex((lab.specs["n2"].address, lab.specs["n2"].port))
        return str(client.getsockname()[0])


def test_no_listener_of_the_host_is_reached_by_any_of_its_addresses(lab: Lab) -> None:
    addresses = {gateway(lab)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if probe.connect_ex(("192.0.2.1", 9)) == 0:
            addresses.add(probe.getsockname()[0])
    with socket.create_server(("0.0.0.0", 0)) as listener:
        listener.settimeout(0.5)
        port = listener.getsockname()[1]
        for address in addresses:
            answer = lab.ask("n1", f"dial {address} {port} 1")
            assert answer in ("TimeoutError", "OSError", "PermissionError"), address
        with pytest.raises(TimeoutError):
            listener.accept()
    assert lab.dial("n1", "n2", 20) == "through"


def test_no_datagram_reaches_the_host_and_no_name_server_is_asked(lab: Lab) -> None:
    program = """
import socket, sys
def sent(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(b"out", (address, port))
        except OSError as error:
            return type(error).__name__
    return "sent"
def raw(family, protocol):
    try:
        socket.socket(family, socket.SOCK_RAW, protocol).close()
    except OSError as error:
        return type(error).__name__
    return "made"
print(sent(sys.argv[1], int(sys.argv[2])), sent("127.0.0.11", 53), sent("192.0.2.1", 53))
print(raw(socket.AF_PACKET, 0), raw(socket.AF_INET, socket.IPPROTO_ICMP))
try:
    print(socket.getaddrinfo("nowhere.example", 80))
except OSError as error:
    print(type(error).__name__)
try:
    socket.create_connection(("::1", 9), 1)
except OSError as error:
    print(type(error).__name__)
"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("0.0.0.0", 0))
        listener.settimeout(0.5)
        lab.kill("n1")
        lab.start("n1", program, gateway(lab), str(listener.getsockname()[1]))
        assert lab.cluster.wait_exit("n1", 30)
        with pytest.raises(TimeoutError):
            listener.recv(10)
    sent, raw, lookup, other_family = lab.output("n1").splitlines()
    assert sent.split() == ["PermissionError"] * 3
    assert raw.split() == ["PermissionError"] * 2
    assert lookup == "gaierror"
    assert other_family == "OSError"


def test_only_its_disk_can_be_written_by_a_node(lab: Lab) -> None:
    directory = lab.specs["n1"].directory
    (directory / "config").mkdir(exist_ok=True)
    (directory / "config" / "server").write_text("ours")
    assert lab.ask("n1", f"cat {directory / 'config' / 'server'}") == "ours"
    assert lab.ask("n1", f"overwrite {directory / 'config' / 'server'}") == "OSError"
    assert lab.ask("n1", f"overwrite {directory / 'new'}") == "OSError"
    assert lab.ask("n1", f"overwrite {directory / 'data' / 'own'}") == "changed"
    assert (directory / "config" / "server").read_text() == "ours"
    assert (directory / "data" / "own").read_text() == "changed"


def test_containers_have_no_capability_that_could_open_a_link(lab: Lab) -> None:
    client = connect()
    try:
        marked = client.api.containers(filters={"label": f"{RUN}={lab.run}"})
        assert len(marked) == 4
        for each in marked:
            host = client.api.inspect_container(each["Id"])["HostConfig"]
            assert not host["Privileged"]
            assert not host["CapAdd"]
            assert {"NET_RAW", "ALL"} & set(host["CapDrop"])
    finally:
        client.close()


def test_an_image_of_ones_own_is_used_as_it_is_and_needs_nothing_for_the_faults(tmp_path: Path) -> None:
    name = f"nemesis-test/own:{uuid.uuid4().hex[:12]}"
    with docker(tmp_path):
        client = connect()
        try:
            # It has an entry point of its own, another user, and nothing that could filter a packet or send a signal.
            changes = 'ENTRYPOINT ["/bin/false"]\nUSER nobody\nENV OWN=yes\nWORKDIR /nowhere'
            made = client.api.create_container(base_tag(), ["true"])
            client.api.commit(made["Id"], *name.split(":"), changes=changes)
            client.api.remove_container(made["Id"])
            own = Lab(Ground("docker", Place(image=name)), tmp_path / "run", 2, tmp_path / "ledger")
            try:
                own.cluster.up(print)
                own.clear()
                own.serve("n1", "n2", GREETING="bonjour")
                assert [own.ask("n1", f"env {each}") for each in ("OWN", "GREETING")] == ["yes", "bonjour"]
                own.cluster.cut(between(["n1"], ["n2"]))
                assert own.cluster.probe([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): False, ("n2", "n1"): True}
                assert own.dial("n1", "n2", 0.5) == "TimeoutError"
                own.cluster.signal("n1", signal.SIGSTOP)
                own.kill("n1")
            finally:
                own.cluster.down()
        finally:
            client.api.remove_image(name, force=True)
            client.close()
