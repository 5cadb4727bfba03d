"""A node that was cut off comes back and disturbs nobody: bounded liveness, for candidates that promise pre-vote (KIP-996).

*no-disruption* (R650-3, R650-7, R650-13), by two rules:

* While fewer than a majority of the voters can reach a node, nobody can have granted it enough pre-votes, so it does not stand as
  candidate (answers that were under way are given the fetch timeout). This needs no luck, and no excuse of starvation holds.
* Faults that isolate only followers, for longer than any election timeout: the leader that was there, and answered as leader of
  the same epoch until the heal (a leader that had lost its majority, since another voter was wiped before, would have resigned by
  then), is still the leader of that epoch afterwards, until the next fault or as long as the returned node needs to stand for
  election. Not judged where anything else happened to a node, where another fault was still in force when this one began, where a
  node starved after the heal, and where a node that was cut off as leader shortly before comes back (a resigned leader may raise
  the epoch once).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.checks.resignation import share_resignations
from checker.verdict import Kind
from checker.wording import at, seconds, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_SAMPLE = witness("quorum_samples", "node", "asked_ns", "ts_ns", "epoch", "high_watermark", alias="s")
_FAULT = witness(
    "faults", "fault_id", "fault", "links", "isolated", "started_ns", "ended_ns", "leader", "leader_epoch", alias="i"
)

_EVENT = witness(
    "node_events", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "state", "epoch", alias="e"
)

_KEPT = f"""
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
    SELECT run_id, ts_ns, kind = 'starved' AS is_excuse FROM lifecycle WHERE kind NOT IN ('format', 'start')
    UNION ALL
    SELECT run_id, stall.to_ns, true FROM runs LATERAL VIEW explode(stalls) AS stall
),
judged AS (
    SELECT i.run_id, i.fault_id
    FROM returns AS i
    INNER JOIN quorum_samples AS s
        ON s.run_id = i.run_id AND s.claims_leadership AND s.error IS NULL
       AND s.asked_ns >= i.started_ns AND s.ts_ns <= i.ended_ns
    GROUP BY i.run_id, i.fault_id
    HAVING max_by(s.epoch, s.ts_ns) = max(i.leader_epoch) AND max(s.epoch) = max(i.leader_epoch)
       AND max(s.ts_ns) >= max(i.ended_ns - i.election_ns / 2)
),
kept AS (
    SELECT i.*
    FROM returns AS i
    LEFT SEMI JOIN judged AS j ON j.run_id = i.run_id AND j.fault_id = i.fault_id
    LEFT ANTI JOIN ordered AS o
        ON o.run_id = i.run_id AND o.fault_id <> i.fault_id AND o.started_ns < i.started_ns
       AND coalesce(o.ended_ns, i.until_ns) > i.started_ns
    LEFT ANTI JOIN moments AS m
        ON m.run_id = i.run_id AND m.ts_ns <= i.until_ns
       AND m.ts_ns >= CASE WHEN m.is_excuse THEN i.ended_ns ELSE i.started_ns - i.election_ns END
),
candidates AS (
    SELECT i.run_id, i.node, i.chain, i.first, i.started_ns, i.ended_ns, i.leader, i.leader_epoch, e.epoch,
           e.ts_ns, {_EVENT} AS stood
    FROM isolations AS i
    INNER JOIN events AS e
        ON e.run_id = i.run_id AND e.node = i.node AND e.kind = 'state' AND e.state = 'candidate'
       AND e.ts_ns > i.started_ns + i.fetch_ns AND e.ts_ns <= i.ended_ns
)"""


def _find(tables: Tables) -> DataFrame:
    share_resignations(tables)
    return tables.findings(
        given=_KEPT,
        anomalies=f"""
            SELECT i.run_id, concat('heal at ', i.ended_ns) AS subject, min(s.epoch) AS epoch, NULL AS offset, NULL AS operations,
                   to_json(struct('disturbed' AS rule, min(s.ts_ns) - i.ended_ns AS after_ns)) AS facts,
                   array(min({_FAULT}), min_by({_SAMPLE}, s.ts_ns)) AS witness
            FROM kept AS i
            INNER JOIN quorum_samples AS s
                ON s.run_id = i.run_id AND s.claims_leadership AND s.error IS NULL AND s.epoch > i.leader_epoch
               AND s.ts_ns > i.ended_ns AND s.ts_ns <= i.until_ns
            GROUP BY i.run_id, i.fault_id, i.ended_ns
            UNION ALL
            SELECT run_id, concat(node, ' isolated at ', started_ns), min(epoch), NULL, NULL,
                   to_json(struct('stood' AS rule, node)),
                   array(min(to_json(struct('faults' AS table, first.fault_id, first.fault, first.links, first.isolated,
                                            started_ns, ended_ns, leader, leader_epoch))), min_by(stood, ts_ns))
            FROM candidates
            GROUP BY run_id, node, chain, started_ns""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(*) AS exercised, NULL AS unknown, NULL AS metrics
            FROM (
                SELECT run_id FROM kept
                UNION ALL
                SELECT i.run_id FROM isolations AS i
                LEFT SEMI JOIN (SELECT DISTINCT run_id, node FROM events WHERE kind = 'state') AS e
                    ON e.run_id = i.run_id AND e.node = i.node
                WHERE i.ended_ns - i.started_ns > 2 * i.fetch_ns
            )
            GROUP BY run_id""",
    )


def _say(finding: Finding) -> str:
    fault, sample = finding.witness
    if finding.facts["rule"] == "stood":
        after = seconds(sample["ts_ns"] - fault["started_ns"])
        return (
            f"{sample['node']} stood as candidate of epoch {sample['epoch']}{at(sample['ts_ns'])}, {after} after it was cut off: too few "
            "voters could reach it to grant it a pre-vote."
        )
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
    requirement="R650-3, R650-13, KIP-996",
    title="A node that was cut off stands for no election and comes back without disturbing the leader.",
    situation="isolations long enough to stand as candidate, and returns to a leader that had kept its majority",
    needs=(("quorum_samples",), ("faults",), ("lifecycle",)),
    promises=("pre-vote",),
    find=_find,
    sentence=_say,
)
