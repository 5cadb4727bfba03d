"""What the log means: registers by key, and the sequence of appended values."""

from __future__ import annotations

from bisect import bisect_left
from hashlib import blake2b
from struct import Struct

from clusters.candidates.reference.core.records import Batch
from clusters.wire.reference_records import Command

_REGISTER = Struct(">qq")
_APPENDED = Struct(">Qqq")
_DIGEST_MASK = (1 << 63) - 1


class StateMachine:
    """Deterministic: the same records give the same state, answers and digest on every node."""

    __slots__ = ("_appended", "_appended_digest", "_appended_offsets", "_registers", "_registers_digest", "applied_end")

    def __init__(self) -> None:
        self._registers: dict[int, int] = {}
        self._registers_digest = 0
        self._appended: list[int] = []
        self._appended_offsets: list[int] = []
        self._appended_digest = 0
        self.applied_end = 0

    @property
    def digest(self) -> int:
        """63 bits that tell two states apart, independent of the order in which keys were first written."""
        return (self._registers_digest ^ self._appended_digest) & _DIGEST_MASK

    def apply(self, batch: Batch) -> list[int]:
        """Apply what lies above ``applied_end`` and return the offsets of compare-and-sets that found another value."""
        refused: list[int] = []
        for offset, record in enumerate(batch.records, batch.base_offset):
            if offset < self.applied_end or not isinstance(record, Command):
                continue
            if record.key is None:
                self._append(offset, record.value)
            elif record.f == "cas" and self._registers.get(record.key) != record.expected:
                refused.append(offset)
            else:
                self._write(record.key, record.value)
        self.applied_end = max(self.applied_end, batch.end_offset)
        return refused

    def value(self, key: int) -> int | None:
        """The value of a register, None when it is unwritten."""
        return self._registers.get(key)

    def appended(self, from_offset: int, limit: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """Appended (offset, value) from an offset on, at most ``limit``, and the offset up to which this is complete."""
        first = bisect_left(self._appended_offsets, from_offset)
        last = min(first + limit, len(self._appended))
        entries = tuple(zip(self._appended_offsets[first:last], self._appended[first:last], strict=True))
        complete = self.applied_end if last == len(self._appended) else self._appended_offsets[last]
        return entries, complete

    def _write(self, key: int, value: int) -> None:
        old = self._registers.get(key)
        if old is not None:
            self._registers_digest ^= _hash(_REGISTER.pack(key, old))
        self._registers_digest ^= _hash(_REGISTER.pack(key, value))
        self._registers[key] = value

    def _append(self, offset: int, value: int) -> None:
        self._appended.append(value)
        self._appended_offsets.append(offset)
        self._appended_digest = _hash(_APPENDED.pack(self._appended_digest, offset, value))


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
