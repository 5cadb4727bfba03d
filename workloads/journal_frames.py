"""The bytes of a journal: numbered segments of framed batches, in which what is torn is seen and what is foreign refused.

A segment is a file ``<number>.journal``: a header, then frames. All integers are big endian.

======== =============================================================================================================
part     bytes
======== =============================================================================================================
header   256 bytes: magic ``NEMESISJ`` (8), version (2), segment number (4), length of the run id (2), run id (UTF-8),
         zeros, CRC32C of the 252 bytes before it (4)
frame    length of the payload (4), number of the frame, counted through all segments (4), CRC32C of the payload (4),
         CRC32C of those twelve bytes (4), payload (MessagePack: an array of records)
======== =============================================================================================================

Appends by one process are a prefix of what was meant after any crash of that process; after a power loss the end may also be
zeros. So the *tail*, the end of the last segment, may be cut in the middle of a frame: that is dropped, and counted.
Damage anywhere else, a missing segment or frame, or a file of another kind, version or run is a :class:`Problem`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from workloads.problem import Problem

MAGIC = b"NEMESISJ"
VERSION = 1
_FIXED = struct.Struct(">8sHIH")
_FRAME = struct.Struct(">IIII")
_CRC = struct.Struct(">I")
_HEADER_SIZE = 256
_RUN_ID_SIZE_MAX = _HEADER_SIZE - _FIXED.size - _CRC.size


@dataclass(frozen=True, slots=True)
class Frame:
    """One batch of a journal as it was read."""

    number: int
    payload: bytes


@dataclass(slots=True)
class Found:
    """What reading found besides the frames; complete once all frames were read."""

    run_id: str = ""
    segments: int = 0
    frames: int = 0
    torn_bytes: int = 0
    """dropped from the tail of the last segment"""


def segment_path(directory: Path, number: int) -> Path:
    """Return the path of a segment."""
    return directory / f"{number:06d}.journal"


def encode_header(run_id: str, number: int) -> bytes:
    """Return a segment's header. Raises ValueError for a run id above 236 bytes."""
    name = run_id.encode()
    if len(name) > _RUN_ID_SIZE_MAX:
        raise ValueError(f"a run id has at most {_RUN_ID_SIZE_MAX} bytes, not {len(name)}: {run_id}")
    body = (_FIXED.pack(MAGIC, VERSION, number, len(name)) + name).ljust(_HEADER_SIZE - _CRC.size, b"\0")
    return body + _CRC.pack(crc32c(body))


def encode_frame(number: int, payload: bytes) -> bytes:
    """Return one framed batch."""
    head = _FRAME.pack(len(payload), number, crc32c(payload), 0)[:12]
    return b"".join((head, _CRC.pack(crc32c(head)), payload))


def read_frames(directory: Path, found: Found) -> Iterator[Frame]:
    """Yield the frames of a journal in order and fill ``found``.

    Raises :class:`Problem` ``history-missing``, ``history-torn`` (damage that is not the tail's) or ``history-foreign``.
    """
    paths = sorted(directory.glob("*.journal"))
    if not paths:
        raise Problem(
            "history-missing", f"There is no journal in {directory}.", "Name the folder of a run that was started."
        )
    for number, path in enumerate(paths):
        if path != segment_path(directory, number):
            raise _torn(path, 0, f"the segment with number {number} is missing before it")
        yield from _read_segment(path, number, number == len(paths) - 1, found)
        found.segments += 1


def _read_segment(path: Path, number: int, last: bool, found: Found) -> Iterator[Frame]:
    data = path.read_bytes()
    position = _read_header(path, data, number, last, found)
    while position < len(data):
        if len(data) - position < _FRAME.size:
            break
        length, frame_number, payload_crc, head_crc = _FRAME.unpack_from(data, position)
        if crc32c(data[position : position + 12]) != head_crc:
            if last and not any(data[position:]):
                break
            raise _torn(path, position, "a frame's header does not match its checksum")
        end = position + _FRAME.size + length
        if end > len(data):
            break
        payload = data[position + _FRAME.size : end]
        if crc32c(payload) != payload_crc:
            if last and (end == len(data) or not any(data[end:])):
                break
            raise _torn(path, position, "a frame does not match its checksum")
        if frame_number != found.frames:
            raise _torn(path, position, f"frame {frame_number} stands where frame {found.frames} belongs")
        found.frames += 1
        position = end
        yield Frame(frame_number, payload)
    if position < len(data):
        if not last:
            raise _torn(path, position, "it ends in the middle of a frame, and another segment follows")
        found.torn_bytes += len(data) - position


def _read_header(path: Path, data: bytes, number: int, last: bool, found: Found) -> int:
    """Return where the frames begin, which is the end of ``data`` when the header itself is a torn tail."""
    if not data.startswith(MAGIC[: len(data)]) and any(data):
        raise _foreign(path, "it is no journal")
    if last and (len(data) < _HEADER_SIZE or not any(data)):
        found.torn_bytes += len(data)
        return len(data)
    if len(data) < _HEADER_SIZE:
        raise _torn(path, 0, "its header is cut, and another segment follows")
    _, version, stated, name_length = _FIXED.unpack_from(data)
    if version != VERSION:
        raise _foreign(path, f"its version is {version}, this release reads version {VERSION}")
    body = data[: _HEADER_SIZE - _CRC.size]
    if _CRC.unpack_from(data, len(body))[0] != crc32c(body):
        raise _torn(path, 0, "its header does not match its checksum")
    run_id = body[_FIXED.size : _FIXED.size + name_length].decode()
    if stated != number or (number and run_id != found.run_id):
        raise _foreign(path, f"it is segment {stated} of run {run_id!r}")
    found.run_id = run_id
    return _HEADER_SIZE


def _torn(path: Path, position: int, why: str) -> Problem:
    return Problem(
        "history-torn",
        f"The journal is damaged before its end: {path}, byte {position}: {why}.",
        "Restore the file from a copy; what is left cannot be judged.",
    )


def _foreign(path: Path, why: str) -> Problem:
    return Problem(
        "history-foreign",
        f"{path} is not a segment of this run's journal: {why}.",
        "Move the file away, or name the right folder.",
    )
