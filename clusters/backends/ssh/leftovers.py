"""What dead controllers left on machines: looked for and removed by an agent that does nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clusters.backends.ssh.channel import AgentChannel
from clusters.backends.ssh.inventory import Machine

_SWEEP_TIMEOUT_S = 60.0
_MACHINES = "machines"


@dataclass(frozen=True, slots=True)
class Found:
    """One run on one machine. ``state``: running (its agent lives), left, removed, failed."""

    machine: Machine
    lab: str
    state: str
    detail: str

    def __str__(self) -> str:
        return f"{self.lab} on {self.machine}: {self.detail}"


def look(machines: Sequence[Machine], lab: str | None, *, dry_run: bool) -> list[Found]:
    """What is on these machines of one run, or (None) of all whose agents have ended; removed unless ``dry_run``.

    A run that is named has no controller any more: its agent is ended too. Raises Problem for a machine that cannot be reached.
    """
    with ThreadPoolExecutor(len(machines)) as threads:
        found = list(threads.map(lambda machine: _look(machine, lab, dry_run=dry_run), machines))
    return [each for on_machine in found for each in on_machine]


def ledger_place(machines: Sequence[Machine]) -> dict[str, str]:
    """How the ledger keeps machines: all that is needed to reach them when the inventory is gone."""
    return {_MACHINES: json.dumps([{**_plain(machine)} for machine in machines])}


def ledger_machines(place: Mapping[str, str]) -> tuple[Machine, ...]:
    """The machines of a ledger entry."""
    return tuple(
        Machine(
            **{
                **each,
                "key": Path(each["key"]) if each["key"] else None,
                "known_hosts": Path(each["known_hosts"]),
                "data": PurePosixPath(each["data"]),
            }
        )
        for each in json.loads(place.get(_MACHINES, "[]"))
    )


def _plain(machine: Machine) -> dict[str, Any]:
    plain = {name: getattr(machine, name) for name in Machine.__slots__}
    return {name: str(value) if isinstance(value, Path | PurePosixPath) else value for name, value in plain.items()}


def _look(machine: Machine, lab: str | None, *, dry_run: bool) -> list[Found]:
    options = {"mode": "sweep", "data": str(machine.data), "wanted": lab, "dry_run": dry_run}
    channel = AgentChannel(machine, options)
    try:
        rows = channel.first()
    finally:
        channel.wait_end(_SWEEP_TIMEOUT_S)
    return [Found(machine, row["lab"], row["state"], row["detail"]) for row in rows]
