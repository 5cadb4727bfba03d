"""Check ``linearizable``: the answers of all operations that promise it are those of one object, used by one client at a time.

Property. For each register, log and counter of a run there is one order of its operations that keeps real time and in which
each answer is the one that the object gives. An order over many objects exists iff one exists for each.

Evidence. Table ``operations``, rows with ``consistency = linearizable``. Rows marked ``stale`` are ``committed-reads``' business.

Predicate. By object, with the kernel that fits (``checker.kernels.objects``): known positions for logs and counters ("no operation
began after another had finished and yet stands before it"), blocks for registers with unique values, the bounded search for
everything else. Operations of unknown outcome may take effect at any later time, or never; failed ones never do.

Requirements. R650-22: linearizability itself. R650-23, 25, 26 and X650-1, 2, 3, 5 are rules whose breach shows here as an outcome.

Blind spots. An answer is only judged if a client got it. A lost write that nobody reads afterwards is ``acknowledged-lost``'s. A
failed compare-and-set is dropped: that it found another value is not held against the candidate. Values in polls are compared
with each other and with the disks by ``log-positions``. Where the search meets its bound the answer is *unknown*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from checker.check import FINDINGS, FINDINGS_DDL, Check, anomaly_row, tally_row
from checker.verdict import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

ANOMALIES_PER_OBJECT_MAX = 3
"""one object that went wrong contradicts itself again and again: the earliest contradictions say it"""

ANOMALIES_PER_TASK_MAX = 300

ROWS_PER_TASK = 250_000
"""a task below it costs more to start than to run"""

_FLAT = """
    SELECT run_id, op_id, process, client_node, f, key, status, error, invoked_ns, completed_ns,
           get(input, 0) AS asked, get(input, 1) AS asked_more, get(output, 0) AS answer,
           CASE WHEN f = 'poll' THEN output END AS shown, offset
    FROM operations
    WHERE consistency = 'linearizable' AND f IN ('read', 'write', 'cas', 'append', 'poll', 'add', 'register')
"""


def task_count(tables: Tables, table: str = "operations") -> int:
    """How many tasks a kernel over this table is worth."""
    rows = sum(run.rows.get(table, 0) for run in tables.runs)
    return max(1, min(tables.session.sparkContext.defaultParallelism * 2, -(-rows // ROWS_PER_TASK)))


def find(tables: Tables) -> DataFrame:
    """Give each task whole objects, and judge all objects of a task at once."""
    from checker.arrow import map_in_arrow

    initial_values = {run_id: dict(manifest.initial_values) for run_id, manifest in tables.manifests.items()}
    flat = tables.sql(_FLAT)
    whole_objects = (
        flat.repartition(task_count(tables), "run_id", "key") if task_count(tables) > 1 else flat.coalesce(1)
    )
    return map_in_arrow(whole_objects, judge_batches(initial_values), FINDINGS_DDL)


def judge_batches(
    initial_values: Mapping[str, Mapping[str, int]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that runs in the executors."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if held:
            rows = judge_table(pa.Table.from_batches(held), initial_values)
            yield pa.RecordBatch.from_pylist(rows, FINDINGS)

    return judge


def judge_table(flat: pa.Table, initial_values: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Judge whole objects, given in the columns of ``checker.kernels.objects``: rows of ``checker.check.FINDINGS``."""
    import numpy as np

    from checker.kernels.findings import Broken
    from checker.kernels.objects import history_of, judge_history
    from checker.kernels.search import Budget
    from checker.witness.explain import Case, explain, named_operation

    if flat.num_rows == 0:
        return []
    history = history_of(flat, initial_values)
    judged = judge_history(history, Budget())
    case = Case(history, judged)
    rows: list[dict[str, Any]] = []
    unknown: dict[str, str] = {}
    for finding in _earliest(case):
        run_id = flat["run_id"][int(judged.found.rows[finding].max())].as_py()
        if judged.found.kind[finding] == Broken.OVERFLOW:
            operation = named_operation(case, int(judged.found.rows[finding][0]))
            unknown[run_id] = f"the search for an order ran out of its bounds at {operation}"
            continue
        witness = explain(case, finding)
        rows.append(
            anomaly_row(
                run_id,
                subject=witness.subject,
                message=witness.sentence,
                operations=tuple(row["op_id"] for row in witness.rows),
                witness=witness.rows,
            )
        )
    exercised = np.zeros(flat.num_rows, dtype=np.int64)
    exercised[judged.exercised] = 1
    counts = flat.select(["run_id"]).append_column("exercised", pa.array(exercised))
    for run in counts.group_by("run_id").aggregate([("exercised", "sum"), ("exercised", "count")]).to_pylist():
        run_id = run["run_id"]
        rows.append(
            tally_row(
                run_id,
                evidence_rows=run["exercised_count"],
                exercised=run["exercised_sum"],
                unknown=unknown.get(run_id),
            )
        )
    return rows


def _earliest(case: Any) -> list[int]:
    """The first findings of each object by the time of their last operation, few of each."""
    import numpy as np

    history, judged = case
    rows = judged.found.rows
    if not len(rows):
        return []
    began = np.where(rows >= 0, history.invoked[rows], np.iinfo(np.int64).min).max(axis=1)
    segment = history.segment[rows.max(axis=1)]
    order = np.lexsort((began, segment))
    starts = np.flatnonzero(np.concatenate(([True], np.diff(segment[order]) != 0)))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return [int(number) for number in order[rank < ANOMALIES_PER_OBJECT_MAX][:ANOMALIES_PER_TASK_MAX]]


LINEARIZABLE = Check(
    name="linearizable",
    kind=Kind.SAFETY,
    requirement="R650-22, X650-1, X650-2, X650-3, X650-5",
    title="Clients saw one object: each answer fits one order of all operations that keeps real time.",
    situation="answers to operations that began after a change of the same object was acknowledged",
    needs=(("operations",),),
    promises=("linearizable-operations",),
    find=find,
    runs_python=True,
)
