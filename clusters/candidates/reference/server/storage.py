"""A replica's files, like Kafka's, on any :class:`.environment.Disk`: promises, segments, epochs.

``meta.properties`` names the disk; below ``__cluster_metadata-0``: ``quorum-state``, ``<base offset>.log`` segments of record batches and
``leader-epoch-checkpoint``, which is derived from the log and so never synced for its own sake. An OSError leaves what is on the disk
unknown: the process has to end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.candidates.reference.core.config import Recovered
from clusters.candidates.reference.core.effects import Persist, QuorumState
from clusters.candidates.reference.core.messages import ReplicaKey
from clusters.candidates.reference.core.records import Batch
from clusters.candidates.reference.server.environment import Disk, File
from clusters.candidates.reference.server.record_batches import core_batch, encoded
from clusters.collect import leader_epochs, quorum_state
from clusters.wire.batches import scan_batches
from clusters.wire.metadata_topic import PARTITION_NAME
from clusters.wire.problems import WireError
from workloads.problem import Problem

DEFAULT_SEGMENT_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class _Stored:
    """Where a batch lies."""

    batch: Batch
    segment: int
    position: int


class Storage:
    """The files of one replica. :func:`recover` opens them; one owner, one thread."""

    def __init__(self, disk: Disk, segment_bytes: int) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._segments: list[int] = []
        self._stored: list[_Stored] = []
        self._base_offsets: list[int] = []
        self._active: File | None = None
        self._active_bytes = 0
        self._written_epochs: list[tuple[int, int]] = []

    @property
    def end_offset(self) -> int:
        """Behind the last record."""
        return self._stored[-1].batch.end_offset if self._stored else 0

    def persist(self, wanted: Persist, timestamp_ms: int) -> None:
        """Bring everything to the disk in the order of the fields. Raises OSError."""
        if wanted.quorum_state is not None:
            self._write_quorum_state(wanted.quorum_state, sync=wanted.sync_quorum_state)
        if wanted.truncate_to is None and not wanted.append:
            return
        if wanted.truncate_to is not None:
            self._truncate(wanted.truncate_to, timestamp_ms)
        self._append(wanted.append, timestamp_ms)
        if wanted.sync_log:
            self._file().sync()
        self._write_epochs(log_was_cut=wanted.truncate_to is not None)

    def close(self) -> None:
        """Give the open segment back."""
        if self._active is not None:
            self._active.close()

    def _write_quorum_state(self, state: QuorumState, *, sync: bool) -> None:
        voted_for = None if state.voted_for is None else (state.voted_for.node_id, state.voted_for.directory_id)
        data = quorum_state.write_quorum_state(state.epoch, state.leader_id, voted_for)
        self._disk.replace(f"{PARTITION_NAME}/{quorum_state.NAME}", data, sync=sync)

    def _append(self, batches: Sequence[Batch], timestamp_ms: int) -> None:
        pending = bytearray()
        for batch in batches:
            if batch.base_offset != self.end_offset:
                raise ValueError(
                    f"a batch at offset {batch.base_offset} does not follow the log's end {self.end_offset}"
                )
            data = encoded(batch, timestamp_ms)
            if self._active_bytes and self._active_bytes + len(data) > self._segment_bytes:
                self._write(pending)
                self._roll(batch.base_offset)
            self._note(_Stored(batch, len(self._segments) - 1, self._active_bytes))
            pending += data
            self._active_bytes += len(data)
        self._write(pending)

    def _note(self, stored: _Stored) -> None:
        self._stored.append(stored)
        self._base_offsets.append(stored.batch.base_offset)

    def _write(self, pending: bytearray) -> None:
        if pending:
            self._file().append(bytes(pending))
            pending.clear()

    def _file(self) -> File:
        assert self._active is not None
        return self._active

    def _roll(self, base_offset: int) -> None:
        self._file().sync()
        self._file().close()
        self._segments.append(base_offset)
        self._active = self._disk.open(_segment_path(base_offset))
        self._active_bytes = 0

    def _truncate(self, offset: int, timestamp_ms: int) -> None:
        """Drop every record at or above an offset; a batch that the offset cuts is written anew without them."""
        index = bisect_right(self._base_offsets, offset) - 1
        if index >= 0 and self._stored[index].batch.end_offset <= offset:
            index += 1
        index = max(index, 0)
        if index >= len(self._stored):
            return
        first = self._stored[index]
        del self._stored[index:], self._base_offsets[index:]
        self._file().close()
        while len(self._segments) - 1 > first.segment:
            self._disk.remove(_segment_path(self._segments.pop()))
        self._active = self._disk.open(_segment_path(self._segments[-1]))
        self._active.truncate(first.position)
        self._active_bytes = first.position
        batch = first.batch
        if batch.base_offset < offset:
            kept = batch.records[: offset - batch.base_offset]
            self._append([Batch(batch.base_offset, batch.epoch, batch.kind, kept)], timestamp_ms)

    def _write_epochs(self, *, log_was_cut: bool) -> None:
        epochs: list[tuple[int, int]] = []
        known = self._written_epochs
        if not log_was_cut and known and self._stored and known[-1][0] == self._stored[-1].batch.epoch:
            return
        for stored in self._stored:
            if not epochs or epochs[-1][0] != stored.batch.epoch:
                epochs.append((stored.batch.epoch, stored.batch.base_offset))
        if epochs != known:
            text = leader_epochs.write_leader_epochs(epochs)
            self._disk.replace(f"{PARTITION_NAME}/{leader_epochs.NAME}", text.encode(), sync=False)
            self._written_epochs = epochs

    def recover(self) -> Recovered:
        """Read what the disk holds and open the log for appending; a torn tail is cut off.

        Raises Problem where the disk does not hold what this server wrote: it must not start blank over somebody's promises.
        """
        self._disk.make_directory(PARTITION_NAME)
        state = _read_quorum_state(self._disk)
        names = [name for name in self._disk.names(PARTITION_NAME) if name.endswith(".log")]
        for number, name in enumerate(names):
            self._recover_segment(name, last=number == len(names) - 1)
        if not self._segments:
            self._segments.append(0)
            self._active = self._disk.open(_segment_path(0))
        self._write_epochs(log_was_cut=True)
        return Recovered(state, [each.batch for each in self._stored])

    def _recover_segment(self, name: str, *, last: bool) -> None:
        path = f"{PARTITION_NAME}/{name}"
        base = name.removesuffix(".log")
        if not base.isdigit() or int(base) != self.end_offset:
            raise _damaged(path, f"a segment of offset {self.end_offset} is due")
        self._segments.append(int(base))
        data = self._disk.read(path) or b""
        scan = scan_batches(data)
        if scan.problem is not None and not (scan.torn and last):
            raise _damaged(path, scan.problem)
        position = 0
        for batch in scan.batches:
            if batch.base_offset != self.end_offset:
                raise _damaged(path, f"a batch at offset {batch.base_offset} stands where {self.end_offset} is due")
            try:
                self._note(_Stored(core_batch(batch), len(self._segments) - 1, position))
            except WireError as error:
                raise _damaged(path, str(error)) from error
            position += len(batch.raw)
        if last:
            self._active = self._disk.open(path)
            self._active_bytes = position
            if position < len(data):
                self._active.truncate(position)
                self._active.sync()


def _segment_path(base_offset: int) -> str:
    return f"{PARTITION_NAME}/{base_offset:020d}.log"


def _read_quorum_state(disk: Disk) -> QuorumState | None:
    path = f"{PARTITION_NAME}/{quorum_state.NAME}"
    data = disk.read(path)
    if data is None:
        return None
    stored = quorum_state.parse_quorum_state(data)
    if stored.problem is not None or stored.epoch is None:
        raise _damaged(path, stored.problem or "it has no epoch")
    voted_for = None
    if stored.voted_for_id is not None:
        if stored.voted_for_directory_id is None:
            raise _damaged(path, "its vote has no directory id")
        voted_for = ReplicaKey(stored.voted_for_id, stored.voted_for_directory_id)
    return QuorumState(stored.epoch, stored.leader_id, voted_for)


def _damaged(path: str, why: str) -> Problem:
    return Problem(
        "damaged-disk",
        f"{path} cannot be trusted: {why}.",
        "A replica must not forget its promises: wipe the disk and come back under a new directory id.",
    )
