"""What a backend offers for files that the controller and a running node share, beside :class:`clusters.cluster.Cluster`."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class Sharing(Protocol):
    """Small files below ``NodeSpec.directory``, read and written in place while the node runs and maps them into its memory.

    Calls block for milliseconds. Eight bytes at an offset that is a multiple of eight are written at once or not at all.
    """

    def write_shared(self, node: str, path: Path, offset: int, data: bytes) -> None:
        """Write over a part of a file that is there. Raises Problem ``shared-file``."""
        ...

    def read_shared(self, node: str, path: Path) -> bytes:
        """The whole file as it is now. Raises Problem ``shared-file``."""
        ...

    def file_size(self, node: str, path: Path) -> int:
        """How long a file is now; 0 when it is not there."""
        ...
