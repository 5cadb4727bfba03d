"""Segments of a replicated log: ``<base offset>.log`` files of record batches → one row a record.

What an interrupted write left at the end of the last segment is cut off and told in ``torn``, as the node itself will cut it off.
Anything else that is no batch raises Problem: it is never misread and never skipped. Whether offsets and epochs make sense is
judged by the checker, not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from clusters.evidence.identity import node_name, uuid_to_text
from clusters.wire import control_records
from clusters.wire.batches import Batch, Record, records, scan_batches
from clusters.wire.problems import WireError
from workloads.problem import Problem

Decode = Callable[[bytes | None, bytes | None], tuple[str, int | None, int | None] | None]
"""What a candidate knows of a data record: (f, key, value) of the operation that wrote it, None when it is none of a workload.
Raises WireError for a record that cannot be the candidate's."""

_KINDS = {
    control_records.LEADER_CHANGE: "leader_change",
    control_records.KRAFT_VERSION: "kraft_version",
    control_records.KRAFT_VOTERS: "voters",
}


@dataclass(slots=True)
class LogColumns:
    """The columns of ``log_entries`` that a file tells, one element a record."""

    offset: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    checksum: list[int] = field(default_factory=list)
    f: list[str | None] = field(default_factory=list)
    key: list[int | None] = field(default_factory=list)
    value: list[int | None] = field(default_factory=list)
    leader: list[str | None] = field(default_factory=list)
    voters: list[list[str] | None] = field(default_factory=list)


@dataclass(slots=True)
class Log:
    """One log as it was found."""

    columns: LogColumns
    start: int | None = None
    """base offset of the first segment; None when there is no segment"""
    end: int | None = None
    """offset behind the last record that was read"""
    last_epoch: int | None = None
    torn: str | None = None
    """where and why reading stopped in the last segment"""


def checksum(kind: str, record: Record) -> int:
    """63 bits of BLAKE2b over kind, key, value and headers: equal content has equal checksums on all nodes, other content differs."""
    digest = blake2b(kind.encode(), digest_size=8)
    for part in (record.key, record.value, *(each for header in record.headers for each in header)):
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return int.from_bytes(digest.digest(), "big") >> 1


def read_log(directory: Path, decode: Decode) -> Log:
    """Read all segments of a partition's directory, e.g. ``__cluster_metadata-0``.

    Raises Problem ``foreign-log-segment`` for a file that holds no batches, ``damaged-log-segment`` where a batch that was once
    whole is not any more or stands behind later offsets, and ``foreign-record`` for records that are not the candidate's.
    """
    log = Log(LogColumns())
    segments = sorted(directory.glob("*.log"))
    for number, path in enumerate(segments):
        base = _base_offset(path)
        if log.start is None:
            log.start = log.end = base
        _read_segment(log, path, decode, last=number == len(segments) - 1)
    return log


def _base_offset(path: Path) -> int:
    if len(path.stem) != 20 or not path.stem.isdigit():
        raise _foreign(path, "its name is not the 20 digits of a base offset")
    return int(path.stem)


def _read_segment(log: Log, path: Path, decode: Decode, *, last: bool) -> None:
    data = path.read_bytes()
    scan = scan_batches(data)
    if scan.problem is not None:
        if not scan.torn and not scan.batches:
            raise _foreign(path, scan.problem)
        if not scan.torn or not last:
            raise Problem(
                "damaged-log-segment",
                f"{path} is damaged in its middle: {scan.problem}.",
                "The records behind it cannot be trusted; see the node's disk and its output.",
            )
        log.torn = f"{path.name}: {scan.problem}; {len(data) - scan.valid_bytes} bytes cut off"
    for batch in scan.batches:
        # No checksum covers a batch's own offset.
        if log.end is not None and batch.base_offset < log.end:
            raise Problem(
                "damaged-log-segment",
                f"{path} is damaged: a batch at offset {batch.base_offset} stands behind offset {log.end - 1}.",
                "Its records cannot be trusted; see the node's disk and its output.",
            )
        try:
            add_batch(log.columns, batch, decode)
        except WireError as error:
            raise Problem(
                "foreign-record",
                f"{path} holds a record that is not of this candidate: {error}.",
                "Check that the run's candidate wrote this disk.",
            ) from error
        log.end, log.last_epoch = batch.end_offset, batch.epoch


def add_batch(columns: LogColumns, batch: Batch, decode: Decode) -> None:
    """Add a batch's records. Raises WireError for records that are none."""
    found = records(batch)
    columns.offset += [each.offset for each in found]
    columns.epoch += [batch.epoch] * len(found)
    if batch.control:
        for record in found:
            _add_control(columns, record)
        return
    columns.kind += ["data"] * len(found)
    columns.leader += [None] * len(found)
    columns.voters += [None] * len(found)
    for record in found:
        columns.checksum.append(checksum("data", record))
        f, key, value = decode(record.key, record.value) or (None, None, None)
        columns.f.append(f)
        columns.key.append(key)
        columns.value.append(value)


def _add_control(columns: LogColumns, record: Record) -> None:
    message = control_records.decode_control(record.key, record.value)
    kind = _KINDS.get(control_records.control_type(record.key), "control")
    columns.kind.append(kind)
    columns.checksum.append(checksum(kind, record))
    columns.f.append(None)
    columns.key.append(None)
    columns.value.append(None)
    leader_id = getattr(message, "leader_id", None)
    columns.leader.append(None if leader_id is None else node_name(leader_id))
    columns.voters.append(voter_names(message))


def voter_names(message: control_records.ControlMessage | None) -> list[str] | None:
    """``n1/<directory id>``, or ``n1`` where there is none, of each voter that a control record names; None when it names none."""
    voters = getattr(message, "voters", None)
    if voters is None:
        return None
    names = []
    for voter in voters:
        directory_id = getattr(voter, "voter_directory_id", None)
        name = node_name(voter.voter_id)
        names.append(name if directory_id is None else f"{name}/{uuid_to_text(directory_id)}")
    return names


def _foreign(path: Path, why: str) -> Problem:
    return Problem(
        "foreign-log-segment",
        f"{path} is no segment of Kafka's log format: {why}.",
        "Only files of record batches with magic 2 may end in .log there.",
    )
