"""Which kind of disk nodes get in a run: a directory, or a file system of its own where the scenario's faults let disks fail."""

from __future__ import annotations

import os

from clusters.backends.loop_disk import FILESYSTEMS, find_program, obstacle
from nemesis.faults.kinds.kind import Capability
from nemesis.scenario import Scenario
from workloads.problem import Problem

_DEFAULT = "ext4"
_REMEDY = "Run as root on a machine with loop devices; on Debian: apt-get install e2fsprogs xfsprogs."


def choose_filesystem(scenario: Scenario, backend: str, asked: str | None) -> str | None:
    """The file system of each node's disk; None for a run whose disks are directories.

    Raises Problem (usage) ``filesystem-unknown``, ``filesystem-unneeded`` and ``disk-unable``, with what keeps this machine from it.
    """
    if asked is not None and asked not in FILESYSTEMS:
        raise Problem(
            "filesystem-unknown",
            f"There is no file system {asked!r} here.",
            f"Use {' or '.join(FILESYSTEMS)}.",
            usage=True,
        )
    if Capability.DISK_FAILURES not in scenario.capabilities():
        if asked is not None:
            raise Problem(
                "filesystem-unneeded",
                f"No fault of {scenario.name} needs disks with a file system of their own.",
                "Leave --filesystem out.",
                usage=True,
            )
        return None
    chosen = asked or _DEFAULT
    if "disk-read-only" in scenario.capabilities()[Capability.DISK_FAILURES] and chosen != _DEFAULT:
        raise Problem(
            "disk-unable",
            f"{chosen} cannot be made read-only under open files; it would be an EIO fault.",
            f"Use --filesystem {_DEFAULT}, or the fault disk-eio.",
            usage=True,
        )
    if backend != "ssh" and (why := _missing(chosen) or obstacle(chosen)):
        raise Problem("disk-unable", f"{scenario.name} lets disks fail, and {why}.", _REMEDY, usage=True)
    return chosen


def no_disks() -> str:
    """Why nodes of this machine can have no such disks; empty when one was made, cut and mounted again."""
    reasons = [_missing(each) or obstacle(each) for each in FILESYSTEMS]
    return "" if "" in reasons else f"{'; '.join(dict.fromkeys(reasons))}. {_REMEDY}"


def _missing(filesystem: str) -> str:
    if os.geteuid() != 0:
        return "only root can mount file systems"
    if find_program(f"mkfs.{filesystem}") is None:
        return f"there is no mkfs.{filesystem}"
    return ""
