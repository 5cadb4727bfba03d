"""Faults of disks that are done to a node that is down."""

from __future__ import annotations

from nemesis.faults.kinds.kind import DISKS, LINKS, ORDER, STAGGER, FaultKind, targets
from nemesis.faults.parameters import Parameter

_CHECKSUMS = "SHA-256 of the file before and after differ, and the size is what was planned"
_PROCEDURE = Parameter(
    "procedure",
    "choice",
    "none",
    "what follows the start: nothing, or the operator's way, remove the old identity and add the new one (KIP-853)",
    choices=("none", "operator"),
)
_FILE = Parameter(
    "file",
    "choice",
    "segment",
    "which file: the newest segment of the log, the stored vote and epoch, the newest snapshot",
    choices=("segment", "quorum-state", "snapshot"),
)

DISK_FAULTS = (
    FaultKind(
        "wipe",
        "disk",
        "kill -9, the disk is moved aside, an empty one is formatted as an operator would: a new directory id",
        "the data directory is renamed, the candidate's own format makes a new one",
        "no log is on the new disk; its directory id is told",
        DISKS,
        (targets("follower"), ORDER, STAGGER, _PROCEDURE),
        damages=True,
    ),
    FaultKind(
        "wipe-behind-laggards",
        "disk",
        "a minority is cut off while clients write; then all others are killed, one of them is wiped, and it goes on with that minority",
        "links, kill -9, the candidate's own format: in this order, and the other nodes stay down until the end",
        "datagrams on every link, the processes have ended, no log is on the new disk",
        LINKS | DISKS,
        (
            Parameter(
                "lag_ms", "count", 1500, "for how long the minority misses writes", unit="ms", least=100, most=60_000
            ),
        ),
        damages=True,
    ),
    FaultKind(
        "restore-old-disk",
        "disk",
        "copies the disk of a stopped node, lets the node go on, and later puts the old copy back under the old identity",
        "kill -9, copy, start; at the end kill -9, the disk is moved aside and the copy takes its place",
        "checksums: the disk that is back is the copy, and not the disk that the node had last",
        DISKS,
        (targets("follower"),),
        damages=True,
    ),
    FaultKind(
        "truncate-file",
        "disk",
        "cuts the end off a file while the node is down",
        "kill -9, ftruncate, start at the end",
        _CHECKSUMS,
        DISKS,
        (
            targets("follower"),
            _FILE,
            Parameter("bytes", "count", 100, "how much is cut off, at most the whole file", unit="bytes", least=1),
        ),
        damages=True,
    ),
    FaultKind(
        "flip-bits",
        "disk",
        "flips bits of a file while the node is down: bit rot",
        "kill -9, bits drawn from the seed are inverted, start at the end",
        _CHECKSUMS,
        DISKS,
        (
            targets("follower"),
            _FILE,
            Parameter("bits", "count", 3, "how many, at places drawn from the seed", least=1, most=1_000_000),
        ),
        damages=True,
    ),
)
