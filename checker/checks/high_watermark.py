"""The high watermark: by whom and over what it moves, and what may be shown below it.

All but *high-watermark-monotone* read the nodes' own traces, in the order of each process (incarnation, sequence).

*high-watermark-own-epoch* (S853-9). The record just below a leader's new high watermark is of the leader's own epoch: records of
older epochs are committed only together with one of these (figure 8 of the Raft paper).

*high-watermark-supported* (R853-7, R853-31). When a leader moves its high watermark to *h*, a majority of the voters, counted by
full identity, has log ends of at least *h*: the leader itself, if it is a voter, and the peers whose fetches told so before, in
this epoch and incarnation. Observers and strangers do not count.

*high-watermark-monotone*. A leader's high watermark does not fall within its epoch. Answers are compared only where one had
arrived before the other was asked for. What a fault has made a node forget, it may lead again (:mod:`checker.remembered`).

*applied-below-high-watermark* (X650-5). What a state machine has applied, and what a read shows, is below the node's own high
watermark at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.remembered import damages
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, node_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_MOVE_COLUMNS = (
    "node",
    "directory_id",
    "incarnation",
    "seq",
    "ts_ns",
    "kind",
    "state",
    "epoch",
    "high_watermark",
    "previous_high_watermark",
    "entry_epoch",
    "voters",
)
_MOVE = witness("node_events", *_MOVE_COLUMNS)

_MOVES = "moves AS (SELECT * FROM events WHERE kind = 'high_watermark' AND state = 'leader')"


def _find_own_epoch(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_MOVES,
        anomalies=f"""
            SELECT run_id, concat(identity, ' epoch ', epoch) AS subject, epoch, high_watermark AS offset, {NO_ANOMALY_COLUMNS},
                   array({_MOVE}) AS witness
            FROM moves WHERE entry_epoch <> epoch""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(DISTINCT identity, epoch) AS exercised, NULL AS unknown,
                   NULL AS metrics
            FROM moves GROUP BY run_id""",
    )


def _say_own_epoch(finding: Finding) -> str:
    (row,) = finding.witness
    return (
        f"{node_of(row)}, leading epoch {row['epoch']}, moved its high watermark to {row['high_watermark']}{at(row.get('ts_ns'))} "
        f"although the record below it, at offset {row['high_watermark'] - 1}, is of epoch {row['entry_epoch']}."
    )


HIGH_WATERMARK_OWN_EPOCH = Check(
    name="high-watermark-own-epoch",
    kind=Kind.SAFETY,
    requirement="S853-9, Raft figure 8",
    title="A leader commits older epochs' records only together with one of its own.",
    situation="leaders that moved their high watermark",
    needs=(("node_events",),),
    promises=("node-trace",),
    find=_find_own_epoch,
    sentence=_say_own_epoch,
)

_SUPPORT = f"""
{_MOVES},
asked AS (
    SELECT run_id, identity, node, directory_id, incarnation, epoch, seq, high_watermark, voter, true AS is_move,
           CAST(NULL AS BIGINT) AS told
    FROM moves LATERAL VIEW explode(voters) AS voter
),
fetched AS (
    SELECT run_id, identity, node, directory_id, incarnation, epoch, seq, CAST(NULL AS BIGINT) AS high_watermark, voter,
           false AS is_move, offset AS told
    FROM events
    LATERAL VIEW explode(array_distinct(array(peer, concat_ws('/', peer, peer_directory_id)))) AS voter
    WHERE kind = 'fetch'
),
reached AS (
    SELECT *, max(told) OVER (PARTITION BY run_id, identity, incarnation, epoch, voter ORDER BY seq
                              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS log_end
    FROM (SELECT * FROM asked UNION ALL SELECT * FROM fetched)
),
support AS (
    SELECT run_id, identity, incarnation, epoch, seq, count(*) AS voters,
           count_if(voter IN (node, concat_ws('/', node, directory_id)) OR coalesce(log_end, -1) >= high_watermark) AS holders,
           array_sort(collect_list(concat(voter, ' ', CASE
               WHEN voter IN (node, concat_ws('/', node, directory_id)) THEN 'leads'
               WHEN log_end IS NULL THEN 'never fetched'
               ELSE concat('fetched up to ', log_end) END))) AS told
    FROM reached WHERE is_move
    GROUP BY run_id, identity, incarnation, epoch, seq, node, directory_id
)"""


def _find_supported(tables: Tables) -> DataFrame:
    move = witness("node_events", *_MOVE_COLUMNS, alias="m")
    return tables.findings(
        given=_SUPPORT,
        anomalies=f"""
            SELECT m.run_id, concat(m.identity, ' epoch ', m.epoch) AS subject, m.epoch, m.high_watermark AS offset,
                   NULL AS operations, to_json(struct(s.voters, s.holders, s.told)) AS facts, array({move}) AS witness
            FROM support AS s
            INNER JOIN moves AS m
                ON m.run_id = s.run_id AND m.identity = s.identity AND m.incarnation = s.incarnation AND m.seq = s.seq
            WHERE 2 * s.holders <= s.voters""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count_if(voters > 1) AS exercised, NULL AS unknown, NULL AS metrics
            FROM support GROUP BY run_id""",
    )


def _say_supported(finding: Finding) -> str:
    (row,) = finding.witness
    facts = finding.facts
    return (
        f"{node_of(row)}, leading epoch {row['epoch']}, moved its high watermark to {row['high_watermark']}{at(row.get('ts_ns'))} with "
        f"{facts['holders']} of {facts['voters']} voters holding the records ({', '.join(facts['told'])}): no majority."
    )


HIGH_WATERMARK_SUPPORTED = Check(
    name="high-watermark-supported",
    kind=Kind.SAFETY,
    requirement="R853-7, R853-31, S853-9",
    title="The high watermark moves only over what a majority of the voters holds.",
    situation="moves of a leader's high watermark",
    needs=(("node_events",),),
    promises=("node-trace",),
    find=_find_supported,
    sentence=_say_supported,
)

_SAMPLE = witness("quorum_samples", "node", "asked_ns", "ts_ns", "epoch", "high_watermark", alias="b")

_SERIES = f"""
series AS (
    SELECT run_id, identity AS who, promises_damaged, epoch, high_watermark, 'events' AS source,
           CAST(incarnation AS BIGINT) AS major, seq AS minor,
           CAST(NULL AS BIGINT) AS asked_ns, CAST(NULL AS BIGINT) AS ts_ns, {_MOVE} AS proof
    FROM remembered_events WHERE kind = 'high_watermark' AND state = 'leader'
    UNION ALL
    SELECT b.run_id, b.node, {damages("promises", "d.ts_ns <= b.ts_ns", identity="b.node")}, epoch, high_watermark, 'samples', ts_ns, 0,
           asked_ns, ts_ns, {_SAMPLE}
    FROM quorum_samples AS b LEFT JOIN damages AS m ON m.run_id = b.run_id AND m.node = b.node
    WHERE claims_leadership AND error IS NULL AND high_watermark >= 0
),
steps AS (
    SELECT *, lag(high_watermark) OVER steps AS previous, lag(ts_ns) OVER steps AS previous_ts_ns,
           lag(proof) OVER steps AS previous_proof
    FROM series
    WINDOW steps AS (PARTITION BY run_id, who, promises_damaged, epoch, source ORDER BY major, minor)
)"""


def _find_monotone(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_SERIES,
        anomalies=f"""
            SELECT run_id, concat(who, ' epoch ', epoch) AS subject, epoch, high_watermark AS offset, {NO_ANOMALY_COLUMNS},
                   array(previous_proof, proof) AS witness
            FROM steps
            WHERE high_watermark < previous AND (source = 'events' OR previous_ts_ns <= asked_ns)""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count_if(high_watermark <> previous) AS exercised, NULL AS unknown,
                   NULL AS metrics
            FROM steps GROUP BY run_id""",
    )


def _say_monotone(finding: Finding) -> str:
    before, after = finding.witness
    return (
        f"The high watermark of {before['node']}, leading epoch {finding.epoch}, fell from {before['high_watermark']}"
        f"{at(before.get('ts_ns'))} to {after['high_watermark']}{at(after.get('ts_ns'))}."
    )


HIGH_WATERMARK_MONOTONE = Check(
    name="high-watermark-monotone",
    kind=Kind.SAFETY,
    requirement="MonotonicHighWatermark, KAFKA-16530",
    title="A leader's high watermark does not fall within its epoch.",
    situation="times that a leader's high watermark was seen to move",
    needs=(("node_events", "quorum_samples"),),
    find=_find_monotone,
    sentence=_say_monotone,
)

_SHOWN = witness(
    "node_events",
    "node",
    "directory_id",
    "incarnation",
    "seq",
    "ts_ns",
    "kind",
    "offset",
    "required_offset",
    "high_watermark",
)


def _find_applied(tables: Tables) -> DataFrame:
    return tables.findings(
        given="shown AS (SELECT * FROM events WHERE kind IN ('apply', 'read', 'read_offset') AND offset IS NOT NULL)",
        anomalies=f"""
            SELECT run_id, concat(identity, ' ', kind) AS subject, NULL AS epoch, offset, {NO_ANOMALY_COLUMNS},
                   array({_SHOWN}) AS witness
            FROM shown WHERE offset > coalesce(high_watermark, 0)""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(*) AS exercised, NULL AS unknown, NULL AS metrics
            FROM shown GROUP BY run_id""",
    )


_DID = {
    "apply": "applied its log up to offset",
    "read": "answered a read from a state that goes up to offset",
    "read_offset": "answered ReadOffset with offset",
}


def _say_applied(finding: Finding) -> str:
    (row,) = finding.witness
    return (
        f"{node_of(row)} {_DID[row['kind']]} {row['offset']}{at(row.get('ts_ns'))} while its high watermark was "
        f"{row.get('high_watermark', 'unknown')}: not committed."
    )


APPLIED_BELOW_HIGH_WATERMARK = Check(
    name="applied-below-high-watermark",
    kind=Kind.SAFETY,
    requirement="X650-5, R650-23",
    title="State machines apply, and reads show, only what is committed.",
    situation="records applied and reads answered",
    needs=(("node_events",),),
    promises=("node-trace",),
    find=_find_applied,
    sentence=_say_applied,
)
