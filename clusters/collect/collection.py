"""One copy of a node's evidence files, taken at a kill, a stop, a wipe or the end of the run."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """``collection.json`` in ``nodes/<node>/collections/<number>/``."""

    node: str
    directory_id: str | None
    assigned: bool
    incarnation: int
    """of the process that had written the files; on a disk that none has written to yet, of the next one"""
    number: int
    ts_ns: int
    final: bool
    reason: str
    """kill, stop, wipe, crash, end"""


def read_collections(run: Path, node: str) -> list[tuple[Collection, Path]]:
    """All copies of one node, oldest first. Raises msgspec.DecodeError for a damaged ``collection.json``."""
    found = []
    for path in sorted(
        (run / "nodes" / node / "collections").glob("*/collection.json"), key=lambda p: int(p.parent.name)
    ):
        found.append((msgspec.json.decode(path.read_bytes(), type=Collection), path.parent))
    return found
