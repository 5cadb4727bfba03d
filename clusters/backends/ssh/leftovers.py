"""What dead controllers left on machines: looked for and removed by an agent that does nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clusters.backends.ssh import transfer
from clusters.backends.ssh.channel import AgentChannel
from clusters.backends.ssh.host import end_host, open_host
from clusters.backends.ssh.inventory import PORT, Machine
from clusters.cluster import NodeSpec
from workloads.problem import Problem

_SWEEP_TIMEOUT_S = 60.0
_MACHINES = "machines"
_EVIDENCE = ("output/*.log", "trace/*")


@dataclass(frozen=True, slots=True)
class Found:
    """One run on one machine. ``state``: running (its agent lives), left, removed, failed."""

    machine: Machine
    lab: str
    state: str
    detail: str

    def __str__(self) -> str:
        return f"{self.lab} on {self.machine}: {self.detail}"


def look(machines: Sequence[Machine], lab: str | None, *, dry_run: bool, keep_files: bool = False) -> list[Found]:
    """What is on these machines of one run, or (None) of all whose agents have ended; removed unless ``dry_run``.

    A run that is named has no controller any more: its agent is ended too. Raises Problem for a machine that cannot be reached.
    """
    if not machines:
        return []
    options = {"mode": "sweep", "wanted": lab, "dry_run": dry_run, "keep_files": keep_files}
    with ThreadPoolExecutor(len(machines)) as threads:
        found = list(threads.map(lambda machine: _look(machine, options), machines))
    return [each for on_machine in found for each in on_machine]


def bring_home(nodes: Mapping[str, Machine], lab: str, run: Path) -> None:
    """Copy what the nodes of a dead controller left into the run's folder, as a living controller would have, and remove it there.

    Agents of that run have ended. Evidence that cannot be copied stays behind and is lost: the run's verdict will miss it. Raises
    Problem for a machine that cannot be reached.
    """
    with ThreadPoolExecutor(max(1, len(nodes))) as threads:
        list(threads.map(lambda name: _bring_home(nodes[name], lab, run / "nodes" / name), nodes))


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


def _look(machine: Machine, options: Mapping[str, Any]) -> list[Found]:
    channel = AgentChannel(machine, {**options, "data": str(machine.data)})
    try:
        rows = channel.first()
    finally:
        channel.wait_end(_SWEEP_TIMEOUT_S)
    return [Found(machine, row["lab"], row["state"], row["detail"]) for row in rows]


def _bring_home(machine: Machine, lab: str, directory: Path) -> None:
    node = NodeSpec(directory.name, 0, "", machine.address, PORT, directory)
    host = open_host(machine, node, lab)
    try:
        if directory.is_dir():
            with contextlib.suppress(Problem):  # too large or foreign: then it is missing, which the check will say
                transfer.pull_matching(host.channel, node.name, _EVIDENCE, directory)
                transfer.pull_tree(host.channel, f"{node.name}/data", directory / "data")
    finally:
        ended = end_host(host, remove=True)
    if ended.status != 0:
        raise Problem(
            "lab-survives", f"It is not certain that nothing is left on {machine}: {ended.said}", "Repeat it."
        )
