"""The cluster comes back after healing: bounded liveness.

*recovery*. Within the run's limit after the last fault was healed, somebody answers as leader and an operation succeeds; and of the
final operations, if any were tried, at least one succeeds. The limit begins when every clock that a fault set back has reached the
time again that it had shown before: what waits for a wall clock waits for so long. A run that was stopped before its heal is not
judged. A breach in a window with a stall of the controller or a starved node is *suspended*: :mod:`checker.checks.framework` tells of
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import SET_BACK_NS, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_RECOVERIES = f"""
healed AS (
    SELECT r.run_id, greatest(coalesce(r.heal_ended_ns, r.heal_started_ns), coalesce(c.caught_up_ns, 0)) AS healed_ns,
           r.recovery_limit_ms * 1000000 AS limit_ns, r.finished
    FROM runs AS r
    LEFT JOIN (
        SELECT run_id, max(ts_ns + {SET_BACK_NS}) AS caught_up_ns
        FROM lifecycle WHERE kind = 'clock' GROUP BY run_id
    ) AS c ON c.run_id = r.run_id
    WHERE r.heal_started_ns IS NOT NULL
),
first_leader AS (
    SELECT h.run_id, min(s.ts_ns) AS leader_ns
    FROM healed AS h INNER JOIN quorum_samples AS s
        ON s.run_id = h.run_id AND s.claims_leadership AND s.error IS NULL AND s.asked_ns >= h.healed_ns
    GROUP BY h.run_id
),
afterwards AS (
    SELECT h.run_id, count(*) AS tried, count_if(o.phase = 'final') AS final_tried,
           count_if(o.phase = 'final' AND o.status = 'ok') AS final_ok,
           min(CASE WHEN o.status = 'ok' THEN o.completed_ns END) AS ok_ns,
           max_by(to_json(struct('operations' AS table, o.op_id, o.process, o.client_node, o.f, o.status, o.error, o.invoked_ns,
                                 o.completed_ns)), o.invoked_ns) AS last_try
    FROM healed AS h INNER JOIN operations AS o
        ON o.run_id = h.run_id AND o.phase IN ('recovery', 'final') AND o.invoked_ns >= h.healed_ns
    GROUP BY h.run_id
),
excused AS (
    SELECT DISTINCT h.run_id
    FROM healed AS h
    INNER JOIN (
        SELECT run_id, ts_ns FROM lifecycle WHERE kind = 'starved'
        UNION ALL
        SELECT run_id, stall.to_ns FROM runs LATERAL VIEW explode(stalls) AS stall
    ) AS m ON m.run_id = h.run_id AND m.ts_ns BETWEEN h.healed_ns AND h.healed_ns + h.limit_ns
),
recoveries AS (
    SELECT h.run_id, h.healed_ns, h.limit_ns, h.finished, l.leader_ns, a.tried, a.ok_ns, a.final_tried, a.final_ok, a.last_try,
           e.run_id IS NOT NULL AS is_excused,
           CASE WHEN coalesce(l.leader_ns > h.healed_ns + h.limit_ns, true) THEN 'leader'
                WHEN a.tried > 0 AND coalesce(a.ok_ns > h.healed_ns + h.limit_ns, true) THEN 'operations'
                WHEN a.final_tried > 0 AND a.final_ok = 0 THEN 'final' END AS breach
    FROM healed AS h
    LEFT JOIN first_leader AS l ON l.run_id = h.run_id
    LEFT JOIN afterwards AS a ON a.run_id = h.run_id
    LEFT JOIN excused AS e ON e.run_id = h.run_id
)"""

_PHASE = "to_json(struct('phases' AS table, 'heal' AS name, healed_ns AS ended_ns))"


def share_recoveries(tables: Tables) -> None:
    """Make the view ``recoveries``, which another check uses too."""
    tables.share(_RECOVERIES, leaves=("recoveries",))


def _find(tables: Tables) -> DataFrame:
    share_recoveries(tables)
    return tables.findings(
        anomalies=f"""
            SELECT run_id, concat('recovery of ', breach) AS subject, NULL AS epoch, NULL AS offset, NULL AS operations,
                   to_json(struct(breach, limit_ns, leader_ns - healed_ns AS leader_after_ns, ok_ns - healed_ns AS ok_after_ns,
                                  tried, final_tried)) AS facts,
                   array({_PHASE}, last_try) AS witness
            FROM recoveries WHERE breach IS NOT NULL AND finished AND NOT is_excused""",
        tally="""
            SELECT run_id, coalesce(tried, 0) AS evidence_rows, count_if(tried > 0) OVER (PARTITION BY run_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS exercised,
                   CASE WHEN finished AND tried IS NULL THEN 'no operation was tried after healing' END AS unknown,
                   map('leader_after_s', (leader_ns - healed_ns) / 1e9, 'operation_after_s', (ok_ns - healed_ns) / 1e9) AS metrics
            FROM recoveries""",
    )


def say_recovery(finding: Finding) -> str:
    """The sentence of a breach."""
    facts = finding.facts
    limit = seconds(facts["limit_ns"])
    breach = facts["breach"]
    if breach == "leader":
        late = (
            f"the first one {seconds(facts['leader_after_ns'])} after it"
            if "leader_after_ns" in facts
            else "not one ever"
        )
        return f"Nobody answered as leader within {limit} after the last fault was healed: {late}."
    if breach == "operations":
        late = f"the first one {seconds(facts['ok_after_ns'])} after it" if "ok_after_ns" in facts else "not one ever"
        return (
            f"No operation succeeded within {limit} after the last fault was healed: {late}, of {facts['tried']} tried."
        )
    return f"None of the {facts['final_tried']} final operations succeeded."


RECOVERY = Check(
    name="recovery",
    kind=Kind.LIVENESS,
    requirement="EventuallyLeaderElected, ValuesEventuallyAcked",
    title="After healing a leader is elected and operations succeed.",
    situation="heals after which operations were tried",
    needs=(("operations",), ("quorum_samples",)),
    find=_find,
    sentence=say_recovery,
)
