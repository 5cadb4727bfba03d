"""What stands in the log: commands of clients and control records, in batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from zlib import crc32

_COMMAND = Struct(">B?q?qq")
_FUNCTIONS = {"write": 1, "cas": 2, "append": 3}

DATA = "data"
LEADER_CHANGE = "leader_change"


@dataclass(frozen=True, slots=True)
class Command:
    """One data record: ``write`` (key, value), ``cas`` (key, expected, value) or ``append`` (value)."""

    f: str
    value: int
    key: int | None = None
    expected: int | None = None

    @property
    def well_formed(self) -> bool:
        """Whether it is one of the three functions with the arguments that it needs."""
        match self.f:
            case "write":
                return self.key is not None and self.expected is None
            case "cas":
                return self.key is not None and self.expected is not None
            case "append":
                return self.key is None and self.expected is None
        return False


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The control record that begins each epoch (S853-11)."""

    leader_id: int
    voters: tuple[str, ...]
    """``n1/<directory id>`` of each voter"""


@dataclass(slots=True)
class Batch:
    """Records that were appended together in one epoch, replicated unchanged.

    ``encoded`` is the server's: the bytes that it wrote or received, kept so that a batch is encoded once. The core never
    reads it, and it is no part of a batch's identity.
    """

    base_offset: int
    epoch: int
    kind: str
    """``data`` or ``leader_change``; a control batch has one record"""
    records: tuple[Command, ...] | tuple[LeaderChange, ...]
    encoded: bytes = field(default=b"", compare=False, repr=False)
    _checksum: int = field(default=-1, compare=False, repr=False)

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + len(self.records)

    @property
    def checksum(self) -> int:
        """CRC-32 of the records' contents, the same on every node that holds the batch."""
        if self._checksum < 0:
            self._checksum = _crc(self.records)
        return self._checksum

    def tail(self, offset: int) -> Batch:
        """The batch without its records before ``offset``."""
        if offset <= self.base_offset:
            return self
        return Batch(offset, self.epoch, self.kind, self.records[offset - self.base_offset :])


def _crc(records: tuple[Command, ...] | tuple[LeaderChange, ...]) -> int:
    crc = 0
    for record in records:
        if isinstance(record, Command):
            key, expected = record.key, record.expected
            packed = _COMMAND.pack(
                _FUNCTIONS[record.f], key is not None, key or 0, expected is not None, expected or 0, record.value
            )
            crc = crc32(packed, crc)
        else:
            crc = crc32(f"{record.leader_id} {','.join(record.voters)}".encode(), crc)
    return crc
