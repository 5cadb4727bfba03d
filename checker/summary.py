"""What heads a verdict besides the checks: operations by outcome, faults, epochs with a leader. Collected in the same job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check
from checker.verdict import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_FIGURES = """
SELECT run_id, status AS name, count(*) AS figure FROM operations GROUP BY run_id, status
UNION ALL
SELECT run_id, 'faults', count(*) FROM faults WHERE started_ns IS NOT NULL GROUP BY run_id
UNION ALL
SELECT run_id, 'leader_epochs', count(DISTINCT epoch)
FROM (
    SELECT run_id, epoch FROM quorum_samples WHERE claims_leadership
    UNION ALL
    SELECT run_id, epoch FROM node_events WHERE kind = 'state' AND state = 'leader'
    UNION ALL
    SELECT run_id, epoch FROM log_entries WHERE kind = 'leader_change'
)
GROUP BY run_id
"""


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        anomalies="""
            SELECT run_id, '' AS subject, NULL AS epoch, NULL AS offset, NULL AS operations, NULL AS facts, NULL AS witness
            FROM runs WHERE false""",
        tally=f"""
            SELECT run_id, 0 AS evidence_rows, 0 AS exercised, NULL AS unknown,
                   map_from_entries(collect_list(struct(name, CAST(figure AS DOUBLE)))) AS metrics
            FROM ({_FIGURES}) GROUP BY run_id""",
    )


SUMMARY = Check(
    name="summary",
    kind=Kind.FRAMEWORK,
    requirement="",
    title="What happened in the run.",
    situation="",
    needs=(),
    find=_find,
)
