"""What this machine's docker engine permits, found by doing it: a lab of two nodes is made, cut, used and removed."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clusters.backends.backend import Finding
from clusters.backends.docker.cluster import DockerCluster
from clusters.backends.docker.engine import check_privileges, connect
from clusters.backends.docker.image import base_tag, ensure_holder, image_id
from clusters.backends.docker.network import free_subnet, node_addresses
from clusters.backends.local.plan import plan_nodes
from clusters.cluster import Launch
from clusters.links import OPEN, between
from workloads.problem import Problem

_EXIT_PATIENCE_S = 20.0


def doctor(ledger_directory: Path | None = None) -> list[Finding]:
    """Try everything that the backend needs, in the order in which it needs it; what follows a failure is not tried.

    The last finding tells whether the project's image has been built; without it the first run does so.
    """
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="nemesis-doctor-") as folder:
        run, made = Path(folder), list[DockerCluster]()
        steps: list[tuple[str, Callable[[], str]]] = [
            ("docker engine", _engine),
            ("containers", lambda: _up(run, made, ledger_directory)),
            ("one-way cuts of containers", lambda: _cut(made[0])),
            ("node in a container", lambda: _process(made[0], run)),
            ("removal of containers", lambda: _down(made[0])),
            ("image", _image),
        ]
        try:
            for name, step in steps:
                if findings and not findings[-1].ok:
                    findings.append(Finding(name, False, "Not tried."))
                    continue
                findings.append(_try(name, step))
        finally:
            for cluster in made:
                cluster.down()
    return findings


def _try(name: str, step: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, step())
    except Problem as problem:
        return Finding(name, False, problem.what, problem.remedy)


def _engine() -> str:
    client = connect()
    try:
        version = client.version()
    finally:
        client.close()
    check_privileges()
    return f"version {version['Version']}, API {version['ApiVersion']}"


def _up(run: Path, made: list[DockerCluster], ledger: Path | None) -> str:
    client = connect()
    try:
        addresses = node_addresses(free_subnet(client), 2)
        # The image of the holders is there in any case; what the nodes' own image can do is not asked here.
        image = ensure_holder(client)
    finally:
        client.close()
    nodes = [replace(node, address=address) for node, address in zip(plan_nodes(run, 2), addresses, strict=True)]
    for node in nodes:
        node.directory.mkdir(parents=True)
    made.append(DockerCluster(nodes, image, ledger))
    made[0].up()
    return "two of them on an internal network, with no way out"


def _cut(cluster: DockerCluster) -> str:
    for links, wanted in (
        (between(["n1"], ["n2"]), {("n1", "n2"): False, ("n2", "n1"): True}),
        (OPEN, {("n1", "n2"): True, ("n2", "n1"): True}),
    ):
        cluster.cut(links)
        if cluster.probe(list(wanted)) != wanted:
            raise Problem(
                "links-not-obeyed",
                "Datagrams between two containers do not obey the filters in their namespaces.",
                "Look for a packet filter of this machine that applies to the engine's bridges.",
            )
    return "a filter at the receiver silences one direction and leaves the other open"


def _process(cluster: DockerCluster, run: Path) -> str:
    directory = cluster.nodes[0].directory
    cluster.start("n1", Launch(("/hold",), {}, directory, run / "output.log"))
    cluster.signal("n1", signal.SIGKILL)
    if not cluster.wait_exit("n1", _EXIT_PATIENCE_S) or cluster.exit_status("n1") != -signal.SIGKILL:
        raise Problem("node-survives", "A process in a container does not end with kill -9.")
    return "a process runs in a container and ends with kill -9"


def _down(cluster: DockerCluster) -> str:
    cluster.down()
    return "nothing is left"


def _image() -> str:
    client = connect()
    try:
        built = image_id(client, base_tag()) is not None
    finally:
        client.close()
    return f"{base_tag()} is built" if built else "not built yet: `nemesis image build`, or the first run, does so"
