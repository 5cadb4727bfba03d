"""What the machines of an inventory permit, found by doing it: agents are started, links cut and probed, and all of it removed."""

from __future__ import annotations

import errno
import select
import signal
import socket
from collections.abc import Callable
from itertools import pairwise, permutations

from clusters.backends.backend import Finding
from clusters.backends.ssh.cluster import SshCluster
from clusters.cluster import Launch
from clusters.links import OPEN, Links, between
from workloads.problem import Problem

_CONNECT_PATIENCE_S = 5.0
_EXIT_PATIENCE_S = 5.0
_ENOUGH_BYTES = 2 << 30
_DRIFT_NS = 50_000_000


def doctor(cluster: SshCluster) -> list[Finding]:
    """Try everything on a cluster that is not up, in the order in which a run needs it; it is down afterwards.

    What follows a failure is not tried; but that a program is missing concerns one candidate only, and shaping some faults.
    """
    site = cluster.site
    steps: list[tuple[str, Callable[[], str], bool]] = [
        ("ssh and agents", lambda: _up(cluster), True),
        ("disks", lambda: _disks(cluster), True),
        ("clocks", lambda: _clocks(cluster), True),
        ("data addresses", lambda: _expect(cluster, OPEN, "datagrams arrive between all of them"), True),
        ("one-way cuts", lambda: _cut(cluster), True),
        ("clients", lambda: _connect(cluster), True),
        ("node processes", lambda: _process(cluster), True),
        ("faults of packets", lambda: _shape(cluster), False),
        ("Python for the reference", lambda: _program(cluster, site.python, "-c", "import kio, msgspec"), False),
        ("Java for Apache Kafka", lambda: _program(cluster, site.java or "java", "-version"), False),
    ]
    findings: list[Finding] = []
    try:
        for name, step, needed in steps:
            findings.append(_try(name, step))
            if needed and not findings[-1].ok:
                break
    finally:
        findings.append(_try("removal", lambda: _down(cluster)))
    return findings


def _try(name: str, step: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, step())
    except Problem as problem:
        return Finding(name, False, problem.what, problem.remedy)


def _up(cluster: SshCluster) -> str:
    cluster.up()
    told = [f"{name}: {facts['system']}, links by {facts['links']}" for name, facts in cluster.facts().items()]
    return "; ".join(told)


def _disks(cluster: SshCluster) -> str:
    free = {name: int(facts["free_bytes"]) for name, facts in cluster.facts().items()}
    for name, left in free.items():
        if left < _ENOUGH_BYTES:
            raise Problem(
                "disk-full", f"{name} has {left >> 20} MiB free.", "A run of Kafka keeps about 200 MiB there."
            )
    return ", ".join(f"{name} {left / 2**30:.0f} GiB free" for name, left in free.items())


def _clocks(cluster: SshCluster) -> str:
    clocks = cluster.clocks()
    worst = max(clock.error_ns for clock in clocks.values())
    if worst > _DRIFT_NS:
        raise Problem(
            "clocks-not-known",
            f"A round trip to an agent takes {2 * worst / 1e6:.0f} ms: times of nodes are known no better than to half of it.",
            "Use a controller that is nearer, or one with less to do.",
        )
    return f"known to within {worst / 1e6:.2f} ms of the controller's"


def _cut(cluster: SshCluster) -> str:
    names = [node.name for node in cluster.nodes]
    if len(names) < 2:
        return "one machine has no links"
    cut = between(names[:1], names[1:])
    cluster.cut(cut)
    _expect(cluster, cut, "")
    cluster.cut(OPEN)
    return _expect(cluster, OPEN, "a rule at the receiver silences one direction and leaves the other open")


def _shape(cluster: SshCluster) -> str:
    """Raises Problem ``packets-not-shaped``."""
    nodes = cluster.nodes
    reasons = [cluster.accompany(node.name, "shaper", {"address": node.address}) for node in nodes]
    mechanisms = " and ".join(["netem"] * ("" in reasons) + ["userspace"] * any(reasons))
    for node, other in pairwise(nodes):
        shape = {"towards": [other.address], "shape": {"loss_percent": 100.0}}
        cluster.companion(node.name, "shaper", "shape", key="doctor", seed="", **shape)
    lost = frozenset((node.name, other.name) for node, other in pairwise(nodes))
    _expect(cluster, Links(lost), "")
    for node in nodes:
        cluster.dismiss(node.name, "shaper")
    return _expect(cluster, OPEN, f"what shall be lost of what a node sends is lost, and nothing else ({mechanisms})")


def _expect(cluster: SshCluster, links: Links, text: str) -> str:
    pairs = list(permutations((node.name for node in cluster.nodes), 2))
    for pair, arrived in cluster.probe(pairs).items():
        if arrived is (pair in links.cut):
            source, destination = (cluster.told(name) for name in pair)
            raise Problem(
                "links-not-obeyed",
                f"A datagram from {source} to {destination} {'arrived through a cut' if arrived else 'was lost'}.",
                "Between the data addresses TCP and UDP on port 9093 must pass: look at packet filters and routes there.",
            )
    return text


def _connect(cluster: SshCluster) -> str:
    for node in cluster.nodes:
        with cluster.client_socket() as client:
            client.connect_ex((node.address, node.port))
            select.select([], [client], [], _CONNECT_PATIENCE_S)
            result = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        # Nobody listens there: a refusal is the machine's own answer.
        if result != errno.ECONNREFUSED:
            raise Problem(
                "node-not-reached",
                f"The controller does not reach the data address of {cluster.told(node.name)}, port {node.port} ({result}).",
                "Clients run here and speak to the data addresses: give the controller a route to them.",
            )
    return "the controller reaches every data address"


def _process(cluster: SshCluster) -> str:
    for node in cluster.nodes:
        directory = node.directory
        cluster.start(node.name, Launch(("sleep", "60"), {}, directory, directory / "output" / "0.log"))
        cluster.signal(node.name, signal.SIGKILL)
        if not cluster.wait_exit(node.name, _EXIT_PATIENCE_S) or cluster.exit_status(node.name) != -signal.SIGKILL:
            raise Problem("node-survives", f"A process on {cluster.told(node.name)} does not end with kill -9.")
    return "a process runs and ends with kill -9"


def _program(cluster: SshCluster, program: str, *arguments: str) -> str:
    for node in cluster.nodes:
        output = node.directory / "output" / "1.log"
        cluster.start(node.name, Launch((program, *arguments), {}, node.directory, output))
        if not cluster.wait_exit(node.name, _EXIT_PATIENCE_S * 4) or cluster.exit_status(node.name) != 0:
            cluster.fetch(node.name, (), node.directory)
            said = " ".join(output.read_text(errors="replace").split())[-400:] if output.is_file() else ""
            raise Problem("program-fails", f"{program} fails on {cluster.told(node.name)}: {said}")
    return "runs on every machine"


def _down(cluster: SshCluster) -> str:
    cluster.down()
    return "nothing is left"
