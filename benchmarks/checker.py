"""What judging costs: ``PYTHONPATH=. python benchmarks/checker.py [--small] [--no-spark]``.

Claims. Judging logs with known positions and registers with unique values costs time that grows linearly with the operations; Spark adds a
constant and then stays within a small factor of the same kernel in one process.

Measured in one run, medians of several repetitions, histories made by numpy (valid ones, so that nothing ends early). Times on a
busy machine mean little: read the ratios. ``kernel`` is the judging alone, on arrays; ``process`` adds reading Parquet and making arrays of
it, in this process; ``spark`` is the whole check ``linearizable`` as a job over the same Parquet file, session start not counted.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Python puts this file's folder first, where `checker` would be this file.
sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]

from checker.checks.linearizable import LINEARIZABLE, judge_table
from checker.kernels.objects import flatten, history_of, judge_history
from checker.kernels.search import Budget
from workloads.history.manifest import CandidateEntry, Manifest, Timers, encode_manifest
from workloads.history.schema import OPERATIONS

CONCURRENCY = 20
INFO_SHARE = 0.01
KEYS = 1000


class Cost(NamedTuple):
    """Median seconds of one stage."""

    name: str
    operations: int
    kernel_s: float
    process_s: float
    spark_s: float | None


def times(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Invocations, moments of effect and completions of ``CONCURRENCY`` clients that work without a pause."""
    effect = np.arange(count, dtype=np.int64) * 1000
    half = CONCURRENCY * 500
    return effect - rng.integers(1, half, count), effect, effect + rng.integers(1, half, count)


def lists(values: np.ndarray, present: np.ndarray) -> pa.Array:
    """One number a list where present, else an empty list."""
    offsets = np.concatenate(([0], np.cumsum(present))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[present]))


def log_history(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """One log: 60 of 100 operations append, the others poll its end."""
    invoked, _, completed = times(count, rng)
    appends = rng.random(count) < 0.6
    end = np.cumsum(appends)
    value = np.arange(count, dtype=np.int64)
    return {
        "f": np.where(appends, "append", "poll"),
        "key": pa.nulls(count, pa.int64()),
        "input": lists(np.where(appends, value, end), np.ones(count, dtype=np.bool_)),
        "output": lists(value, np.zeros(count, dtype=np.bool_)),
        "offset": np.where(appends, end - 1, end),
        "invoked": invoked,
        "completed": completed,
        "info": (rng.random(count) < INFO_SHARE) & appends,
    }


def register_history(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Many registers: half of the operations write unique values, the others read; some writes are of unknown outcome."""
    invoked, _, completed = times(count, rng)
    key = rng.integers(0, KEYS, count)
    writes = rng.random(count) < 0.5
    order = np.lexsort((np.arange(count), key))
    last = np.maximum.accumulate(np.where(writes[order], np.arange(count), -1))
    begins = np.maximum.accumulate(np.where(np.concatenate(([True], np.diff(key[order]) != 0)), np.arange(count), 0))
    seen = np.full(count, -1, dtype=np.int64)
    seen[order] = np.where(last >= begins, order[last], -1)
    return {
        "f": np.where(writes, "write", "read"),
        "key": pa.array(key),
        "input": lists(np.arange(count, dtype=np.int64), writes),
        "output": lists(seen, ~writes & (seen >= 0)),
        "offset": pa.nulls(count, pa.int64()),
        "invoked": invoked,
        "completed": completed,
        "info": (rng.random(count) < INFO_SHARE) & writes,
    }


def operations(columns: dict[str, Any], run_id: str) -> pa.Table:
    """The rows as the table ``operations``, in order of invocation."""
    count = len(columns["invoked"])
    info = columns["info"]
    offset = columns["offset"]
    if isinstance(offset, np.ndarray):
        offset = pa.array(offset, mask=info)
    constant = {
        "run_id": run_id,
        "client_node": "n1",
        "pinned": False,
        "error": None,
        "consistency": "linearizable",
        "phase": "load",
        "epoch": None,
    }
    arrays = {
        name: pa.repeat(pa.scalar(value, OPERATIONS.field(name).type), count) for name, value in constant.items()
    } | {
        "op_id": pa.array(np.arange(count)),
        "process": pa.array((np.arange(count) % CONCURRENCY).astype(np.int32)),
        "f": pa.array(columns["f"]),
        "key": columns["key"],
        "input": columns["input"],
        "output": columns["output"],
        "status": pa.array(np.where(info, "info", "ok")),
        "invoked_ns": pa.array(columns["invoked"]),
        "completed_ns": pa.array(columns["completed"], mask=info),
        "offset": offset,
    }
    table = pa.table([arrays[name] for name in OPERATIONS.names], schema=OPERATIONS)
    return table.take(pa.array(np.argsort(columns["invoked"], kind="stable")))


def store(folder: Path, columns: dict[str, Any]) -> Path:
    """Write a run that the check can be asked about."""
    (folder / "tables").mkdir(parents=True)
    run_id = f"benchmark/{folder.name}"
    pq.write_table(operations(columns, run_id), folder / "tables" / "operations.parquet", row_group_size=500_000)
    manifest = Manifest(
        run_id=run_id, scenario="benchmark", scenario_title="", seed=0, argv=(), started_at="2026-01-01T00:00:00Z",
        started_monotonic_ns=0, tool_version="", backend="", workload="", rate=1.0, concurrency=1, duration_s=1.0, nodes=(),
        timers=Timers(election_timeout_ms=1, fetch_timeout_ms=1, check_quorum_ms=1, request_timeout_ms=1),
        candidate=CandidateEntry(name="", version="", quorum="", promises=LINEARIZABLE.promises, evidence=(), generation=""),
    )  # fmt: skip
    (folder / "run.json").write_bytes(encode_manifest(manifest))
    return folder


def median_s(act: Callable[[], object], repetitions: int) -> float:
    """The median duration."""
    durations = []
    for _ in range(repetitions):
        began = time.perf_counter()
        act()
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


def in_process(folder: Path) -> None:
    """The check on one file, without Spark; it must find nothing."""
    rows = judge_table(flatten(pq.read_table(folder / "tables" / "operations.parquet")), {})
    if any(row["row"] == "anomaly" for row in rows):
        raise AssertionError(f"a legal history was convicted: {rows[0]}")


def in_spark(session: Any, folder: Path) -> None:
    """The check as a Spark job."""
    from checker.tables import open_tables, read_runs

    tables = open_tables(session, read_runs([folder]))
    try:
        rows = LINEARIZABLE.find(tables).collect()
    finally:
        tables.release()
    if [row["row"] for row in rows if row["row"] != "tally"]:
        raise AssertionError(f"a legal history was convicted: {rows[0]}")


def measure(name: str, count: int, session: Any, scratch: Path, repetitions: int) -> Cost:
    """One history through all stages."""
    make = register_history if name == "register" else log_history
    folder = store(scratch / f"{name}-{count}", make(count, np.random.default_rng(count)))
    history = history_of(flatten(pq.read_table(folder / "tables" / "operations.parquet")), {})
    kernel_s = median_s(lambda: judge_history(history, Budget()), repetitions)
    process_s = median_s(lambda: in_process(folder), repetitions)
    spark_s = None if session is None else median_s(lambda: in_spark(session, folder), repetitions)
    shutil.rmtree(folder)
    return Cost(name, count, kernel_s, process_s, spark_s)


HEADER = (
    f"{'history':<9}{'operations':>11}{'kernel s':>10}{'process s':>11}{'spark s':>9}   time an operation, smallest = 1:"
    f"{'kernel':>8}{'process':>9}{'spark':>7}   {'spark / process':>15}"
)


def line(cost: Cost, first: Cost) -> str:
    """Seconds, and time an operation relative to the smallest history of the kind."""
    scale = first.operations / cost.operations
    spark, growth, ratio = "–", "–", "–"
    if cost.spark_s is not None and first.spark_s is not None:
        spark = f"{cost.spark_s:.2f}"
        growth = f"{cost.spark_s / first.spark_s * scale:.2f}"
        ratio = f"{cost.spark_s / cost.process_s:.1f}"
    return (
        f"{cost.name:<9}{cost.operations:>11,}{cost.kernel_s:>10.3f}{cost.process_s:>11.3f}{spark:>9}   {'':32}"
        f"{cost.kernel_s / first.kernel_s * scale:>8.2f}{cost.process_s / first.process_s * scale:>9.2f}{growth:>7}   {ratio:>15}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="histories of a few thousand operations, for tests")
    parser.add_argument("--no-spark", action="store_true", help="only what runs in this process")
    parser.add_argument("--repetitions", type=int, default=3)
    chosen = parser.parse_args(arguments)
    sizes = [("log", 1_000), ("log", 10_000), ("register", 1_000), ("register", 10_000)]
    if not chosen.small:
        sizes = [
            ("log", 100_000),
            ("log", 1_000_000),
            ("log", 10_000_000),
            ("register", 100_000),
            ("register", 1_000_000),
        ]
    session = None
    scratch = Path(tempfile.mkdtemp(prefix="nemesis-benchmark-"))
    try:
        if not chosen.no_spark:
            from checker.session import start_session, warm_up

            session = start_session(fast_start=False)
            warm_up(session)
        for name in ("log", "register"):
            measure(name, 1_000, session, scratch / "warm", 1)
        print(HEADER, flush=True)
        smallest: dict[str, Cost] = {}
        for name, count in sizes:
            cost = measure(name, count, session, scratch, chosen.repetitions)
            print(line(cost, smallest.setdefault(name, cost)), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
