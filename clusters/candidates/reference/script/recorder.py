"""What a play leaves behind, laid down as a stored run is: nodes' files and traces as they wrote them, the rest as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from clusters.collect.collection import Collection
from clusters.evidence.schema import TABLES
from workloads.history.manifest import Manifest, encode_manifest
from workloads.history.operation import FaultRow, Operation
from workloads.history.schema import FAULTS, OPERATIONS

_COLLECTION_FILE = "collection.json"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A play that is over: a manifest, and every table that a stored run has."""

    manifest: Manifest
    tables: dict[str, pa.Table]
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class _Trace:
    """The trace of one incarnation."""

    node: str
    directory_id: str
    incarnation: int
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Recorder:
    """Collects while a play goes on."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _traces: list[_Trace] = field(default_factory=list)
    _trace_lines: list[tuple[_Trace, bytes]] = field(default_factory=list)
    _collections: list[tuple[Collection, dict[str, bytes]]] = field(default_factory=list)

    def add(self, table: str, **row: Any) -> None:
        """Add a row that the controller of a real run would write."""
        self.rows.setdefault(table, []).append(row)

    def open_trace(self, node: str, directory_id: str, incarnation: int) -> Callable[[bytes], None]:
        """The file that a server writes its trace to."""
        trace = _Trace(node, directory_id, incarnation)
        self._traces.append(trace)

        def write(data: bytes) -> None:
            trace.data += data
            self._trace_lines.append((trace, data))

        return write

    def events(self) -> list[dict[str, Any]]:
        """The rows of all nodes' traces in the order in which they were written."""
        found = []
        for trace, data in self._trace_lines:
            for line in data.splitlines():
                row = msgspec.json.decode(line)
                if "kind" in row:
                    who = {"node": trace.node, "directory_id": trace.directory_id, "incarnation": trace.incarnation}
                    found.append(who | row)
        return found

    def collect(
        self,
        node: str,
        directory_id: str,
        files: dict[str, bytes],
        *,
        incarnation: int,
        number: int,
        ts_ns: int,
        final: bool,
        reason: str,
    ) -> None:
        """Keep a copy of a node's files, as a collector does at each kill, stop and wipe."""
        collection = Collection(
            node=node,
            directory_id=directory_id,
            assigned=False,
            incarnation=incarnation,
            number=number,
            ts_ns=ts_ns,
            final=final,
            reason=reason,
        )
        self._collections.append((collection, files))

    def write_run(self, run: Path, manifest: Manifest) -> None:
        """Lay down ``run.json``, traces and collections as a real run does."""
        run.mkdir(parents=True, exist_ok=True)
        (run / "run.json").write_bytes(encode_manifest(manifest))
        for trace in self._traces:
            _write(run / "nodes" / trace.node / "trace" / f"{trace.incarnation}.jsonl", bytes(trace.data))
        for collection, files in self._collections:
            folder = run / "nodes" / collection.node / "collections" / str(collection.number)
            _write(folder / _COLLECTION_FILE, msgspec.json.encode(collection))
            for path, data in files.items():
                _write(folder / path, data)

    def tables(self, run_id: str, operations: Iterable[Operation], faults: Iterable[FaultRow]) -> dict[str, pa.Table]:
        """The tables that the controller writes, and those rows that no node left."""
        made = {name: _table(run_id, rows, TABLES[name]) for name, rows in self.rows.items()}
        made["operations"] = _table(run_id, [_plain(operation) for operation in operations], OPERATIONS)
        made["faults"] = _table(run_id, [_plain(fault) for fault in faults], FAULTS)
        return made


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _plain(row: Operation | FaultRow) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(row).items()}


def _table(run_id: str, rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    full = [dict.fromkeys(schema.names) | row | {"run_id": run_id} for row in rows]
    return pa.Table.from_pylist(full, schema=schema)
