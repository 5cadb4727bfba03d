"""Faults of disks that a node is using."""

from __future__ import annotations

from nemesis.faults.kinds.kind import DISKS, ORDER, STAGGER, Capability, FaultKind, targets
from nemesis.faults.parameters import Parameter

_NEEDS = frozenset({Capability.PROCESSES, Capability.DISK_FAILURES})
_MET = "a write of the framework's own to the disk meets the error; what became of the node is told"

STORAGE_FAULTS = (
    FaultKind(
        "power-cut",
        "disk",
        "kill -9 and the power of the disk: what was not synced is gone",
        "ext4 (noauto_da_alloc) or xfs of the node's own: shut down without a flush of the journal, mounted again, journal replayed",
        "64 KiB that were written just before and not synced are gone; the node's own losses are counted by file",
        _NEEDS,
        (
            targets("leader"),
            Parameter("torn", "switch", False, "a part of the log's end that was not synced survives, of drawn length"),
            ORDER,
            STAGGER,
        ),
    ),
    FaultKind(
        "disk-full",
        "disk",
        "no block of the disk is free: writes meet ENOSPC; there is room again at the end",
        "a file takes all blocks of the node's own file system",
        _MET,
        _NEEDS,
        (targets("follower"),),
    ),
    FaultKind(
        "disk-read-only",
        "disk",
        "the disk becomes read-only under the running node: writes meet EROFS; mounted again at the end",
        "the journal of the node's own ext4 is aborted, as ext4 itself does when it finds an error",
        _MET,
        _NEEDS,
        (targets("follower"),),
    ),
    FaultKind(
        "disk-eio",
        "disk",
        "the disk fails under the running node: every access meets EIO; it works again at the end, what was written is there",
        "the node's own file system is shut down after a flush of its journal",
        _MET,
        _NEEDS,
        (targets("leader"),),
    ),
    FaultKind(
        "swap-disk",
        "disk",
        "another, empty disk under the old node for a while: a new directory id; at the end the old disk is back, as it was",
        "the disk is moved aside, the candidate's own format makes another; at the end they are changed back",
        "the directory ids of both disks, and that the node answered on the empty one",
        DISKS,
        (targets("follower"),),
        damages=True,
    ),
)
