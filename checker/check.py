"""What a check is, and the one schema in which checks answer.

A check is a plain value: its name, what it verifies, what it needs, and a function from :class:`checker.tables.Tables` to
*one* DataFrame of :data:`FINDINGS`. Such a frame holds two kinds of rows, so that all checks of all runs are one union and
one Spark job:

* ``row = 'anomaly'``: one thing that went wrong. ``witness`` are at most six JSON objects, each with the key ``table``.
  ``message`` is the sentence; where it is null, :attr:`Check.sentence` makes it in Python from the few collected rows.
  ``facts`` is a JSON object with what the sentence needs besides the witness.
* ``row = 'tally'``: what was looked at. Any number a run: ``evidence_rows`` and ``exercised`` are summed, ``metrics`` merged by
  maximum, and any ``unknown`` (a reason in words, e.g. a bound that was met) makes the verdict *unknown*.

A check never decides whether it may judge: :mod:`checker.gate` does, from the manifest and the tables that are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from checker.verdict import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

ANOMALY = "anomaly"
TALLY = "tally"

WITNESS_ROWS_MAX = 6

FINDINGS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),  # anomaly or tally
        pa.field("subject", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("operations", pa.list_(pa.int64())),
        pa.field("message", pa.string()),
        pa.field("facts", pa.string()),
        pa.field("witness", pa.list_(pa.string())),
        pa.field("evidence_rows", pa.int64()),
        pa.field("exercised", pa.int64()),
        pa.field("unknown", pa.string()),
        pa.field("metrics", pa.map_(pa.string(), pa.float64())),
    ]
)
"""The Arrow schema of a check's answer; kernels that run in ``mapInArrow`` yield batches of exactly this."""

FINDINGS_DDL = (
    "run_id string, row string, subject string, epoch int, offset bigint, operations array<bigint>, message string, "
    "facts string, witness array<string>, evidence_rows bigint, exercised bigint, unknown string, metrics map<string,double>"
)
"""The same for Spark: ``map_in_arrow(frame, kernel, FINDINGS_DDL)`` of :mod:`checker.arrow`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One collected anomaly row, before its sentence is made."""

    run_id: str
    subject: str
    epoch: int | None
    offset: int | None
    operations: tuple[int, ...]
    facts: Mapping[str, Any]
    witness: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One property, as a value.

    ``needs`` is a conjunction of alternatives: of each inner tuple at least one table must have rows in a run
    (``faults`` may be empty), and none that the candidate promised may be missing; else the answer is *unknown*.
    ``promises`` must all be the candidate's, else the check is *not applicable*.
    """

    name: str
    kind: Kind
    requirement: str
    """requirement numbers, KIP or paper, e.g. ``R853-14, KIP-595``"""
    title: str
    """the property in one plain sentence, e.g. "No two nodes lead in one epoch." """
    situation: str
    """what ``exercised`` counts, in words, e.g. "epochs with a leader" """
    needs: tuple[tuple[str, ...], ...]
    find: Callable[[Tables], DataFrame]
    promises: tuple[str, ...] = ()
    withheld_by: tuple[str, ...] = ()
    """what a candidate's description may say that it does not offer, beside tables, and what this check cannot do without"""
    captured: bool = False
    """it looks at captured messages alone, and does not apply to runs in which nothing was captured"""
    sentence: Callable[[Finding], str] | None = None
    runs_python: bool = False
    """the plan starts Python workers (a kernel)"""


def tally_row(
    run_id: str,
    *,
    evidence_rows: int = 0,
    exercised: int = 0,
    unknown: str | None = None,
    metrics: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return a tally as a kernel yields it (a dict for ``pa.RecordBatch.from_pylist(rows, FINDINGS)``)."""
    return {
        "run_id": run_id,
        "row": TALLY,
        "evidence_rows": evidence_rows,
        "exercised": exercised,
        "unknown": unknown,
        "metrics": None if metrics is None else list(metrics.items()),
    }


def anomaly_row(
    run_id: str,
    *,
    subject: str,
    message: str | None = None,
    epoch: int | None = None,
    offset: int | None = None,
    operations: tuple[int, ...] = (),
    facts: Mapping[str, Any] | None = None,
    witness: tuple[Mapping[str, Any], ...] = (),
) -> dict[str, Any]:
    """Return an anomaly as a kernel yields it; witness rows beyond the sixth are dropped."""
    return {
        "run_id": run_id,
        "row": ANOMALY,
        "subject": subject,
        "epoch": epoch,
        "offset": offset,
        "operations": list(operations),
        "message": message,
        "facts": None if facts is None else json.dumps(facts),
        "witness": [json.dumps(dict(row)) for row in witness[:WITNESS_ROWS_MAX]],
    }
