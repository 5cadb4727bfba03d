"""How each backend is had on this machine, for tests: one entry a backend, and the whole suite runs on it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusters.backends.backend import Place
from workloads.problem import Problem

NEEDED = "NEMESIS_TESTS_NEED"
"""environment variable, set by ``bin/test`` where it can install everything: names of backends whose absence is a failure"""


@dataclass(frozen=True)
class Ground:
    """Where labs of one backend are made."""

    backend: str
    place: Place
    inside: Callable[[], AbstractContextManager[None]] = nullcontext
    """where the controller has to be: its network namespace, for machines that are namespaces"""


def missing(backend: str, why: str) -> None:
    """Skip with a reason; fail where the backend was promised."""
    if backend in os.environ.get(NEEDED, "").split(","):
        pytest.fail(f"{NEEDED} names {backend}, and it cannot be had: {why}")
    pytest.skip(f"{backend} cannot be had here: {why}")


@contextlib.contextmanager
def local(folder: Path) -> Iterator[Ground]:
    del folder
    yield Ground("local", Place())


@contextlib.contextmanager
def docker(folder: Path) -> Iterator[Ground]:
    """The engine that runs; the image is built by the first test that needs it."""
    del folder
    from clusters.backends.docker.engine import check_privileges, connect
    from clusters.backends.docker.image import ensure_base

    try:
        check_privileges()
        client = connect()
    except Problem as problem:
        missing("docker", f"{problem.what} {problem.remedy}")
        return
    try:
        ensure_base(client, print)
    finally:
        client.close()
    yield Ground("docker", Place())


@contextlib.contextmanager
def ssh(folder: Path) -> Iterator[Ground]:
    """Five machines with an sshd each, in namespaces of the test's own."""
    from tests.clusters.ssh.machines import missing_tools, start_machines

    if tools := missing_tools():
        missing("ssh", f"there is no {', '.join(tools)}")
    machines = start_machines(folder / "machines", 5)
    try:
        yield Ground("ssh", Place(inventory=machines.inventory), machines.inside)
    finally:
        machines.close()


GROUNDS: dict[str, tuple[Callable[[Path], AbstractContextManager[Ground]], pytest.MarkDecorator]] = {
    "local": (local, pytest.mark.namespaces),
    "docker": (docker, pytest.mark.docker),
    "ssh": (ssh, pytest.mark.ssh),
}
