"""A follower that was cut off comes back and disturbs nobody: bounded liveness, for candidates that promise pre-vote (KIP-996).

*no-disruption* (R650-3). Judged are faults that isolate only followers, for longer than any election timeout, and during and after
which nothing else happens to any node. The leader that was there, and answered as leader of the same epoch until the heal, is still
the leader of that epoch afterwards: until the next fault, or as long as the returned node needs to stand for election. A leader
that had resigned may raise the epoch once, so a node that was cut off as leader shortly before is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import seconds, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_SAMPLE = witness("quorum_samples", "node", "asked_ns", "ts_ns", "epoch", "high_watermark", alias="s")
_FAULT = witness(
    "faults", "fault_id", "fault", "links", "isolated", "started_ns", "ended_ns", "leader", "leader_epoch", alias="i"
)

_KEPT = """
ordered AS (
    SELECT f.run_id, f.fault_id, f.fault, f.links, f.isolated, f.started_ns, f.ended_ns, f.leader, f.leader_epoch, f.verified,
           f.replaced, r.voters, r.election_timeout_ms * 1000000 AS election_ns,
           (2 * r.election_timeout_ms + r.fetch_timeout_ms) * 1000000 AS settled_ns,
           lead(f.started_ns) OVER in_order AS next_started_ns,
           coalesce(lag(f.replaced) OVER in_order, false) AS replaces,
           lag(f.ended_ns) OVER in_order AS previous_ended_ns,
           lag(CASE WHEN array_contains(f.isolated, f.leader) OR array_contains(f.targets, f.leader)
                    THEN array_union(f.isolated, f.targets) ELSE array() END) OVER in_order AS leaders_side_before
    FROM faults AS f INNER JOIN runs AS r ON r.run_id = f.run_id
    WHERE f.started_ns IS NOT NULL
    WINDOW in_order AS (PARTITION BY f.run_id ORDER BY f.started_ns)
),
returns AS (
    SELECT *, least(coalesce(next_started_ns, ended_ns + settled_ns), ended_ns + settled_ns) AS until_ns
    FROM ordered
    WHERE verified AND size(links) > 0 AND NOT replaced AND NOT replaces
      AND leader IS NOT NULL AND NOT array_contains(isolated, leader) AND arrays_overlap(isolated, voters)
      AND ended_ns - started_ns > settled_ns
      AND NOT coalesce(arrays_overlap(leaders_side_before, isolated) AND started_ns - previous_ended_ns < settled_ns, false)
),
moments AS (
    SELECT run_id, ts_ns FROM lifecycle WHERE kind NOT IN ('format', 'start')
    UNION ALL
    SELECT run_id, stall.to_ns FROM runs LATERAL VIEW explode(stalls) AS stall
),
judged AS (
    SELECT i.run_id, i.fault_id
    FROM returns AS i
    INNER JOIN quorum_samples AS s
        ON s.run_id = i.run_id AND s.claims_leadership AND s.error IS NULL
       AND s.asked_ns >= i.started_ns AND s.ts_ns <= i.ended_ns
    GROUP BY i.run_id, i.fault_id
    HAVING max_by(s.epoch, s.ts_ns) = max(i.leader_epoch) AND max(s.epoch) = max(i.leader_epoch)
),
kept AS (
    SELECT i.*
    FROM returns AS i
    LEFT SEMI JOIN judged AS j ON j.run_id = i.run_id AND j.fault_id = i.fault_id
    LEFT ANTI JOIN moments AS m
        ON m.run_id = i.run_id AND m.ts_ns >= i.started_ns - i.election_ns AND m.ts_ns <= i.until_ns
)"""


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_KEPT,
        anomalies=f"""
            SELECT i.run_id, concat('heal at ', i.ended_ns) AS subject, min(s.epoch) AS epoch, NULL AS offset, NULL AS operations,
                   to_json(struct(min(s.ts_ns) - i.ended_ns AS after_ns)) AS facts,
                   array(min({_FAULT}), min_by({_SAMPLE}, s.ts_ns)) AS witness
            FROM kept AS i
            INNER JOIN quorum_samples AS s
                ON s.run_id = i.run_id AND s.claims_leadership AND s.error IS NULL AND s.epoch > i.leader_epoch
               AND s.ts_ns > i.ended_ns AND s.ts_ns <= i.until_ns
            GROUP BY i.run_id, i.fault_id, i.ended_ns""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(*) AS exercised, NULL AS unknown, NULL AS metrics
            FROM kept GROUP BY run_id""",
    )


def _say(finding: Finding) -> str:
    fault, sample = finding.witness
    came = " and ".join(fault["isolated"])
    who = "it had to win a new election" if sample["node"] == fault["leader"] else f"{sample['node']} leads instead"
    return (
        f"{came}, cut off for {seconds(fault['ended_ns'] - fault['started_ns'])}, came back and disturbed {fault['leader']}, which had "
        f"led epoch {fault['leader_epoch']} with its majority all the time: {seconds(finding.facts['after_ns'])} after the heal the "
        f"epoch is {sample['epoch']} and {who}."
    )


NO_DISRUPTION = Check(
    name="no-disruption",
    kind=Kind.LIVENESS,
    requirement="R650-3, KIP-996",
    title="A follower that was cut off comes back without disturbing the leader.",
    situation="returns of a follower that was cut off from a leader that kept its majority",
    needs=(("quorum_samples",), ("faults",), ("lifecycle",)),
    promises=("pre-vote",),
    find=_find,
    sentence=_say,
)
