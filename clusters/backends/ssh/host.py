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

BUSY_PATIENCE_S = 10.0
"""for an earlier run's agent to end"""

_FIRST_TRIPS = 20
_BEATS_A_LEASE = 8
_BEAT_MAX_S = 1.0
_END_TIMEOUT_S = 10.0


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
        facts = channel.call("facts")
        host = Host(machine, node, channel, facts)
        for _ in range(_FIRST_TRIPS):
            host.beat()
    except BaseException:
        channel.drop()
        raise
    return host


def end_host(host: Host, *, remove: bool) -> Ended:
    """Kill the node, remove the rules, and the files of the run when ``remove``; how the agent ended, if it could be told to."""
    try:
        host.channel.call("end", _END_TIMEOUT_S, remove=remove)
    except Problem as problem:
        host.channel.drop()
        host.channel.wait_end()
        return Ended(None, problem.what)
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
