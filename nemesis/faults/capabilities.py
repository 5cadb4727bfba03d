"""What each backend can do, by name; what this machine lets it do is found by doing it (``nemesis list faults``, ``nemesis doctor``)."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

from clusters.backends.registry import BACKENDS, find_backend
from clusters.backends.shim.compile import can_compile
from nemesis.faults.disk_choice import no_disks
from nemesis.faults.kinds.kind import CAPABILITY_TEXT, Ability, Capability
from nemesis.faults.relays import obstacle_to_relays
from nemesis.scenario import Scenario
from workloads.problem import Problem

EVERYWHERE = frozenset({Capability.LINKS, Capability.PACKETS, Capability.PROCESSES, Capability.DISKS})
"""what :class:`clusters.cluster.Cluster` demands of every backend"""

OF_BACKEND: Mapping[str, frozenset[Capability]] = {
    "local": EVERYWHERE
    | {Capability.RELAY, Capability.DISK_FAILURES, Capability.PRELOAD, Capability.CPU, Capability.MEMORY},
    "docker": EVERYWHERE
    | {Capability.RELAY, Capability.DISK_FAILURES, Capability.PRELOAD, Capability.CPU, Capability.MEMORY},
    "ssh": EVERYWHERE | {Capability.RELAY, Capability.PRELOAD, Capability.CPU, Capability.MEMORY},
}


def probe() -> dict[str, dict[Capability, Ability]]:
    """Try every backend on this machine: backend → capability → ability. Takes seconds."""
    return {name: probe_backend(name) for name in BACKENDS}


def probe_backend(backend: str) -> dict[Capability, Ability]:
    """What one backend can do here, found by doing it."""
    has = OF_BACKEND.get(backend, EVERYWHERE)
    try:
        tried = find_backend(backend).examine()
    except Problem as problem:
        here = Ability(False, f"{problem.what} {problem.remedy}".strip())
    else:
        failed = next((each for each in tried if not each.ok), None)
        if failed is not None:
            here = Ability(False, f"{failed.name}: {failed.detail} {failed.remedy}".strip())
        else:
            here = Ability(True) if tried else Ability(None, "depends on the machines of the inventory")
    found = {}
    for capability in Capability:
        if capability not in has:
            found[capability] = Ability(False, f"this backend cannot do it: {CAPABILITY_TEXT[capability]}")
        elif here.ok and capability is Capability.DISK_FAILURES:
            found[capability] = _probe_disks(backend)
        elif here.ok and capability in _LOCAL_PROBES:
            found[capability] = _LOCAL_PROBES[capability]()
        else:
            found[capability] = here
    return found


def _probe_cpu() -> Ability:
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except (AttributeError, OSError) as error:
        return Ability(False, f"CPU affinity cannot be set: {error}")
    return Ability(True)


def _probe_memory() -> Ability:
    try:
        resource.prlimit(0, resource.RLIMIT_AS, resource.prlimit(0, resource.RLIMIT_AS))
    except (AttributeError, OSError) as error:
        return Ability(False, f"limits of the address space cannot be set: {error}")
    return Ability(True)


def _probe_preload() -> Ability:
    ok, found, remedy = can_compile()
    return Ability(True) if ok else Ability(False, f"no library can be preloaded: {found}. {remedy}")


def _probe_relay() -> Ability:
    reason = obstacle_to_relays()
    return Ability(not reason, reason)


def _probe_packets() -> Ability:
    from nemesis.faults.packets import try_shaping

    return Ability(*try_shaping())


def _probe_disks(backend: str) -> Ability:
    why = no_disks(backend)
    return Ability(not why, why)


_LOCAL_PROBES = {
    Capability.PACKETS: _probe_packets,
    Capability.RELAY: _probe_relay,
    Capability.PRELOAD: _probe_preload,
    Capability.CPU: _probe_cpu,
    Capability.MEMORY: _probe_memory,
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
