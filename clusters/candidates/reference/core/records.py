"""What stands in the log: commands of clients and control records, in batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from clusters.wire.reference_records import Command, encode_command

DATA = "data"
LEADER_CHANGE = "leader_change"


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
    records: tuple[Command | LeaderChange, ...]
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
            crc = 0
            for record in self.records:
                crc = record_checksum(record, crc)
            self._checksum = crc
        return self._checksum

    def tail(self, offset: int) -> Batch:
        """The batch without its records before ``offset``."""
        if offset <= self.base_offset:
            return self
        return Batch(offset, self.epoch, self.kind, self.records[offset - self.base_offset :])


def record_checksum(record: Command | LeaderChange, crc: int = 0) -> int:
    """CRC-32 of one record's content, going on from ``crc``."""
    if isinstance(record, Command):
        return crc32(encode_command(record), crc)
    return crc32(f"{record.leader_id} {','.join(record.voters)}".encode(), crc)


def well_formed(command: Command) -> bool:
    """Whether a command is one of the three functions and has the arguments that it needs."""
    match command.f:
        case "write":
            return command.key is not None and command.expected is None
        case "cas":
            return command.key is not None and command.expected is not None
        case "append":
            return command.key is None and command.expected is None
    return False
