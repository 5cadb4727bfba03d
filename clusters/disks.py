"""What a backend offers whose nodes' disks can fail while they are in use, beside :class:`clusters.cluster.Cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from workloads.problem import Problem

BREAKAGES = ("full", "read-only", "failing")
"""ways in which a disk in use can fail: writes meet ENOSPC, or EROFS; or every access meets EIO"""


@dataclass(frozen=True, slots=True)
class PowerCut:
    """What one power cut did to a node's disk."""

    happened: bool
    """what was written just before without being synced is gone, and the disk can be read again"""
    lost: Mapping[str, int] = field(default_factory=dict)
    """file → bytes that the node had written and not synced, and that are gone (counted from the first one that differs)"""
    torn: Mapping[str, int] = field(default_factory=dict)
    """file → bytes of those that a write in flight left behind all the same"""


@runtime_checkable
class Disks(Protocol):
    """Disks of nodes that can fail. Calls block for tens of milliseconds."""

    @property
    def disk_kind(self) -> str | None:
        """How such a disk is made (``ext4``, ``xfs``); None when this cluster was made without."""
        ...

    def cut_power(self, node: str, torn: float | None) -> PowerCut:
        """Take the power from the disk of a node without processes, and give it back: un-synced writes are gone.

        With ``torn``, a number in [0, 1), a part of the log's un-synced end survives that is no multiple of anything.
        """
        ...

    def break_disk(self, node: str, how: str) -> str:
        """Let the disk fail from now on, one of :data:`BREAKAGES`; returns what a write to it then meets.

        The name of the error (``ENOSPC``), ``""`` when it succeeds.
        """
        ...

    def mend_disk(self, node: str) -> None:
        """Let it work again, for a node without processes but where it was full. Nothing happens to one that works."""
        ...


def no_such_disks() -> Problem:
    """What is said where a disk shall fail that cannot."""
    return Problem("disk-unable", "The disks of this cluster cannot fail while they are in use.", usage=True)
