"""The programs that nodes run on machines: Python with the reference's packages, and Java; made ready when a node first needs one."""

from __future__ import annotations

import shlex
import sys
import sysconfig
import threading
from pathlib import PurePosixPath
from typing import Any

from clusters.backends.ssh.artifacts import Artifact, bring, pack_packages
from clusters.backends.ssh.host import Host
from workloads.problem import Problem

PYTHON, JAVA = "bin/python", "bin/java"
"""paths in the run's directory on a machine"""

_PACKAGES = "packages"
_ASK_TIMEOUT_S = 60.0


class Programs:
    """Below ``root``, the run's directory, the same on every machine."""

    def __init__(self, root: PurePosixPath) -> None:
        self._root = root
        self._ready: set[tuple[str, str]] = set()
        self._packages: Artifact | None = None
        self._lock = threading.Lock()

    @property
    def python(self) -> str:
        """What nodes call the Python that has what the reference needs."""
        return str(self._root / PYTHON)

    @property
    def java(self) -> str:
        """What nodes call their Java."""
        return str(self._root / JAVA)

    def make_ready(self, host: Host, program: str) -> None:
        """See to it that a node there can run ``program``. Raises Problem ``python-differs`` or ``java-missing``."""
        makers = {self.python: self._make_python, self.java: self._make_java}
        if program in makers and (host.node.name, program) not in self._ready:
            makers[program](host)
            self._ready.add((host.node.name, program))

    def _make_python(self, host: Host) -> None:
        told = host.channel.call("python", _ASK_TIMEOUT_S, command=host.machine.python)
        if reason := _reason(told):
            raise Problem(
                "python-differs",
                f"The reference cannot run on {host.machine}: {reason}.",
                f'Install that Python there and name it in the inventory: python = "/path/to/{_own_name()}".',
            )
        packages = self._packed()
        bring(host.channel, [packages])
        host.channel.call("link", links={_PACKAGES: packages.sha256})
        search = f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{self._root / _PACKAGES}"'
        _write(host, PYTHON, f'#!/bin/sh\nexport {search}\nexec {shlex.quote(told[0])} "$@"\n')

    def _make_java(self, host: Host) -> None:
        told = host.channel.call("java", _ASK_TIMEOUT_S, command=host.machine.java)
        if told is None:
            raise Problem(
                "java-missing",
                f"{host.machine} has no Java of 17 or newer{f' at {host.machine.java}' if host.machine.java else ''}.",
                'There: apt-get install openjdk-17-jre-headless; or name one in the inventory: java = "/path/bin/java".',
            )
        _write(host, JAVA, f'#!/bin/sh\nexec {shlex.quote(told[0])} "$@"\n')

    def _packed(self) -> Artifact:
        with self._lock:
            if self._packages is None:
                self._packages = pack_packages()
            return self._packages


def _write(host: Host, path: str, script: str) -> None:
    host.channel.exchange("script", script.encode(), path=path)


def _reason(told: Any) -> str:
    """Why a machine's Python (path, version, ABI) cannot run the controller's packages; empty when it can."""
    wanted = str(sysconfig.get_config_var("SOABI"))
    if told is None:
        return f"it has no such Python, and the packages that would be brought are for {_own_name()} ({wanted})"
    if told[2] != wanted:
        return f"{told[0]} is {told[2]}, and the packages that would be brought are for {wanted}"
    return ""


def _own_name() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"
