"""A running cluster of any backend, and what tests do with it."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from clusters.backends.registry import find_backend
from clusters.cluster import Cluster, Launch
from clusters.links import OPEN
from tests.clusters.conformance.grounds import Ground

PATIENCE_S = 30.0

SERVER = r"""
import errno, os, pathlib, signal, socket, subprocess, sys, time
address, port, disk = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
def append(count):
    try:
        file = os.open(disk / "appended", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(file, bytes(count))
        os.fsync(file)
        os.fsync(os.open(disk, os.O_RDONLY))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
listener = socket.create_server((address, port))
while True:
    peer, _ = listener.accept()
    with peer, peer.makefile("rw") as lines:
        for line in lines:
            verb, _, rest = line.strip().partition(" ")
            try:
                if verb == "dial":
                    host, to, patience = rest.split()
                    with socket.create_connection((host, int(to)), float(patience)) as far:
                        far.sendall(b"echo through\n")
                        answer = far.makefile().readline().strip()
                elif verb == "write":
                    (disk / "written").write_text(rest)
                    answer = "done"
                elif verb == "read":
                    answer = (disk / "written").read_text()
                elif verb == "append":
                    answer = append(int(rest))
                elif verb == "size":
                    answer = str((disk / "appended").stat().st_size)
                elif verb == "cat":
                    answer = pathlib.Path(rest).read_text().strip()
                elif verb == "overwrite":
                    pathlib.Path(rest).write_text("changed")
                    answer = "changed"
                elif verb == "link":
                    (disk / "linked").symlink_to(rest)
                    answer = "done"
                elif verb == "orphan":
                    subprocess.Popen(["setsid", "sh", "-c", "sleep 600; :", rest], env={})
                    answer = "done"
                elif verb == "burn":
                    until = time.thread_time() + float(rest)
                    while time.thread_time() < until:
                        pass
                    answer = "burnt"
                elif verb == "grow":
                    bytearray(int(rest))
                    answer = "grown"
                elif verb == "deaf":
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    answer = "deaf"
                elif verb == "clocks":
                    answer = f"{time.time_ns()} {time.monotonic_ns()}"
                elif verb == "env":
                    answer = os.environ.get(rest, "unset")
                else:
                    answer = rest
            except (OSError, MemoryError) as error:
                answer = type(error).__name__
            lines.write(answer + "\n")
            lines.flush()
"""
"""one node's program: it answers a line with a line"""


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
    """A cluster that is up, with nodes that run :data:`SERVER` or what a test wants."""

    def __init__(self, ground: Ground, run: Path, count: int, ledger: Path) -> None:
        backend = find_backend(ground.backend)
        self.ground = ground
        self.run = run
        self.ledger = ledger
        self.specs = {node.name: node for node in backend.plan(run, count, 0, ground.place).nodes}
        self.names = list(self.specs)
        for node in self.specs.values():
            node.directory.mkdir(parents=True)
        self.cluster: Cluster = backend.make(tuple(self.specs.values()), ground.place, ledger)
        self.starts = dict.fromkeys(self.names, 0)
        self.placed: set[str] = set()

    def clear(self) -> None:
        """No process runs, no link is cut, every disk is empty and new."""
        self.cluster.cut(OPEN)
        for name in self.names:
            if self.cluster.alive(name):
                self.cluster.signal(name, signal.SIGKILL)
                assert self.cluster.wait_exit(name, PATIENCE_S)
            self.new_disk(name)

    def new_disk(self, name: str) -> None:
        spec = self.specs[name]
        taken = len(list(spec.directory.glob("data.wiped-*")))
        if name in self.placed:
            self.cluster.wipe(name, f"data.wiped-{taken}")
        spec.data.mkdir(exist_ok=True)
        (spec.data / "formatted").write_text(f"disk {taken}")
        self.cluster.place(name)
        self.placed.add(name)

    def launch(self, name: str, *argv: str, **env: str) -> Launch:
        self.starts[name] += 1
        directory = self.specs[name].directory
        return Launch(argv, env, directory, directory / "output" / f"{self.starts[name]}.log")

    def output(self, name: str) -> str:
        return (self.specs[name].directory / "output" / f"{self.starts[name]}.log").read_text()

    def start(self, name: str, program: str, *arguments: str, **env: str) -> None:
        self.cluster.start(name, self.launch(name, self.cluster.site.python, "-c", program, *arguments, **env))

    def serve(self, *names: str, **env: str) -> None:
        for name in names:
            spec = self.specs[name]
            disk = self.cluster.site.inside(spec.data)
            self.start(name, SERVER, spec.address, str(spec.port), disk, **env)
        for name in names:
            assert within(PATIENCE_S, lambda name=name: self.ask(name, "echo ready", 2.0) == "ready"), self.output(name)

    def ask(self, name: str, line: str, patience_s: float = PATIENCE_S) -> str | None:
        """One line to a node's server and its answer; None when it does not answer."""
        with self.cluster.client_socket() as client:
            client.connect_ex((self.specs[name].address, self.specs[name].port))
            select.select([], [client], [], patience_s)
            try:
                client.sendall(line.encode() + b"\n")
                select.select([client], [], [], patience_s)
                return client.recv(1000).decode().strip() or None
            except OSError:
                return None

    def dial(self, name: str, other: str, patience_s: float) -> str | None:
        """What ``name`` gets when it connects to ``other``."""
        spec = self.specs[other]
        return self.ask(name, f"dial {spec.address} {spec.port} {patience_s}")

    def kill(self, name: str) -> None:
        self.cluster.signal(name, signal.SIGKILL)
        assert self.cluster.wait_exit(name, PATIENCE_S)
