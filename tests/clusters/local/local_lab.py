"""Labs for tests: real namespaces, a ledger of the test's own, and nodes that run a small server."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from clusters.backends.local.cluster import LAB_MARK, LocalCluster
from clusters.cluster import Launch
from clusters.links import OPEN

PATIENCE_S = 20.0

SERVER = r"""
import socket, sys
listener = socket.create_server((sys.argv[1], 9093))
while True:
    peer, _ = listener.accept()
    with peer, peer.makefile("rw") as lines:
        for line in lines:
            verb, _, rest = line.strip().partition(" ")
            if verb == "dial":
                address, patience = rest.split()
                try:
                    with socket.create_connection((address, 9093), float(patience)) as far:
                        far.sendall(b"echo through\n")
                        answer = far.makefile().readline().strip()
                except OSError as error:
                    answer = type(error).__name__
            else:
                answer = rest
            lines.write(answer + "\n")
            lines.flush()
"""


def within(patience_s: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def carriers(mark: str) -> list[int]:
    """Processes of this machine, zombies not counted, that have ``mark`` in their environment or command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                carried = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in carried:
                found.append(int(entry.name))
    return found


class Lab:
    """A running cluster and what tests do with it."""

    def __init__(self, cluster: LocalCluster, run: Path) -> None:
        self.cluster = cluster
        self.run = run
        self.names = [node.name for node in cluster.nodes]
        self.address = {node.name: node.address for node in cluster.nodes}

    def clear(self) -> None:
        for name in self.names:
            self.cluster.signal(name, signal.SIGKILL)
            assert self.cluster.wait_exit(name, PATIENCE_S)
        self.cluster.cut(OPEN)
        (self.run / "output" / "1.log").unlink(missing_ok=True)

    def launch(self, *argv: str, **env: str) -> Launch:
        return Launch(argv, env, self.run, self.run / "output" / "1.log")

    def output(self) -> str:
        return (self.run / "output" / "1.log").read_text()

    def serve(self, *names: str) -> None:
        for name in names:
            self.cluster.start(name, self.launch(sys.executable, "-c", SERVER, self.address[name]))
        for name in names:
            assert within(PATIENCE_S, lambda name=name: self.ask(name, "echo ready", 2.0) == "ready"), self.output()

    def ask(self, name: str, line: str, patience_s: float = PATIENCE_S) -> str | None:
        """One line to a node's server and its answer; None when it does not answer."""
        with self.cluster.client_socket() as client:
            client.connect_ex((self.address[name], 9093))
            select.select([], [client], [], patience_s)
            try:
                client.sendall(line.encode() + b"\n")
                select.select([client], [], [], patience_s)
                return client.recv(1000).decode().strip() or None
            except OSError:
                return None

    def processes(self) -> list[int]:
        """The lab's processes as the host sees them, its agent's two included."""
        return carriers(f"{LAB_MARK}={self.cluster.lab}")
