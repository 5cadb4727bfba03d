"""The backend ``ssh`` for the registry: see :class:`clusters.backends.backend.Backend`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.backends import ledger as ledgers
from clusters.backends.backend import Finding, Place, Planned
from clusters.backends.ssh.cluster import SshCluster
from clusters.backends.ssh.doctor import doctor
from clusters.backends.ssh.inventory import EXAMPLE, PORT, Machine, read_inventory
from clusters.backends.ssh.leftovers import Found, bring_home, ledger_machines, look
from clusters.cluster import NodeSpec
from workloads.problem import Problem


def plan(run: Path, voters: int, observers: int, place: Place) -> Planned:
    """Node *i* on machine *i* of the inventory. Raises Problem (usage) for an inventory that cannot be used or is too short."""
    machines = _machines(place)
    wanted = voters + observers
    if wanted > len(machines):
        raise Problem(
            "too-few-machines",
            f"{wanted} nodes need a machine each, and the inventory {place.inventory} has {len(machines)}.",
            "Add machines to it, or lower --nodes and --observers.",
            usage=True,
        )
    nodes = tuple(
        NodeSpec(
            name=f"n{number}",
            node_id=number,
            role="voter" if number <= voters else "observer",
            address=machine.address,
            port=PORT,
            directory=run / "nodes" / f"n{number}",
            host=machine.host,
        )
        for number, machine in enumerate(machines[:wanted], start=1)
    )
    return Planned(nodes, {"inventory": str(place.inventory)})


def make(nodes: Sequence[NodeSpec], place: Place, ledger: Path | None = None) -> SshCluster:
    """A cluster that is not up yet."""
    return SshCluster(nodes, _machines(place)[: len(nodes)], ledger)


def examine(ledger: Path | None = None) -> list[Finding]:
    """Nothing of this machine is needed; for the others see :func:`examine_machines`."""
    del ledger
    return []


def examine_machines(place: Place, ledger: Path | None = None) -> list[Finding]:
    """Try every machine of the inventory; leaves nothing behind. Raises Problem (usage) for an inventory that cannot be used."""
    machines = _machines(place)
    with tempfile.TemporaryDirectory(prefix="nemesis-doctor-") as run:
        return doctor(make(plan(Path(run), len(machines), 0, place).nodes, place, ledger))


def clean_machines(place: Place, *, dry_run: bool) -> list[Found]:
    """What runs whose agents have ended left on the machines of the inventory, removed unless ``dry_run``, and what runs there now.

    Raises Problem for a machine that cannot be reached.
    """
    return look(_machines(place), None, dry_run=dry_run)


def end(entry: ledgers.Entry) -> str | None:
    """End the agents of a dead controller, bring home what its nodes left, and remove the rest."""
    machines = ledger_machines(entry.place)
    found = look(machines, entry.lab, dry_run=False, keep_files=True)
    failed = [str(each) for each in found if each.state == "failed"]
    if failed:
        return "; ".join(failed)
    there = {each.machine for each in found}
    nodes = {f"n{number}": machine for number, machine in enumerate(machines, 1) if machine in there}
    bring_home(nodes, entry.lab, Path(entry.run))
    return None


def remains(entry: ledgers.Entry) -> Sequence[str]:
    """What is on the machines; asks each."""
    found = look(ledger_machines(entry.place), entry.lab, dry_run=True)
    return tuple(f"{each.detail} on {each.machine}" for each in found)


def strays() -> Mapping[str, str]:
    """None: machines are asked by name, ``nemesis clean --inventory FILE``."""
    return {}


def _machines(place: Place) -> tuple[Machine, ...]:
    if place.inventory is None:
        raise Problem(
            "inventory-missing",
            "--cluster ssh needs to know the machines.",
            f"Name them in a file like {EXAMPLE} and give --inventory FILE.",
            usage=True,
        )
    return read_inventory(place.inventory)
