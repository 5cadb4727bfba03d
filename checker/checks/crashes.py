"""Processes end only when somebody ends them.

*no-crash*. A node that ends by itself has met a state that its own authors thought impossible (NoIllegalState), or an error that it
does not handle: Kafka halts on every fatal fault of its raft thread. Clients may notice nothing, since the others go on; whoever
releases it has to know all the same.

Not blamed: a process while or after a fault withheld its disk or its memory (``deprive``), and a process on a disk whose content a
fault has changed (``damage``, ``restore``): to end is then the right answer. A power cut excuses nothing, since what was synced is
there. A process ended by SIGKILL or SIGTERM that was not ours was ended by somebody else, as the kernel does when memory runs out;
where how it ended is not known, nothing is: both make the answer *unknown*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, node_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_CRASH = witness("lifecycle", "node", "directory_id", "incarnation", "kind", "ts_ns", "detail", alias="c")
_FATAL = witness("node_events", "node", "incarnation", "seq", "ts_ns", "kind", "epoch", "detail")

_CRASHES = f"""
crashes AS (
    SELECT c.run_id, c.node, c.incarnation, c.ts_ns, {_CRASH} AS proof, f.proof AS fatal,
           c.detail RLIKE '^exit status (-9|-15|137|143|None)($|;)' AS by_others
    FROM (SELECT * FROM lifecycle WHERE kind = 'crash') AS c
    LEFT ANTI JOIN (SELECT * FROM lifecycle WHERE kind IN ('damage', 'restore', 'deprive')) AS d
        ON d.run_id = c.run_id AND d.node = c.node AND d.ts_ns <= c.ts_ns
       AND CASE WHEN d.kind = 'deprive' THEN d.incarnation = c.incarnation ELSE d.directory_id <=> c.directory_id END
    LEFT JOIN (
        SELECT run_id, node, incarnation, max_by({_FATAL}, seq) AS proof
        FROM node_events WHERE kind = 'fatal' GROUP BY run_id, node, incarnation
    ) AS f ON f.run_id = c.run_id AND f.node = c.node AND f.incarnation = c.incarnation
)"""


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_CRASHES,
        anomalies=f"""
            SELECT run_id, concat(node, ' incarnation ', incarnation) AS subject, NULL AS epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   CASE WHEN fatal IS NULL THEN array(proof) ELSE array(proof, fatal) END AS witness
            FROM crashes WHERE NOT by_others""",
        tally="""
            SELECT l.run_id, count(*) AS evidence_rows, count_if(l.kind = 'start') AS exercised,
                   max(CASE WHEN c.by_others
                            THEN concat(c.node, ' was ended by somebody else, or it is not known how it ended (', l.detail, ')') END)
                       AS unknown, NULL AS metrics
            FROM lifecycle AS l
            LEFT JOIN crashes AS c
                ON c.run_id = l.run_id AND c.node = l.node AND c.incarnation = l.incarnation AND l.kind = 'crash' AND c.ts_ns = l.ts_ns
            GROUP BY l.run_id""",
    )


def _say(finding: Finding) -> str:
    crash, *fatal = finding.witness
    said = f" It said before: {fatal[0]['detail']}" if fatal and fatal[0].get("detail") else ""
    return f"{node_of(crash)} ended by itself{at(crash.get('ts_ns'))}, {crash['detail']}.{said}"


NO_CRASH = Check(
    name="no-crash",
    kind=Kind.LIVENESS,
    requirement="NoIllegalState (KIP-853, KIP-996)",
    title="No process ends by itself on a disk and a machine that do not fail.",
    situation="starts of a process",
    needs=(("lifecycle",),),
    find=_find,
    sentence=_say,
)
