"""What this machine permits, found by doing it: a lab of two nodes is made, cut, used and removed."""

from __future__ import annotations

import errno
import select
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from clusters.backends.backend import Finding
from clusters.backends.local.cluster import LocalCluster
from clusters.backends.local.plan import plan_nodes
from clusters.cluster import Launch
from clusters.links import OPEN, between
from workloads.problem import Problem

_CONNECT_PATIENCE_S = 5.0
_EXIT_PATIENCE_S = 5.0


def doctor(ledger_directory: Path | None = None) -> list[Finding]:
    """Try everything that the backend needs, in the order in which it needs it; what follows a failure is not tried."""
    with tempfile.TemporaryDirectory(prefix="nemesis-doctor-") as run:
        cluster = LocalCluster(plan_nodes(Path(run), 2), ledger_directory)
        steps: list[tuple[str, Callable[[], str]]] = [
            ("network namespaces", lambda: _up(cluster)),
            ("links", lambda: _link(cluster)),
            ("one-way cuts", lambda: _cut(cluster)),
            ("client sockets", lambda: _connect(cluster)),
            ("node processes", lambda: _process(cluster, Path(run))),
            ("removal", lambda: _down(cluster)),
        ]
        findings: list[Finding] = []
        try:
            for name, step in steps:
                if findings and not findings[-1].ok:
                    findings.append(Finding(name, False, "Not tried."))
                    continue
                findings.append(_try(name, step))
        finally:
            cluster.down()
    return findings


def _try(name: str, step: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, step())
    except Problem as problem:
        return Finding(name, False, problem.what, problem.remedy)


def _up(cluster: LocalCluster) -> str:
    cluster.up()
    return "two namespaces, joined by a third, in a process namespace of their own"


def _link(cluster: LocalCluster) -> str:
    _expect(cluster, {("n1", "n2"): True, ("n2", "n1"): True})
    return "datagrams arrive both ways through the router"


def _cut(cluster: LocalCluster) -> str:
    cluster.cut(between(["n1"], ["n2"]))
    _expect(cluster, {("n1", "n2"): False, ("n2", "n1"): True})
    cluster.cut(OPEN)
    _expect(cluster, {("n1", "n2"): True, ("n2", "n1"): True})
    return "a blackhole rule silences one direction and leaves the other open"


def _expect(cluster: LocalCluster, wanted: dict[tuple[str, str], bool]) -> None:
    seen = cluster.probe(list(wanted))
    for (source, destination), open_ in wanted.items():
        if seen[(source, destination)] is not open_:
            raise Problem(
                "links-not-obeyed",
                f"A datagram from {source} to {destination} {'was lost' if open_ else 'arrived through a cut'}.",
                "Look for a packet filter that applies to new network namespaces.",
            )


def _connect(cluster: LocalCluster) -> str:
    node = cluster.nodes[0]
    with cluster.client_socket() as client:
        client.connect_ex((node.address, node.port))
        select.select([], [client], [], _CONNECT_PATIENCE_S)
        result = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # Nobody listens there: a refusal is the node's own answer.
    if result != errno.ECONNREFUSED:
        raise Problem(
            "node-not-reached", f"A client does not reach {node.address} from the router namespace ({result})."
        )
    return "a client outside of the namespaces reaches a node"


def _process(cluster: LocalCluster, run: Path) -> str:
    cluster.start("n1", Launch(("sleep", "60"), {}, run, run / "output.log"))
    cluster.signal("n1", signal.SIGKILL)
    if not cluster.wait_exit("n1", _EXIT_PATIENCE_S) or cluster.exit_status("n1") != -signal.SIGKILL:
        raise Problem("node-survives", "A process in a node's namespace does not end with kill -9.")
    return "a process runs in a node's namespace and ends with kill -9"


def _down(cluster: LocalCluster) -> str:
    cluster.down()
    return "nothing is left"
