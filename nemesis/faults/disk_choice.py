"""Which kind of disk nodes get in a run: a directory, or one that can fail where the scenario's faults let disks fail."""

from __future__ import annotations

import os

from clusters.backends.loop_disk import FILESYSTEMS, find_program, obstacle
from clusters.backends.shim.compile import can_compile
from clusters.backends.shim.disk import NAME
from clusters.backends.shim_disks import KIND as SHIM
from nemesis.faults.kinds.kind import Capability
from nemesis.scenario import Scenario
from workloads.problem import Problem

KINDS = (*FILESYSTEMS, SHIM)
_DEFAULT = "ext4"
_REMEDY = "Run as root on a machine with loop devices (on Debian: apt-get install e2fsprogs xfsprogs), or install a C compiler."


def choose_filesystem(scenario: Scenario, backend: str, asked: str | None) -> str | None:
    """The kind of each node's disk, one of :data:`KINDS`; None for a run whose disks are directories that do not fail.

    Raises Problem (usage) ``filesystem-unknown``, ``filesystem-unneeded`` and ``disk-unable``, with what keeps this machine from it.
    """
    if asked is not None and asked not in KINDS:
        raise Problem(
            "filesystem-unknown", f"There is no file system {asked!r} here.", f"Use {' or '.join(KINDS)}.", usage=True
        )
    if Capability.DISK_FAILURES not in scenario.capabilities():
        if asked is not None:
            raise Problem(
                "filesystem-unneeded",
                f"No fault of {scenario.name} needs disks that can fail.",
                "Leave --filesystem out.",
                usage=True,
            )
        return None
    ordinary = backend == "local" and os.geteuid() != 0
    chosen = asked or (SHIM if ordinary else _DEFAULT)
    if "disk-read-only" in scenario.capabilities()[Capability.DISK_FAILURES] and chosen == "xfs":
        raise Problem(
            "disk-unable",
            f"{chosen} cannot be made read-only under open files; it would be an EIO fault.",
            f"Use --filesystem {_DEFAULT}, or the fault disk-eio.",
            usage=True,
        )
    if chosen == SHIM and backend != "local":
        raise Problem("disk-unable", "Disks by a preloaded library are for --cluster local.", _REMEDY, usage=True)
    if why := _obstacle(chosen):
        raise Problem("disk-unable", f"{scenario.name} lets disks fail, and {why}.", _REMEDY, usage=True)
    return chosen


def no_disks(backend: str = "local") -> str:
    """Why nodes of this machine can have no such disks; empty when a kind was found to work, by making, cutting and mounting one."""
    kinds = KINDS if backend == "local" else FILESYSTEMS
    reasons = []
    for kind in kinds:
        why = _obstacle(kind)
        if not why:
            return ""
        reasons.append(why)
    return f"{'; '.join(dict.fromkeys(reasons))}. {_REMEDY}"


def _obstacle(kind: str) -> str:
    if kind == SHIM:
        ok, found, _ = can_compile([NAME])
        return "" if ok else f"no library can be preloaded: {found}"
    if os.geteuid() != 0:
        return "only root can mount file systems"
    if find_program(f"mkfs.{kind}") is None:
        return f"there is no mkfs.{kind}"
    return obstacle(kind)
