"""Epochs: the epoch of an identity never falls, neither while it runs nor over its restarts (KIP-595, R650-5).

In the order of one identity's own events (incarnation, sequence) and of the copies of its disk. A wiped disk is another identity, and a
disk whose promises a fault has changed another memory (:mod:`checker.remembered`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, node_of, witness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from checker.tables import Tables

_EVENT = witness("node_events", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "state", "epoch")
_STORED = witness("quorum_states", "node", "directory_id", "incarnation", "collection", "ts_ns", "epoch")

_SEQUENCE = f"""
told AS (
    SELECT run_id, node, identity, promises_memory, 'events' AS source,
           CAST(incarnation AS BIGINT) AS major, seq AS minor, incarnation, epoch,
           {_EVENT} AS proof
    FROM remembered_events
    WHERE epoch IS NOT NULL
      AND (kind IN ('start', 'state') OR (kind = 'vote' AND granted AND NOT coalesce(pre_vote, false)))
    UNION ALL
    SELECT run_id, node, identity, promises_memory, 'states', CAST(collection AS BIGINT), 0, incarnation, epoch, {_STORED}
    FROM remembered_states
    WHERE epoch IS NOT NULL AND problem IS NULL
),
steps AS (
    SELECT *, lag(epoch) OVER steps AS previous_epoch, lag(proof) OVER steps AS previous_proof,
           lag(incarnation) OVER steps AS previous_incarnation
    FROM told
    WINDOW steps AS (PARTITION BY run_id, promises_memory, source ORDER BY major, minor)
)"""


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_SEQUENCE,
        anomalies=f"""
            SELECT run_id, concat(identity, ' epoch ', epoch) AS subject, epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   array(previous_proof, proof) AS witness
            FROM steps WHERE epoch < previous_epoch""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows,
                   count_if(epoch <> previous_epoch OR incarnation <> previous_incarnation) AS exercised,
                   NULL AS unknown, NULL AS metrics
            FROM steps GROUP BY run_id""",
    )


def _place(row: Mapping[str, Any]) -> str:
    if row["table"] == "quorum_states":
        return f"its disk in copy {row['collection']} says epoch {row['epoch']}"
    return f"incarnation {row['incarnation']} was in epoch {row['epoch']}{at(row.get('ts_ns'))}"


def _say(finding: Finding) -> str:
    before, after = finding.witness
    return f"The epoch of {node_of({'node': before['node']})} fell: {_place(before)}, and after that {_place(after)}."


EPOCH_MONOTONE = Check(
    name="epoch-monotone",
    kind=Kind.SAFETY,
    requirement="KIP-595, R853-28, R650-5",
    title="The epoch of an identity never falls.",
    situation="changes of epoch, and restarts",
    needs=(("node_events", "quorum_states"),),
    find=_find,
    sentence=_say,
)
