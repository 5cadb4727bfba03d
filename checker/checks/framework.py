"""Whether the run can carry a verdict at all. What is found here makes it *unknown*, never *invalid*.

*faults-happened*. Every fault that was due was verified; as many isolations, faults, leader changes and operations on the cut-off
side as the scenario needs. In a run that was stopped, faults that were not yet due are *not reached*, which is no finding.

*evidence-complete*. What the candidate promised as evidence is there (:mod:`checker.gate`), no stored state was unreadable but on a
disk that a fault of the run had damaged before, no event was told in words that nobody understands, and the run came to its end.

*not-starved*. No finding of liveness was suspended because the controller stalled or a node lacked CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.checks.recovery import say_recovery, share_recoveries
from checker.checks.resignation import share_resignations
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, node_of, seconds, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_FAULT = witness("faults", "fault_id", "fault", "targets", "planned_ns", "started_ns", "ended_ns", "verified", "detail")

_HAPPENED = """
due AS (
    SELECT f.*, r.load_ended_ns, r.interrupted OR NOT r.finished AS stopped
    FROM faults AS f INNER JOIN runs AS r ON r.run_id = f.run_id
),
cut_off_operations AS (
    SELECT f.run_id, count(DISTINCT o.op_id) AS operations, count(DISTINCT CASE WHEN o.status = 'ok' THEN o.op_id END) AS ok
    FROM (SELECT run_id, started_ns, ended_ns, explode(isolated) AS node FROM faults WHERE verified) AS f
    INNER JOIN operations AS o
        ON o.run_id = f.run_id AND o.client_node = f.node AND o.invoked_ns >= f.started_ns AND o.invoked_ns <= f.ended_ns
    GROUP BY f.run_id
),
leader_epochs AS (
    SELECT run_id, count(DISTINCT epoch) - 1 AS changes
    FROM (
        SELECT run_id, epoch FROM quorum_samples WHERE claims_leadership
        UNION ALL
        SELECT run_id, epoch FROM events WHERE kind = 'state' AND state = 'leader'
        UNION ALL
        SELECT run_id, epoch FROM disk WHERE kind = 'leader_change'
    )
    GROUP BY run_id
),
happened AS (
    SELECT r.run_id, r.needs,
           map('faults', coalesce(f.faults, 0), 'isolations', coalesce(f.isolations, 0),
               'leader_changes', coalesce(l.changes, 0), 'cut_off_operations', coalesce(c.operations, 0)) AS counts,
           coalesce(f.planned, 0) AS planned, coalesce(f.faults, 0) AS faults,
           coalesce(c.operations, 0) AS cut_off, coalesce(c.ok, 0) AS cut_off_ok
    FROM runs AS r
    LEFT JOIN (
        SELECT run_id, count(*) AS planned, count_if(verified) AS faults,
               count_if(verified AND size(isolated) > 0) AS isolations
        FROM faults GROUP BY run_id
    ) AS f ON f.run_id = r.run_id
    LEFT JOIN leader_epochs AS l ON l.run_id = r.run_id
    LEFT JOIN cut_off_operations AS c ON c.run_id = r.run_id
)"""


def _find_happened(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_HAPPENED,
        anomalies=f"""
            SELECT run_id, concat('fault ', fault_id) AS subject, NULL AS epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   array({_FAULT}) AS witness
            FROM due
            WHERE (verified IS NOT NULL AND NOT verified AND NOT (stopped AND started_ns IS NULL))
               OR (verified IS NULL AND NOT stopped AND planned_ns <= coalesce(load_ended_ns, planned_ns))
            UNION ALL
            SELECT run_id, concat('needs ', need), NULL, NULL, NULL,
                   to_json(struct(need, needed, coalesce(counts[need], 0) AS counted)), array()
            FROM (SELECT run_id, counts, explode(needs) AS (need, needed) FROM happened)
            WHERE coalesce(counts[need], 0) < needed""",
        tally="""
            SELECT run_id, planned AS evidence_rows, faults AS exercised, NULL AS unknown,
                   map('isolations', CAST(counts['isolations'] AS DOUBLE), 'cut_off_operations', CAST(cut_off AS DOUBLE),
                       'cut_off_operations_ok', CAST(cut_off_ok AS DOUBLE)) AS metrics
            FROM happened""",
    )


_NEED = {
    "faults": "faults that were verified",
    "isolations": "verified isolations",
    "leader_changes": "changes of leader",
    "cut_off_operations": "operations on the cut-off side",
}


def _say_happened(finding: Finding) -> str:
    if not finding.witness:
        facts = finding.facts
        return f"The scenario needs {facts['needed']} {_NEED.get(facts['need'], facts['need'])}; there were {facts['counted']}."
    (row,) = finding.witness
    what = f"Fault {row['fault_id']} ({row['fault']}), planned{at(row['planned_ns'])},"
    if row.get("started_ns") is None:
        return f"{what} was due and never began."
    return f"{what} was not verified: {row.get('detail') or 'nothing was seen of it'}."


FAULTS_HAPPENED = Check(
    name="faults-happened",
    kind=Kind.FRAMEWORK,
    requirement="architecture: faults are verified",
    title="The planned faults took effect, and clients met them.",
    situation="faults that were verified",
    needs=(("faults",), ("operations",)),
    find=_find_happened,
    sentence=_say_happened,
)

_STORED = witness("quorum_states", "node", "collection", "incarnation", "ts_ns", "problem")
_UNREAD = witness("node_events", "node", "incarnation", "seq", "ts_ns", "kind", "detail")


def _find_complete(tables: Tables) -> DataFrame:
    return tables.findings(
        anomalies=f"""
            SELECT run_id, concat(node, ' copy ', collection) AS subject, NULL AS epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   array({_STORED}) AS witness
            FROM stored_states AS s
            LEFT ANTI JOIN lifecycle AS d
                ON d.run_id = s.run_id AND d.node = s.node AND d.kind IN ('damage', 'restore') AND d.ts_ns <= s.ts_ns
            WHERE problem IS NOT NULL
            UNION ALL
            SELECT run_id, concat('events of ', node, ' incarnation ', incarnation), NULL, NULL, {NO_ANOMALY_COLUMNS}, array({_UNREAD})
            FROM events WHERE kind = 'problem'""",
        tally="""
            SELECT r.run_id, count(c.run_id) AS evidence_rows, count(c.run_id) AS exercised,
                   CASE WHEN NOT max(r.finished)
                        THEN 'the controller ended before the run did: what came later, final reads among it, is not recorded'
                   END AS unknown, NULL AS metrics
            FROM runs AS r LEFT JOIN copies AS c ON c.run_id = r.run_id
            GROUP BY r.run_id""",
    )


def _say_complete(finding: Finding) -> str:
    (row,) = finding.witness
    if row["table"] == "node_events":
        return f"Not all that {node_of(row)} said of itself is understood: {row['detail']}."
    return f"What {row['node']} had on its disk (copy {row['collection']}) cannot be read: {row['problem']}."


EVIDENCE_COMPLETE = Check(
    name="evidence-complete",
    kind=Kind.FRAMEWORK,
    requirement="architecture: promised evidence",
    title="All evidence that the candidate promised is there and readable.",
    situation="copies of a node's disk that were read",
    needs=(("operations",), ("faults",), ("lifecycle",)),
    find=_find_complete,
    sentence=_say_complete,
)


def _find_starved(tables: Tables) -> DataFrame:
    sample = witness("quorum_samples", "node", "asked_ns", "ts_ns", "epoch", alias="b")
    share_resignations(tables)
    share_recoveries(tables)
    return tables.findings(
        anomalies=f"""
            SELECT b.run_id, concat(b.node, ' isolated at ', min(b.started_ns)) AS subject, max(b.epoch) AS epoch, NULL AS offset,
                   NULL AS operations,
                   to_json(struct('leader-resigns' AS check, max(b.asked_ns - b.started_ns) AS after_ns)) AS facts,
                   array(max_by({sample}, b.asked_ns)) AS witness
            FROM breaches AS b
            INNER JOIN runs AS r ON r.run_id = b.run_id AND array_contains(r.promises, 'check-quorum')
            GROUP BY b.run_id, b.node, b.chain
            HAVING bool_or(b.is_suspended) AND NOT bool_or(b.is_breach)
            UNION ALL
            SELECT run_id, concat('recovery of ', breach), NULL, NULL, NULL,
                   to_json(struct('recovery' AS check, breach, limit_ns, leader_ns - healed_ns AS leader_after_ns,
                                  ok_ns - healed_ns AS ok_after_ns, tried, final_tried)),
                   array(last_try)
            FROM recoveries WHERE breach IS NOT NULL AND finished AND is_excused""",
        tally="""
            SELECT r.run_id, count(l.run_id) AS evidence_rows, max(size(r.stalls)) + count(l.run_id) AS exercised, NULL AS unknown,
                   map('stalls', CAST(max(size(r.stalls)) AS DOUBLE), 'starved', CAST(count(l.run_id) AS DOUBLE)) AS metrics
            FROM runs AS r LEFT JOIN lifecycle AS l ON l.run_id = r.run_id AND l.kind = 'starved'
            GROUP BY r.run_id""",
    )


def _say_starved(finding: Finding) -> str:
    if finding.facts["check"] == "recovery":
        return f"{say_recovery(finding)} But the controller stalled or a node lacked CPU in that time, so this is no finding."
    (row,) = finding.witness
    return (
        f"{row['node']} still answered as leader of epoch {row['epoch']} {seconds(finding.facts['after_ns'])} after it was cut off, but "
        "the controller stalled or the node lacked CPU in that time, so this is no finding."
    )


NOT_STARVED = Check(
    name="not-starved",
    kind=Kind.FRAMEWORK,
    requirement="architecture: bounded liveness in good windows",
    title="No finding of liveness fell into a time without CPU.",
    situation="stalls of the controller and starvations of nodes",
    needs=(("lifecycle",),),
    find=_find_starved,
    sentence=_say_starved,
)
