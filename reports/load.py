"""A stored run as plain data: ``run.json``, ``verdict.json`` and ``tables/*.parquet``, read with pyarrow alone.

A report is a pure function of what is read here, so a stored run can be drawn again at any time. A table that is absent or
cannot be read is an empty one plus a warning that the page shows: only the manifest and the verdict are indispensable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from checker.verdict import SCHEMA_VERSION, RunVerdict
from clusters.evidence.schema import TABLES
from workloads.history.manifest import MANIFEST_VERSION, Manifest, decode_manifest
from workloads.history.operation import FaultRow, Status
from workloads.history.schema import FAULTS, OPERATIONS
from workloads.problem import Problem

OK, INFO, FAIL = range(3)
STATUSES = (Status.OK.value, Status.INFO.value, Status.FAIL.value)
"""outcomes in the order of their codes ``OK``, ``INFO``, ``FAIL``"""

NEVER = np.int64(-1)
"""``completed_ns`` of an operation that never completed"""

_OPERATION_COLUMNS = ("op_id", "process", "client_node", "pinned", "f", "status", "invoked_ns", "completed_ns", "phase")
_DRAWN_TABLES = ("log_entries", "node_events", "quorum_samples", "lifecycle", "snapshots", "rpcs")
_NOT_DRAWN = frozenset({"detail"})
"""of rpcs: whole messages, for those who read the table itself"""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class OperationColumns:
    """The operations as flat arrays in order of invocation, so that a million of them are drawn without a Python loop."""

    op_id: NDArray[np.int64]
    process: NDArray[np.int64]
    node: NDArray[np.int16]
    """index into ``nodes``, -1 where no node was asked"""
    nodes: tuple[str, ...]
    pinned: NDArray[np.bool_]
    f: NDArray[np.int16]
    """index into ``functions``"""
    functions: tuple[str, ...]
    status: NDArray[np.int16]
    """index into ``STATUSES``"""
    invoked_ns: NDArray[np.int64]
    completed_ns: NDArray[np.int64]
    """``NEVER`` where there was no completion"""
    phase: NDArray[np.int16]
    phases: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.op_id)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which of them have a latency: those whose outcome a client was told."""
        return np.asarray((self.completed_ns != NEVER) & (self.status != INFO), np.bool_)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Everything of one stored run that a page may show."""

    path: Path
    manifest: Manifest
    verdict: RunVerdict
    operations: OperationColumns
    faults: tuple[FaultRow, ...]
    tables: dict[str, pa.Table]
    """evidence tables by name, empty where nothing was stored"""
    warnings: tuple[str, ...]


def read_run(run: Path) -> StoredRun:
    """Read the stored run in the folder ``run``.

    Raises :class:`workloads.problem.Problem` when there is no run, or when it was not checked yet.
    """
    manifest = read_manifest(run)
    verdict = read_verdict(run)
    warnings: list[str] = []
    operations = _read_table(run, "operations", OPERATIONS.names, OPERATIONS, warnings)
    faults = _read_table(run, "faults", FAULTS.names, FAULTS, warnings)
    tables = {name: _read_table(run, name, _drawn(name), TABLES[name], warnings) for name in _DRAWN_TABLES}
    return StoredRun(
        path=run,
        manifest=manifest,
        verdict=verdict,
        operations=operation_columns(operations),
        faults=_fault_rows(faults),
        tables=tables,
        warnings=tuple(warnings),
    )


def _drawn(table: str) -> list[str]:
    return [name for name in TABLES[table].names if table != "rpcs" or name not in _NOT_DRAWN]


def read_faults(run: Path) -> tuple[FaultRow, ...]:
    """The faults of a stored run, in order of time; none where the table cannot be read."""
    return _fault_rows(_read_table(run, "faults", FAULTS.names, FAULTS, []))


def read_manifest(run: Path) -> Manifest:
    """Read ``run.json``. Raises :class:`Problem` when it is absent, damaged or of a later version."""
    path = run / "run.json"
    manifest = _read_json(path, decode_manifest, "run-missing", "Name the folder of a stored run.")
    if manifest.manifest_version > MANIFEST_VERSION:
        raise Problem(
            "run-newer",
            f"{path} has version {manifest.manifest_version}, this nemesis reads up to {MANIFEST_VERSION}.",
            "Use the nemesis that wrote it, or a newer one.",
        )
    return manifest


class _Header(msgspec.Struct):
    schema_version: int = 1


def read_verdict(run: Path) -> RunVerdict:
    """Read ``verdict.json``. Raises :class:`Problem` when the run was not checked, or the file is damaged or newer."""
    path = run / "verdict.json"
    remedy = f"Check the run first: nemesis check {run}"
    header = _read_json(path, lambda data: msgspec.json.decode(data, type=_Header), "verdict-missing", remedy)
    if header.schema_version > SCHEMA_VERSION:
        raise Problem(
            "verdict-newer",
            f"{path} has schema_version {header.schema_version}, this nemesis reads up to {SCHEMA_VERSION}.",
            remedy,
        )
    return _read_json(path, lambda data: msgspec.json.decode(data, type=RunVerdict), "verdict-missing", remedy)


def _read_json(path: Path, decode: Callable[[bytes], _Read], slug: str, remedy: str) -> _Read:
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise Problem(slug, f"{path} cannot be read ({error.strerror}).", remedy) from error
    except msgspec.MsgspecError as error:
        raise Problem(slug.replace("missing", "damaged"), f"{path} is damaged: {error}.", remedy) from error


def _read_table(run: Path, name: str, columns: list[str], schema: pa.Schema, warnings: list[str]) -> pa.Table:
    path = run / "tables" / f"{name}.parquet"
    if not path.exists():
        if name in ("operations", "faults"):
            warnings.append(f"The table {name} is not in the store: nothing of it can be drawn.")
        return schema.empty_table()
    try:
        stored = pq.read_table(path, columns=[c for c in columns if c in pq.read_schema(path).names])
        missing = [c for c in columns if c not in stored.column_names]
        for column in missing:
            field = schema.field(column)
            stored = stored.append_column(field, pa.nulls(len(stored), field.type))
        return stored.select(columns).cast(pa.schema([schema.field(c).with_nullable(True) for c in columns]))
    except (OSError, pa.ArrowException, ValueError) as error:
        warnings.append(f"The table {name} cannot be read ({error}): nothing of it is drawn.")
        return schema.empty_table()


def _codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Texts as small numbers: (index of each, -1 for null; the distinct texts)."""
    encoded = column.combine_chunks().dictionary_encode() if len(column) else None
    if encoded is None:
        return np.empty(0, np.int16), ()
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int16)
    return indices, tuple(str(text) for text in encoded.dictionary.to_pylist())


def operation_columns(table: pa.Table) -> OperationColumns:
    """Turn the table ``operations`` into arrays, sorted by invocation."""
    table = table.select(_OPERATION_COLUMNS).sort_by("invoked_ns")

    def numbers(name: str) -> NDArray[np.int64]:
        filled = pc.fill_null(table[name].cast(pa.int64()), int(NEVER))
        return np.asarray(filled.to_numpy(), dtype=np.int64)

    status, words = _codes(table["status"])
    order = np.array([STATUSES.index(word) if word in STATUSES else INFO for word in words] or [INFO], np.int16)
    node, nodes = _codes(table["client_node"])
    f, functions = _codes(table["f"])
    phase, phases = _codes(table["phase"])
    return OperationColumns(
        op_id=numbers("op_id"),
        process=numbers("process"),
        node=node,
        nodes=nodes,
        pinned=np.asarray(pc.fill_null(table["pinned"], False).to_numpy(), dtype=np.bool_),
        f=f,
        functions=functions,
        status=order[status],
        invoked_ns=numbers("invoked_ns"),
        completed_ns=numbers("completed_ns"),
        phase=phase,
        phases=phases,
    )


def _fault_rows(table: pa.Table) -> tuple[FaultRow, ...]:
    rows = []
    for row in table.drop_columns(["run_id"]).to_pylist():
        lists: dict[str, Any] = {name: tuple(row[name] or ()) for name in ("targets", "links", "isolated")}
        rows.append(FaultRow(**{**row, **lists, "replaced": bool(row["replaced"]), "detail": row["detail"] or ""}))
    return tuple(sorted(rows, key=lambda fault: (_begin_ns(fault), fault.fault_id)))


def _begin_ns(fault: FaultRow) -> int:
    return fault.planned_ns if fault.started_ns is None else fault.started_ns
