"""Runs on disk for tests of Spark checks: a manifest and two tables, judged by one check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from checker.check import Check
from checker.verdict import CheckResult
from clusters.evidence.schema import TABLES
from tests.histories import table
from workloads.history.manifest import CandidateEntry, Manifest, Timers, encode_manifest
from workloads.history.operation import Operation

PROMISES = ("linearizable-operations", "linearizable-reads", "check-quorum", "pre-vote", "directory-identity")


class Case(NamedTuple):
    """One run: what clients saw, and rows of other tables by their name."""

    operations: Sequence[Operation]
    evidence: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    initial_values: Mapping[str, int] = {}


def entry(
    node: str, offset: int, f: str | None, value: int | None, key: int | None = None, **more: Any
) -> dict[str, Any]:
    """A record on a node's final disk."""
    return {
        "node": node, "directory_id": f"dir-{node}", "collection": 0, "final": True, "partition": "log", "offset": offset,
        "epoch": 1, "kind": "data" if f else "leader_change", "checksum": hash((f, key, value)) & 0xFFFF, "f": f, "key": key,
        "value": value, **more,
    }  # fmt: skip


def on_all(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    """The same records on three nodes."""
    return [{**row, "node": node, "directory_id": f"dir-{node}"} for node in ("n1", "n2", "n3") for row in entries]


def store(folder: Path, case: Case) -> Path:
    """Write a run as the controller would."""
    run_id = f"test/{folder.name}"
    (folder / "tables").mkdir(parents=True)
    pq.write_table(table(tuple(case.operations), run_id), folder / "tables" / "operations.parquet")
    for name, rows in case.evidence.items():
        schema = TABLES[name]
        columns = {field.name: [{"run_id": run_id, **row}.get(field.name) for row in rows] for field in schema}
        pq.write_table(pa.table(columns, schema=schema), folder / "tables" / f"{name}.parquet")
    manifest = Manifest(
        run_id=run_id,
        scenario="test",
        scenario_title="a test",
        seed=1,
        argv=(),
        started_at="2026-01-01T00:00:00Z",
        started_monotonic_ns=0,
        tool_version="0",
        backend="local",
        candidate=CandidateEntry(
            name="reference", version="0", quorum="dynamic", promises=PROMISES, evidence=(), generation="kip-996"
        ),
        nodes=(),
        timers=Timers(election_timeout_ms=1000, fetch_timeout_ms=1000, check_quorum_ms=1500, request_timeout_ms=1000),
        workload="test",
        initial_values=dict(case.initial_values),
        rate=1.0,
        concurrency=1,
        duration_s=1.0,
    )
    (folder / "run.json").write_bytes(encode_manifest(manifest))
    return folder


def judge(session: Any, folder: Path, check: Check, cases: Mapping[str, Case]) -> dict[str, CheckResult]:
    """Judge many runs at once; the results by name."""
    from checker.run import check_runs

    verdicts = check_runs(session, [store(folder / name, case) for name, case in cases.items()], checks=[check])
    return {name: verdict.checks[0] for name, verdict in zip(cases, verdicts, strict=True)}
