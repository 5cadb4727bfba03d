"""Nodes' disks as directories that are durable at sync only, for an ordinary user: what the preloaded library copies at each sync of a
file (``shim/disk.c``) is what a power cut leaves.

The model is milder than a disk: names are durable at once. The library's errors stand for a disk that is full, read-only or failing.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from clusters.backends import files
from clusters.backends.image_disks import contents, lost_bytes, tear
from clusters.backends.shim.disk import NAME, parse_delays, shadow_of, write_error
from clusters.backends.shim.preload import control_file
from clusters.cluster import NodeSpec
from clusters.disks import PowerCut

KIND = "shim"
_ERRNO = {"full": errno.ENOSPC, "read-only": errno.EROFS, "failing": errno.EIO}
_MET_PATIENCE_S, _POLL_S = 3.0, 0.02
_CANARY, _CANARY_BYTES = ".nemesis-unsynced", 1 << 16


class ShimDisks:
    """The disks of a cluster's nodes, with the interface of :class:`.image_disks.ImageDisks`. A node's calls come one at a time."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self._nodes = {node.name: node for node in nodes}

    def place(self, node: str) -> None:
        """What the controller has formatted is durable."""
        data, shadow = self._nodes[node].data, shadow_of(self._nodes[node])
        shutil.rmtree(shadow, ignore_errors=True)
        shutil.copytree(data, shadow)

    def wipe(self, node: str, aside: str) -> None:
        """Move the disk aside."""
        files.move_aside(self._nodes[node].directory, "data", aside)

    def put_back(self, node: str, aside: str) -> None:
        """Move it back; it has been without a process, so all of it is durable."""
        files.move_aside(self._nodes[node].directory, aside, "data")
        self.place(node)

    def fetch(self, node: str, patterns: Sequence[str], target: Path) -> None:
        """Copy evidence."""
        files.copy_matching(self._nodes[node].data, patterns, target)

    def cut_power(self, node: str, torn: float | None) -> PowerCut:
        """Put what is durable in the place of the disk."""
        data, shadow = self._nodes[node].data, shadow_of(self._nodes[node])
        before = contents(data)
        (data / _CANARY).write_bytes(os.urandom(_CANARY_BYTES))
        shutil.rmtree(data)
        shadow.rename(data)
        happened = not (data / _CANARY).exists()
        after = contents(data)
        parts = {} if torn is None else tear(data, before, after, torn)
        self.place(node)
        return PowerCut(happened, lost_bytes(before, after), parts)

    def break_disk(self, node: str, how: str) -> str:
        """Let every write and sync of the node fail; returns the error when the node has met it, within seconds."""
        path = control_file(self._nodes[node], NAME)
        write_error(path, _ERRNO[how])
        deadline = time.monotonic() + _MET_PATIENCE_S
        while time.monotonic() < deadline:
            if parse_delays(files.read_shared(path)).failed:
                return errno.errorcode[_ERRNO[how]]
            time.sleep(_POLL_S)
        return ""

    def mend_disk(self, node: str) -> None:
        """No error any more."""
        write_error(control_file(self._nodes[node], NAME), 0)

    def close(self) -> None:
        """What is durable is of no use any more."""
        for node in self._nodes.values():
            shutil.rmtree(shadow_of(node), ignore_errors=True)
