"""A leader that is cut off resigns: bounded liveness. A breach says that something took too long, never that data was lost.

*leader-resigns* (S853-14, R650-2, KAFKA-15489). An **isolation** of a node is the time in which verified faults cut so many of the
links *into* it that fewer than a majority of the voters, itself counted, can reach it; isolations that replace each other without
healing are one. Where voters are added and removed, only a node that is cut off from everybody counts. A node that answers as leader
to a question asked later than 2 × check-quorum after the begin of its isolation breaks the bound. The bound begins anew when the
node is resumed or started, and after each moment in which the controller stalled or the node was starved: what it did then is
nobody's fault. A clock that a fault set back may take as long as it was set back to reach any time again, and of one that drifts or
strobes nothing can be said: the bound begins when that is over.

An answer that breaks the bound only if stalls and starvation are not excused is *suspended*: :mod:`checker.checks.framework` tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import SET_BACK_NS, at, seconds, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_SAMPLE = witness("quorum_samples", "node", "asked_ns", "ts_ns", "epoch", "high_watermark", alias="s")
_ISOLATIONS = """
cut_off AS (
    SELECT f.run_id, f.fault_id, f.fault, f.links, f.isolated, f.started_ns, f.ended_ns, f.leader, f.leader_epoch, f.replaced, node,
           r.voters, r.check_quorum_ms, r.fetch_timeout_ms,
           lag(f.replaced AND size(f.links) > 0) OVER faults_of_node AS continues_before, lag(f.fault_id) OVER faults_of_node
               AS previous_fault
    FROM faults AS f
    INNER JOIN runs AS r ON r.run_id = f.run_id
    LATERAL VIEW explode(r.voters) AS node
    WHERE f.verified AND size(f.links) > 0
      AND 2 * (1 + size(filter(r.voters, v -> v <> node AND NOT array_contains(f.links, concat(v, '>', node)))))
          <= size(r.voters)
      AND (NOT r.voters_change OR f.isolated = array(node))
    WINDOW faults_of_node AS (PARTITION BY f.run_id, node ORDER BY f.started_ns)
),
chained AS (
    SELECT *, sum(CASE WHEN continues_before AND previous_fault = fault_id - 1 THEN 0 ELSE 1 END)
        OVER (PARTITION BY run_id, node ORDER BY started_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS chain
    FROM cut_off
),
isolations AS (
    SELECT run_id, node, chain, min(started_ns) AS started_ns, max(ended_ns) AS ended_ns,
           min_by(struct(fault_id, fault, links, isolated), started_ns) AS first,
           min_by(leader, started_ns) AS leader, min_by(leader_epoch, started_ns) AS leader_epoch,
           max(check_quorum_ms) * 2000000 AS bound_ns, max(fetch_timeout_ms) * 1000000 AS fetch_ns, max(voters) AS voters
    FROM chained
    GROUP BY run_id, node, chain
)"""

_RESIGNATIONS = f"""
{_ISOLATIONS},
clocks AS (
    SELECT run_id, node, ts_ns,
           CASE WHEN detail LIKE 'unsteady%' THEN lead(ts_ns, 1, CAST(9223372036854775807 AS BIGINT))
                    OVER (PARTITION BY run_id, node ORDER BY ts_ns)
                ELSE ts_ns + {SET_BACK_NS} END AS until_ns
    FROM lifecycle WHERE kind = 'clock'
),
excuses AS (
    SELECT run_id, node, ts_ns, ts_ns AS until_ns, kind IN ('resume', 'start') AS is_fault FROM lifecycle
    WHERE kind IN ('resume', 'start', 'starved')
    UNION ALL
    SELECT run_id, node, ts_ns, until_ns, true FROM clocks
    UNION ALL
    SELECT run_id, node, stall.to_ns, stall.to_ns, false
    FROM runs LATERAL VIEW explode(stalls) AS stall LATERAL VIEW explode(voters) AS node
),
late_answers AS (
    SELECT i.run_id, i.node, i.chain, s.epoch, s.asked_ns, s.ts_ns, s.high_watermark,
           max(CASE WHEN e.is_fault THEN least(e.until_ns, s.ts_ns) END) AS last_fault_ns,
           max(CASE WHEN e.ts_ns IS NOT NULL THEN least(e.until_ns, s.ts_ns) END) AS last_excuse_ns,
           min(i.started_ns) AS started_ns, min(i.bound_ns) AS bound_ns
    FROM isolations AS i
    INNER JOIN quorum_samples AS s
        ON s.run_id = i.run_id AND s.node = i.node AND s.claims_leadership AND s.error IS NULL
       AND s.asked_ns > i.started_ns + i.bound_ns AND s.ts_ns <= i.ended_ns
    LEFT JOIN excuses AS e
        ON e.run_id = i.run_id AND e.node = i.node AND e.until_ns > i.started_ns AND e.ts_ns <= s.ts_ns
    GROUP BY i.run_id, i.node, i.chain, s.epoch, s.asked_ns, s.ts_ns, s.high_watermark
),
breaches AS (
    SELECT *, asked_ns > coalesce(last_excuse_ns, started_ns) + bound_ns AS is_breach,
           asked_ns > coalesce(last_fault_ns, started_ns) + bound_ns AS is_suspended
    FROM late_answers
)"""


def share_resignations(tables: Tables) -> None:
    """Make the views ``isolations`` and ``breaches``, which other checks use too."""
    tables.share(_RESIGNATIONS, leaves=("isolations", "breaches"))


def _find_resigns(tables: Tables) -> DataFrame:
    share_resignations(tables)
    return tables.findings(
        anomalies=f"""
            SELECT i.run_id, concat(i.node, ' isolated at ', i.started_ns) AS subject, max(s.epoch) AS epoch, NULL AS offset,
                   NULL AS operations,
                   to_json(struct(min(i.bound_ns) AS bound_ns, max(s.asked_ns) - min(i.started_ns) AS after_ns,
                                  min(i.voters) AS voters)) AS facts,
                   array(min(to_json(struct('faults' AS table, i.first.fault_id, i.first.fault, i.first.links, i.first.isolated,
                                            i.started_ns, i.ended_ns, i.leader, i.leader_epoch))),
                         max_by({_SAMPLE}, s.asked_ns)) AS witness
            FROM isolations AS i
            INNER JOIN breaches AS s ON s.run_id = i.run_id AND s.node = i.node AND s.chain = i.chain AND s.is_breach
            GROUP BY i.run_id, i.node, i.chain, i.started_ns""",
        tally="""
            SELECT i.run_id, sum(coalesce(s.answers, 0)) AS evidence_rows,
                   count_if(i.ended_ns - i.started_ns > i.bound_ns AND (i.leader = i.node OR s.claims > 0)) AS exercised,
                   NULL AS unknown, NULL AS metrics
            FROM isolations AS i
            LEFT JOIN (
                SELECT i.run_id, i.node, i.chain, count(*) AS answers, count_if(s.claims_leadership) AS claims
                FROM isolations AS i
                INNER JOIN quorum_samples AS s
                    ON s.run_id = i.run_id AND s.node = i.node AND s.asked_ns >= i.started_ns AND s.ts_ns <= i.ended_ns
                GROUP BY i.run_id, i.node, i.chain
            ) AS s ON s.run_id = i.run_id AND s.node = i.node AND s.chain = i.chain
            GROUP BY i.run_id""",
    )


def _say_resigns(finding: Finding) -> str:
    fault, sample = finding.witness
    node = sample["node"]
    away = [link.split(">")[0] for link in fault["links"] if link.endswith(f">{node}")]
    voters = [voter for voter in away if voter in finding.facts["voters"]]
    return (
        f"{node} could hear nothing of {', '.join(voters)} from {fault['started_ns'] / 1e9:.3f} s on, and still answered as leader of "
        f"epoch {sample['epoch']} {seconds(finding.facts['after_ns'])} later{at(sample['ts_ns'])}; it must resign within "
        f"{seconds(finding.facts['bound_ns'])} (2 × check-quorum)."
    )


LEADER_RESIGNS = Check(
    name="leader-resigns",
    kind=Kind.LIVENESS,
    requirement="S853-14, R650-2, KAFKA-15489",
    title="A leader that is cut off from a majority stops leading in time.",
    situation="isolations of a leader that lasted longer than the bound",
    needs=(("quorum_samples",), ("faults",), ("lifecycle",)),
    promises=("check-quorum",),
    find=_find_resigns,
    sentence=_say_resigns,
)
