"""The journal: everything that happens in a run, appended to segments on disk while it happens.

An operation has two records: one when it is invoked and one when it completes. So a controller that is killed leaves the
operations that were in flight as open ones, and they become ``info``: nobody knows how they ended. Rows of the other tables
(:data:`TABLES`) are one record each; a fault is recorded before it acts and again when it is verified and healed, and its last
record counts.

Rows are appended from any thread and written by one: every 100 ms, or when 5,000 wait. A crash loses at most what was not
written then. ``flush`` writes at once: for a fault, before it acts.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from clusters.evidence.schema import LIFECYCLE, QUORUM_SAMPLES
from workloads.history.operation import Completion, FaultRow, Invocation, Phase, Status
from workloads.history.schema import FAULTS
from workloads.journal_frames import encode_frame, encode_header, segment_path
from workloads.problem import Problem

PHASES = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("started_ns", pa.int64(), nullable=False),
        pa.field("ended_ns", pa.int64()),
    ]
)
NOTES = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("ts_ns", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)
TABLES = {
    "faults": FAULTS,
    "quorum_samples": QUORUM_SAMPLES,
    "lifecycle": LIFECYCLE,
    "phases": PHASES,
    "notes": NOTES,
}
"""Tables besides ``operations`` that a journal holds."""

INVOKED = 1
COMPLETED = 2
ROW = 3
CLOSED = 4
"""Kinds of records: the first element of each."""

FLUSH_INTERVAL_S = 0.1
FLUSH_ROWS = 5_000
SEGMENT_BYTES = 64 * 1024 * 1024


class Journal:
    """The writer of one run's journal; safe to append to from any thread."""

    def __init__(
        self,
        directory: Path,
        run_id: str,
        *,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        flush_rows: int = FLUSH_ROWS,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Begin a journal. Raises :class:`Problem` when one is there already or the folder cannot be written."""
        self._directory = directory
        self._run_id = run_id
        self._flush_interval_s = flush_interval_s
        self._flush_rows = flush_rows
        self._segment_bytes = segment_bytes
        self._encode = msgspec.msgpack.Encoder().encode
        self._pending: deque[tuple[Any, ...]] = deque()
        self._append = self._pending.append
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._failure: Problem | None = None
        self._closed = False
        self._segment = 0
        self._frame = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._open_segment()
        except FileExistsError:
            raise Problem(
                "history-exists",
                f"{directory} holds a journal already.",
                "A run never continues another one's history.",
            ) from None
        except OSError as error:
            raise self._unwritable(error) from error
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def invoked(
        self,
        op_id: int,
        process: int,
        node: str | None,
        pinned: bool,
        invocation: Invocation,
        *,
        phase: Phase,
        at_ns: int,
    ) -> None:
        """Record that an operation is about to be sent."""
        self._put(
            (
                INVOKED,
                op_id,
                process,
                node,
                pinned,
                invocation.f,
                invocation.key,
                invocation.input,
                at_ns,
                invocation.consistency,
                phase,
            )
        )

    def completed(self, op_id: int, completion: Completion, at_ns: int) -> None:
        """Record how an operation ended. An info operation never completes, so its time is not kept."""
        self._put(
            (
                COMPLETED,
                op_id,
                completion.status,
                completion.output,
                completion.error,
                None if completion.status is Status.INFO else at_ns,
                completion.offset,
                completion.epoch,
                completion.node,
            )
        )

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Record a row of one of :data:`TABLES`, without its ``run_id``. Raises ValueError for a wrong column."""
        check_row(table, row)
        self._put((ROW, table, dict(row)))

    def fault(self, row: FaultRow) -> None:
        """Record a fault as it stands now; the last record of a fault counts."""
        self.append("faults", {name: getattr(row, name) for name in FaultRow.__dataclass_fields__})

    def note(self, at_ns: int, text: str) -> None:
        """Record a sentence for people."""
        self.append("notes", {"ts_ns": at_ns, "text": text})

    def flush(self) -> None:
        """Write all that was appended before the call. Raises :class:`Problem` when that fails."""
        with self._writing:
            while self._pending:
                self._write_batch()

    def close(self) -> None:
        """Write what is left, mark the end and close. Appending afterwards raises ValueError. May be called twice."""
        if self._closed:
            return
        self._append((CLOSED,))
        self._closed = True
        self._wake.set()
        self._thread.join()
        try:
            self.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def _put(self, record: tuple[Any, ...]) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise ValueError("the journal is closed")
        self._append(record)
        if len(self._pending) >= self._flush_rows:
            self._wake.set()

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(self._flush_interval_s)
            self._wake.clear()
            try:
                self.flush()
            except Problem:
                return

    def _write_batch(self) -> None:
        """Write one frame; the lock is held."""
        if self._failure is not None:
            raise self._failure
        pending = self._pending
        batch = [pending.popleft() for _ in range(min(len(pending), self._flush_rows))]
        frame = encode_frame(self._frame, self._encode(batch))
        try:
            _write(self._file, frame)
            self._frame += 1
            if self._file.tell() >= self._segment_bytes:
                os.fsync(self._file.fileno())
                self._file.close()
                self._segment += 1
                self._file = self._open_segment()
        except OSError as error:
            # What was written may be half a frame: nothing may ever be written behind it.
            self._failure = self._unwritable(error)
            raise self._failure from error

    def _open_segment(self) -> FileIO:
        file = segment_path(self._directory, self._segment).open("xb", buffering=0)
        _write(file, encode_header(self._run_id, self._segment))
        return file

    def _unwritable(self, error: OSError) -> Problem:
        return Problem(
            "history-unwritable",
            f"The journal in {self._directory} cannot be written: {error}.",
            "Free space there or name another folder with --store; what was written can be checked.",
        )


def _write(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def check_row(table: str, row: Mapping[str, Any]) -> None:
    """Raise ValueError unless the row has the columns of its table and a value in each that needs one."""
    schema = TABLES.get(table)
    if schema is None:
        raise ValueError(f"the journal holds no table {table!r}, only {', '.join(TABLES)}")
    unknown = row.keys() - set(schema.names)
    if unknown:
        raise ValueError(f"the table {table} has no column {', '.join(sorted(unknown))}")
    missing = [
        field.name for field in schema if not field.nullable and field.name != "run_id" and row.get(field.name) is None
    ]
    if missing:
        raise ValueError(f"a row of {table} needs {', '.join(missing)}")
