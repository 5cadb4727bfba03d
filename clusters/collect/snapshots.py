"""Snapshots of the metadata log: ``<end offset>-<epoch>.checkpoint``, batches between a header and a footer record (KIP-630)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from clusters.collect.log_segments import checksum, voter_names
from clusters.wire import control_records
from clusters.wire.batches import records, scan_batches
from clusters.wire.problems import WireError
from workloads.problem import Problem

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """One file. ``digest`` is over the data records, whatever their order; None when the snapshot is not complete."""

    end_offset: int
    epoch: int
    complete: bool
    digest: int | None
    voters: tuple[str, ...] | None


def read_snapshots(directory: Path) -> list[StoredSnapshot]:
    """All snapshots under their final names, by end offset. Files being written (``.part``) or deleted are none.

    A file without a footer at its end is not complete. Raises Problem ``foreign-snapshot`` for one that holds no batches.
    """
    found = []
    for path in sorted(directory.glob("*.checkpoint")):
        name = _NAME.fullmatch(path.name)
        if name is not None:
            found.append(_read(path, int(name[1]), int(name[2])))
    return found


def _read(path: Path, end_offset: int, epoch: int) -> StoredSnapshot:
    scan = scan_batches(path.read_bytes())
    if scan.problem is not None and not scan.torn:
        raise _foreign(path, scan.problem)
    first = last = None
    digest = 0
    voters: tuple[str, ...] | None = None
    try:
        for batch in scan.batches:
            for record in records(batch):
                if not batch.control:
                    digest = (digest + checksum("data", record)) % 2**63
                    last = None
                    continue
                last = control_records.control_type(record.key)
                first = last if first is None else first
                if last == control_records.KRAFT_VOTERS:
                    message = control_records.decode_control(record.key, record.value)
                    voters = tuple(voter_names(message) or ())
    except WireError as error:
        raise _foreign(path, str(error)) from error
    complete = (
        scan.problem is None and first == control_records.SNAPSHOT_HEADER and last == control_records.SNAPSHOT_FOOTER
    )
    return StoredSnapshot(end_offset, epoch, complete, digest if complete else None, voters)


def _foreign(path: Path, why: str) -> Problem:
    return Problem(
        "foreign-snapshot",
        f"{path} is no snapshot of KRaft: {why}.",
        "Only snapshots may have such a name there; see the node's disk.",
    )
