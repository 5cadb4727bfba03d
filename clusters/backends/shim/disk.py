"""The disk shim's control file (the layout of ``disk.c``), and what each node's disk is like in a run: slow, or durable at fsync only."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusters.backends import files
from clusters.backends.shim.preload import control_file
from clusters.cluster import NodeSpec, Site
from clusters.shared import Sharing

NAME = "disk"
VARIABLE, ROOT_VARIABLE, SHADOW_VARIABLE = "NEMESIS_DISK", "NEMESIS_DISK_ROOT", "NEMESIS_DISK_SHADOW"

_WORD = struct.Struct("<Q")
_SEEN = struct.Struct("<QQQQQ")
_ERROR_AT, _SEEN_AT = _WORD.size, 2 * _WORD.size
_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Delays:
    """What the shim did to the node's process since it was started."""

    loaded: bool
    """a process has the library, and the file"""
    writes: int
    """that were delayed"""
    syncs: int
    slept_ms: float
    """in all of them together"""
    failed: int
    """writes and syncs that met the error"""


class DiskShim:
    """:class:`.preload.Shim` for the disks of a run. Any thread may call. A node's delay holds for its next processes too."""

    def __init__(self, library: Path, *, durable_at_sync: bool = False) -> None:
        """``durable_at_sync``: keep in :func:`shadow_of` what a power cut would leave."""
        self._library = library
        self._durable_at_sync = durable_at_sync
        self._lock = threading.Lock()
        self._delays_ns: dict[str, int] = {}

    @property
    def name(self) -> str:
        """``disk``."""
        return NAME

    @property
    def library(self) -> Path:
        """The compiled library."""
        return self._library

    def variables(self, node: NodeSpec, site: Site) -> Mapping[str, str]:
        """Where the control file is, and below which directory files are meant."""
        told = {VARIABLE: site.inside(control_file(node, NAME)), ROOT_VARIABLE: site.inside(node.data)}
        if self._durable_at_sync:
            told[SHADOW_VARIABLE] = site.inside(shadow_of(node))
        return told

    def content(self, node: NodeSpec, incarnation: int) -> bytes:
        """The delay in force; nothing seen yet."""
        del incarnation
        with self._lock:
            return _WORD.pack(self._delays_ns.get(node.name, 0)) + _WORD.pack(0) + bytes(_SEEN.size)

    def delay(self, cluster: Sharing, node: NodeSpec, delay_ms: float) -> None:
        """Let each write and sync of the node take so much longer from now on; 0: as fast as it is. Raises Problem ``shared-file``."""
        with self._lock:
            self._delays_ns[node.name] = int(delay_ms * _MS)
            cluster.write_shared(node.name, control_file(node, NAME), 0, _WORD.pack(self._delays_ns[node.name]))

    def delays(self, cluster: Sharing, node: NodeSpec) -> Delays:
        """What was delayed so far. Raises Problem ``shared-file``."""
        return parse_delays(cluster.read_shared(node.name, control_file(node, NAME)))


def shadow_of(node: NodeSpec) -> Path:
    """Where the shim keeps what is durable of a node's disk."""
    return node.directory / "shim" / "durable"


def write_error(path: Path, number: int) -> None:
    """Let each write and sync of the process with this control file fail with an errno; 0: none. Raises Problem ``shared-file``."""
    files.write_shared(path, _ERROR_AT, _WORD.pack(number))


def parse_delays(data: bytes) -> Delays:
    """What a control file tells."""
    loaded, writes, syncs, slept_ns, failed = _SEEN.unpack_from(data, _SEEN_AT)
    return Delays(bool(loaded), writes, syncs, slept_ns / _MS, failed)
