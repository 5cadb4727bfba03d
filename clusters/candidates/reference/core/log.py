"""The replicated log in memory: batches by offset, and where each epoch begins.

The cache of epochs is an index only: a leader answers as if it looked in its log (R853-5).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from clusters.candidates.reference.core.decisions import Position
from clusters.candidates.reference.core.messages import EpochEnd
from clusters.candidates.reference.core.records import Batch


class Log:
    """Contiguous batches from offset 0 on. Finding an offset or an epoch takes logarithmic time, appending constant."""

    __slots__ = ("_bases", "_batches", "_epoch_starts", "_epochs", "end_offset")

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self._batches: list[Batch] = []
        self._bases: list[int] = []
        self._epochs: list[int] = []
        self._epoch_starts: list[int] = []
        self.end_offset = 0
        for batch in batches:
            self.append(batch)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log."""
        return self._epochs[-1] if self._epochs else 0

    @property
    def position(self) -> Position:
        """How far the log reaches."""
        return (self.last_epoch, self.end_offset)

    def append(self, batch: Batch) -> None:
        """Add a batch at the end. Raises ValueError when it does not begin there."""
        if batch.base_offset != self.end_offset:
            raise ValueError(
                f"a batch at offset {batch.base_offset} does not follow a log that ends at {self.end_offset}"
            )
        if not self._epochs or self._epochs[-1] != batch.epoch:
            self._epochs.append(batch.epoch)
            self._epoch_starts.append(batch.base_offset)
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self.end_offset = batch.end_offset

    def truncate(self, offset: int) -> None:
        """Drop every record at or above ``offset``; a batch that reaches across it goes as a whole."""
        while self._batches and self._batches[-1].end_offset > offset:
            self.end_offset = self._batches.pop().base_offset
            self._bases.pop()
        while self._epoch_starts and self._epoch_starts[-1] >= self.end_offset:
            self._epochs.pop()
            self._epoch_starts.pop()

    def epoch_end(self, epoch: int) -> EpochEnd:
        """The greatest epoch in the log that is not above ``epoch``, and the end offset of its records."""
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return EpochEnd(0, 0)
        end = self._epoch_starts[at] if at < len(self._epochs) else self.end_offset
        return EpochEnd(self._epochs[at - 1], end)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at ``offset``; 0 where there is none."""
        if not 0 <= offset < self.end_offset:
            return 0
        return self._epochs[bisect_right(self._epoch_starts, offset) - 1]

    def read(self, offset: int, max_records: int, end: int | None = None) -> tuple[Batch, ...]:
        """Batches from the record at ``offset`` on, at least one and about ``max_records`` records, none from ``end`` on."""
        limit = self.end_offset if end is None else min(end, self.end_offset)
        if offset < 0 or offset >= limit:
            return ()
        first = bisect_right(self._bases, offset) - 1
        found: list[Batch] = []
        records = 0
        for index in range(first, len(self._batches)):
            batch = self._batches[index]
            if batch.end_offset > limit or (found and records + len(batch.records) > max_records):
                break
            found.append(batch.tail(offset))
            records += len(batch.records)
        return tuple(found)
