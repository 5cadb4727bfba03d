"""Record batches of magic 2: the unit of Kafka's log files, Produce and Fetch.

Layout, big-endian: base offset i64 | length i32 | partition leader epoch i32 | magic i8 | CRC-32C u32 | attributes i16 | last
offset delta i32 | base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16 | base sequence i32 | count i32
| records. The length counts from behind itself; the CRC covers everything behind it, so base offset and epoch may be stamped
anew without touching it. KRaft writes no compression and no producer id.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from clusters.wire.problems import WireError

HEADER_BYTES = 61
MAGIC = 2
CONTROL = 1 << 5
"""attribute bit of a batch of control records"""
_COMPRESSION = 0b111
_LENGTH_AND_OFFSET_BYTES = 12
_HEAD = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``key`` and ``value`` are null when None. ``timestamp_ms`` is the producer's or the leader's clock."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch whose CRC has been checked; its records are read by :func:`records`."""

    base_offset: int
    epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    raw: bytes
    """the batch as it was read, header included"""

    @property
    def end_offset(self) -> int:
        """The offset behind the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def control(self) -> bool:
        """Whether the records are control records."""
        return bool(self.attributes & CONTROL)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a file or a buffer of batches holds: whole batches, and why reading stopped before the end, if it did.

    ``problem`` is None when everything was read. ``torn`` says that what follows can be the tail of an interrupted write: too
    few bytes, zeros, or a failing CRC in the batch that reaches the end. Anything else is not a log of this format.
    """

    batches: list[Batch]
    valid_bytes: int
    problem: str | None = None
    torn: bool = False


def _write_varint(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
        return
    _write_varint(out, len(value))
    out += value


def _record_body(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[bytes, bytes | None], ...],
) -> bytearray:
    body = bytearray(1)
    _write_varint(body, timestamp_delta)
    _write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    _write_varint(body, len(headers))
    for header_key, header_value in headers:
        _write_bytes(body, header_key)
        _write_bytes(body, header_value)
    return body


def encode_batch(records: Sequence[Record], *, epoch: int, control: bool = False) -> bytes:
    """Write records with ascending offsets as one uncompressed batch. Raises ValueError when there are none."""
    if not records:
        raise ValueError("a batch needs at least one record")
    first = records[0]
    base_offset, base_timestamp = first.offset, first.timestamp_ms
    body = bytearray()
    for each in records:
        record = _record_body(
            each.timestamp_ms - base_timestamp, each.offset - base_offset, each.key, each.value, each.headers
        )
        _write_varint(body, len(record))
        body += record
    rest = _REST.pack(
        CONTROL if control else 0,
        records[-1].offset - base_offset,
        base_timestamp,
        max(each.timestamp_ms for each in records),
        -1,
        -1,
        -1,
        len(records),
    )
    covered = rest + body
    length = HEADER_BYTES - _LENGTH_AND_OFFSET_BYTES + len(body)
    return _HEAD.pack(base_offset, length, epoch, MAGIC, crc32c(covered)) + covered


def stamped(raw: bytes, base_offset: int, epoch: int) -> bytes:
    """The same batch at another base offset and epoch, as a leader appends what a producer sent."""
    return base_offset.to_bytes(8, "big", signed=True) + raw[8:12] + epoch.to_bytes(4, "big", signed=True) + raw[16:]


def _batch_at(data: bytes, position: int, check_crc: bool) -> tuple[Batch | None, int, str, bool]:
    """(batch, position behind it, problem, whether a torn write explains it)."""
    have = len(data) - position
    if have < HEADER_BYTES:
        return None, position, f"{have} bytes are too few for a batch", True
    base_offset, length, epoch, magic, crc = _HEAD.unpack_from(data, position)
    end = position + _LENGTH_AND_OFFSET_BYTES + length
    if magic != MAGIC or length < HEADER_BYTES - _LENGTH_AND_OFFSET_BYTES or base_offset < 0:
        zeros = not any(data[position : position + HEADER_BYTES])
        return None, position, f"no batch of magic {MAGIC} (magic {magic}, length {length})", zeros
    if end > len(data):
        return None, position, f"a batch of {length} bytes ends behind the data", True
    raw = data[position:end]
    if check_crc and crc32c(memoryview(raw)[21:]) != crc:
        return None, position, f"the CRC of the batch at offset {base_offset} does not match", end == len(data)
    attributes, last_delta, base_ms, max_ms, producer, producer_epoch, sequence, count = _REST.unpack_from(raw, 21)
    if last_delta < 0 or count < 0:
        return None, position, f"the batch at offset {base_offset} claims a negative number of records", False
    batch = Batch(
        base_offset,
        epoch,
        attributes,
        last_delta,
        base_ms,
        max_ms,
        producer,
        producer_epoch,
        sequence,
        count,
        raw,
    )
    return batch, end, "", False


def scan_batches(data: bytes, *, check_crc: bool = True, position: int = 0) -> Scan:
    """Read whole batches up to the end or to the first thing that is none. Never raises."""
    batches: list[Batch] = []
    while position < len(data):
        batch, end, problem, torn = _batch_at(data, position, check_crc)
        if batch is None:
            return Scan(batches, position, f"at byte {position}: {problem}", torn)
        batches.append(batch)
        position = end
    return Scan(batches, position)


def decode_batches(data: bytes) -> list[Batch]:
    """Read batches that must be whole, as in a Produce request. Raises WireError for anything else."""
    scan = scan_batches(data)
    if scan.problem is not None:
        raise WireError(scan.problem)
    return scan.batches


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise WireError(f"a varint at byte {position} has more than ten bytes")


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(data, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(data):
        raise WireError(f"{size} bytes are claimed at byte {position} of a batch of {len(data)}")
    return data[position:end], end


def _read_record(batch: Batch, position: int) -> tuple[Record, int]:
    raw = batch.raw
    length, position = _read_varint(raw, position)
    end = position + length
    delta_ms, position = _read_varint(raw, position + 1)
    offset_delta, position = _read_varint(raw, position)
    key, position = _read_bytes(raw, position)
    value, position = _read_bytes(raw, position)
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    count, position = _read_varint(raw, position)
    for _ in range(min(count, len(raw))):
        header_key, position = _read_bytes(raw, position)
        header_value, position = _read_bytes(raw, position)
        headers += ((header_key or b"", header_value),)
    if position != end:
        raise WireError(f"a record of the batch at offset {batch.base_offset} has another length than it says")
    return Record(batch.base_offset + offset_delta, batch.base_timestamp_ms + delta_ms, key, value, headers), end


def records(batch: Batch) -> list[Record]:
    """Read the records of a batch. Raises WireError for compressed batches and for records that do not fill it exactly."""
    if batch.attributes & _COMPRESSION:
        raise WireError(f"the batch at offset {batch.base_offset} is compressed; KRaft compresses nothing")
    found = []
    position = HEADER_BYTES
    try:
        while position < len(batch.raw):
            record, position = _read_record(batch, position)
            found.append(record)
    except IndexError:
        raise WireError(f"the batch at offset {batch.base_offset} ends inside a record") from None
    if len(found) != batch.count:
        raise WireError(f"the batch at offset {batch.base_offset} holds {len(found)} records and claims {batch.count}")
    return found
