"""One machine of a cluster that is up: its agent, what it is, what of the controller's it calls how, its clocks."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.backends.ssh.channel import AgentChannel, Ended
from clusters.backends.ssh.clock import Offset, RoundTrip
from clusters.backends.ssh.inventory import Machine
from clusters.cluster import NodeSpec
from workloads.problem import Problem

PYTHON, JAVA, SHARED = "bin/python", "bin/java", "files"
"""paths in the run's directory on a machine: the programs that nodes run, the controller's files under their own names"""

BUSY_PATIENCE_S = 10.0
"""for an earlier run's agent to end"""

_FIRST_TRIPS = 20
_BEATS_A_LEASE = 8
_BEAT_MAX_S = 1.0


@dataclass(slots=True)
class Host:
    """A machine, the node that it is for, and the connection to its agent."""

    machine: Machine
    node: NodeSpec
    channel: AgentChannel
    facts: dict[str, Any]
    cut: frozenset[str] = frozenset()
    """addresses that are cut off there now"""
    offset: Offset = field(default_factory=Offset)

    def there(self, path: Path) -> str:
        """A path below the node's directory, relative to the run's directory on the machine."""
        return (Path(self.node.name) / path.relative_to(self.node.directory)).as_posix()

    def beat(self) -> None:
        """One round trip: a sign of life for the agent, two readings of clocks for us."""
        asked_ns = time.monotonic_ns()
        there_ns, there_wall_ns = self.channel.call("ping")
        answered_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        self.offset.take(RoundTrip(asked_ns, answered_ns, wall_ns, there_ns, there_wall_ns))

    def check_program(self, program: str, site_python: str, site_java: str) -> None:
        """Raises Problem ``python-differs`` or ``java-missing`` when the node is to run what this machine has not got."""
        if program == site_python and (reason := python_reason(self.facts["python"])):
            raise Problem(
                "python-differs",
                f"The reference cannot run on {self.machine}: {reason}.",
                f'Install that Python there and name it in the inventory: python = "/path/to/{_python_name()}".',
            )
        if program == site_java and self.facts["java"] is None:
            raise Problem(
                "java-missing",
                f"{self.machine} has no Java of 17 or newer{f' at {self.machine.java}' if self.machine.java else ''}.",
                'There: apt-get install openjdk-17-jre-headless; or name one in the inventory: java = "/path/bin/java".',
            )


def open_host(machine: Machine, node: NodeSpec, lab: str) -> Host:
    """Log in, start the agent and ask what is there. Raises Problem; then the agent ends by itself."""
    channel = AgentChannel(
        machine,
        {
            "mode": "serve",
            "lab": lab,
            "data": str(machine.data),
            "address": machine.address,
            "port": node.port,
            "lease_s": machine.lease_s,
            "busy_patience_s": BUSY_PATIENCE_S,
        },
    )
    try:
        channel.first()
        facts = channel.call("facts", 60.0, python=machine.python, java=machine.java)
        host = Host(machine, node, channel, facts)
        for _ in range(_FIRST_TRIPS):
            host.beat()
    except BaseException:
        channel.drop()
        raise
    return host


def end_host(host: Host, *, remove: bool) -> Ended:
    """Kill the node, remove the rules, and the files of the run when ``remove``; how the agent ended."""
    try:
        host.channel.call("end", remove=remove)
    except Problem:
        host.channel.drop()
    return host.channel.wait_end()


class Heart:
    """A thread that lets one machine's agent know that the controller lives, and reads its clocks on the way."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._stop = threading.Event()
        self._pause_s = min(_BEAT_MAX_S, host.machine.lease_s / _BEATS_A_LEASE)
        self._thread = threading.Thread(target=self._beat, name=f"heart of {host.machine}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; may be called twice."""
        self._stop.set()

    def _beat(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self._host.beat()
            except Problem:
                return  # whoever asks the machine next is told


def python_reason(told: list[str] | None) -> str:
    """Why a machine's Python (path, version, ABI) cannot run the controller's packages; empty when it can."""
    import sysconfig

    wanted = str(sysconfig.get_config_var("SOABI"))
    if told is None:
        return f"it has no such Python; packages of {_python_name()} ({wanted}) would be brought there"
    if told[2] != wanted:
        return f"{told[0]} is {told[2]}, and the controller's packages are for {wanted}"
    return ""


def _python_name() -> str:
    import sys

    return f"python{sys.version_info[0]}.{sys.version_info[1]}"
