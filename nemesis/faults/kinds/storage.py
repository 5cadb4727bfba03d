"""Faults of disks that a node is using."""

from __future__ import annotations

from nemesis.faults.kinds.kind import DISKS, ORDER, STAGGER, Capability, FaultKind, targets
from nemesis.faults.parameters import Parameter

_NEEDS = frozenset({Capability.PROCESSES, Capability.DISK_FAILURES})
_MET = "a write of the framework's own to the disk meets the error, or one of the node's own; what became of the node is told"

STORAGE_FAULTS = (
    FaultKind(
        "power-cut",
        "disk",
        "kill -9 and the power of the disk: what was not synced is gone",
        "root: ext4 (noauto_da_alloc) or xfs of the node's own, shut down without a flush of the journal, mounted again, journal replayed; "
        "others: a preloaded library copies each file when it is synced, and the copies take the place of the disk",
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
        "a file takes all blocks of the node's own file system; for others than root the preloaded library answers",
        _MET,
        _NEEDS,
        (targets("follower"),),
    ),
    FaultKind(
        "disk-read-only",
        "disk",
        "the disk becomes read-only under the running node: writes meet EROFS; mounted again at the end",
        "the journal of the node's own ext4 is aborted, as ext4 does on an error; for others than root the preloaded library answers",
        _MET,
        _NEEDS,
        (targets("follower"),),
    ),
    FaultKind(
        "disk-eio",
        "disk",
        "the disk fails under the running node: every access meets EIO; it works again at the end, what was written is there",
        "the node's own file system is shut down after a flush of its journal; for others than root the preloaded library answers",
        _MET,
        _NEEDS,
        (targets("leader"),),
    ),
    FaultKind(
        "disk-slow",
        "disk",
        "each write and each sync of the running node takes longer",
        "a preloaded library sleeps before write, pwrite, writev, fsync and fdatasync of files on the node's disk; mmap is not delayed",
        "how many calls of the node were delayed, and for how long in all",
        frozenset({Capability.PROCESSES, Capability.PRELOAD}),
        (
            targets("leader"),
            Parameter("delay_ms", "count", 60, "how much longer", unit="ms", least=1, most=60_000),
        ),
        shim="disk",
    ),
    FaultKind(
        "swap-disk",
        "disk",
        "another, empty disk under the old node for a while: a new directory id; at the end the old disk is back, as it was",
        "the disk is moved aside, the candidate's own format makes another; at the end they are changed back",
        "no log is on the empty disk, and the node answered on it; checksums: the disk that is back is as it was",
        DISKS,
        (targets("follower"),),
        damages=True,
    ),
)
