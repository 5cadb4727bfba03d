"""What each backend can do, by name; what this machine lets it do is found by doing it (``nemesis list faults``, ``nemesis doctor``)."""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.faults.catalogue import CAPABILITY_TEXT, Capability
from nemesis.scenario import Scenario
from workloads.problem import Problem

EVERYWHERE = frozenset({Capability.LINKS, Capability.PROCESSES, Capability.DISKS})
"""what :class:`clusters.cluster.Cluster` demands of every backend"""

OF_BACKEND: Mapping[str, frozenset[Capability]] = {
    "local": EVERYWHERE | {Capability.CPU, Capability.MEMORY},
    "docker": EVERYWHERE,
    "ssh": EVERYWHERE,
}


def refuse_unable(scenario: Scenario, backend: str) -> None:
    """Raises Problem ``backend-unable`` (usage) for a scenario that asks for what the backend cannot do, before anything starts."""
    able = OF_BACKEND.get(backend, EVERYWHERE)
    missing = {need: faults for need, faults in scenario.capabilities().items() if need not in able}
    if not missing:
        return
    reasons = "; ".join(f"{', '.join(faults)}: {CAPABILITY_TEXT[need]}" for need, faults in missing.items())
    others = [name for name, has in OF_BACKEND.items() if has.issuperset(scenario.capabilities())]
    raise Problem(
        "backend-unable",
        f"Scenario {scenario.name} asks for what the backend {backend} cannot do ({reasons}).",
        f"It runs with --cluster {' or '.join(others)}." if others else "No backend here can; leave those faults out.",
        usage=True,
    )
