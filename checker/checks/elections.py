"""Who leads: one leader an epoch, and none that resumes.

*one-leader-per-epoch.* Claims that somebody leads an epoch, from whatever source, are facts that stay true: LeaderChange records,
transitions to leader, what followers learned, stored quorum states, answers given as the leader. No epoch may have claims for
two nodes, nor for two disks of one node. An error answer is no claim (Kafka's followers say leader 0, epoch 0), and a late answer
of a deposed leader carries its own, older epoch. What nodes tell each other counts too: BeginQuorumEpoch and EndQuorumEpoch are
sent by the epoch's leader, and answers to Vote, Fetch and the like name the leader of the epoch that they name.

*leader-not-resumed.* A leader that restarts comes back resigned (S853-2): no identity leads one epoch in two incarnations, unless a
fault has made it forget that it did (:mod:`checker.remembered`).

Blind: leaders that nobody saw and that wrote nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, disk_of, node_of, witness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from checker.tables import Tables

_EVENT = witness(
    "node_events", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "state", "epoch", "leader"
)

_LEADERSHIP = f"""
leadership AS (
    SELECT run_id, epoch, node AS leader, directory_id, 1 AS rank, {_EVENT} AS proof
    FROM events WHERE kind = 'state' AND state = 'leader'
    UNION ALL
    SELECT run_id, epoch, node, CAST(NULL AS STRING), 2,
           {witness("quorum_samples", "node", "asked_ns", "ts_ns", "epoch", "leader", "high_watermark")}
    FROM quorum_samples WHERE claims_leadership AND error IS NULL AND epoch IS NOT NULL
    UNION ALL
    SELECT run_id, epoch, leader, CAST(NULL AS STRING), 3,
           {witness("log_entries", "node", "collection", "offset", "epoch", "kind", "leader")}
    FROM disk WHERE kind = 'leader_change' AND leader IS NOT NULL
    UNION ALL
    SELECT run_id, epoch, leader, CAST(NULL AS STRING), 4, {_EVENT}
    FROM events WHERE kind IN ('state', 'start') AND leader IS NOT NULL AND leader <> node AND epoch IS NOT NULL
    UNION ALL
    SELECT run_id, epoch, leader, CAST(NULL AS STRING), 5,
           {witness("quorum_states", "node", "collection", "incarnation", "epoch", "leader")}
    FROM stored_states WHERE leader IS NOT NULL AND epoch IS NOT NULL
    UNION ALL
    SELECT run_id, epoch, leader, CAST(NULL AS STRING), 6,
           {witness("rpcs", "connection", "correlation_id", "kind", "ts_ns", "src", "dst", "api", "fate", "epoch", "leader", "error")}
    FROM rpcs WHERE leader IS NOT NULL AND epoch > 0 AND problem IS NULL
)"""


def _find_one_leader(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_LEADERSHIP,
        anomalies=f"""
            SELECT run_id, concat('epoch ', epoch) AS subject, epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   CASE WHEN min(leader) <> max(leader)
                        THEN array(min_by(proof, struct(leader, rank)), max_by(proof, struct(leader, -rank)))
                        ELSE array(min_by(proof, directory_id), max_by(proof, directory_id)) END AS witness
            FROM leadership
            GROUP BY run_id, epoch
            HAVING min(leader) <> max(leader) OR min(directory_id) <> max(directory_id)""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(DISTINCT epoch) AS exercised, NULL AS unknown, NULL AS metrics
            FROM leadership GROUP BY run_id""",
    )


def _named(row: Mapping[str, Any]) -> str:
    epoch = row["epoch"]
    if row["table"] == "quorum_samples":
        return f"{row['node']} answered as leader of epoch {epoch}{at(row.get('ts_ns'))}"
    if row["table"] == "log_entries":
        return f"the LeaderChange record at offset {row['offset']} on {disk_of(row)} names {row['leader']}"
    if row["table"] == "quorum_states":
        return f"the stored quorum state of {row['node']} (copy {row['collection']}) names {row['leader']}"
    if row["table"] == "rpcs":
        return f"{row['src']} told {row['dst']} in a {row['api']} {row['kind']}{at(row.get('ts_ns'))} that {row['leader']} leads it"
    if row.get("state") == "leader":
        return f"{node_of(row)} became leader of epoch {epoch}{at(row.get('ts_ns'))}"
    return f"{node_of(row)} learned that {row['leader']} leads epoch {epoch}{at(row.get('ts_ns'))}"


def _say_one_leader(finding: Finding) -> str:
    first, second = finding.witness
    return f"Epoch {finding.epoch} has two leaders: {_named(first)}, and {_named(second)}."


ONE_LEADER_PER_EPOCH = Check(
    name="one-leader-per-epoch",
    kind=Kind.SAFETY,
    requirement="R853-22, R853-28, KIP-595",
    title="No two nodes lead in one epoch.",
    situation="epochs with a leader",
    needs=(("log_entries", "node_events", "quorum_samples", "quorum_states", "rpcs"),),
    find=_find_one_leader,
    sentence=_say_one_leader,
)


def _find_not_resumed(tables: Tables) -> DataFrame:
    return tables.findings(
        given="led AS (SELECT * FROM remembered_events WHERE kind = 'state' AND state = 'leader')",
        anomalies=f"""
            SELECT run_id, concat(identity, ' epoch ', epoch) AS subject, epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   array(min_by({_EVENT}, struct(incarnation, seq)), max_by({_EVENT}, struct(incarnation, seq))) AS witness
            FROM led
            GROUP BY run_id, identity, promises_memory, epoch
            HAVING min(incarnation) <> max(incarnation)""",
        tally="""
            SELECT s.run_id, sum(s.events) AS evidence_rows, count(DISTINCT CASE WHEN l.identity IS NOT NULL THEN s.born END)
                       AS exercised, NULL AS unknown, NULL AS metrics
            FROM (
                SELECT run_id, identity, incarnation, struct(identity, incarnation) AS born, count(*) AS events
                FROM events WHERE kind IN ('state', 'start') GROUP BY run_id, identity, incarnation
            ) AS s
            LEFT JOIN (SELECT DISTINCT run_id, identity, incarnation FROM led) AS l
                ON l.run_id = s.run_id AND l.identity = s.identity AND l.incarnation + 1 = s.incarnation
            GROUP BY s.run_id""",
    )


def _say_not_resumed(finding: Finding) -> str:
    before, after = finding.witness
    return (
        f"{before['node']} led epoch {finding.epoch} in incarnation {before['incarnation']}{at(before.get('ts_ns'))}, was "
        f"restarted, and led the same epoch again in incarnation {after['incarnation']}{at(after.get('ts_ns'))}."
    )


LEADER_NOT_RESUMED = Check(
    name="leader-not-resumed",
    kind=Kind.SAFETY,
    requirement="S853-2",
    title="A leader that restarts does not lead the same epoch again.",
    situation="starts of a node that had led before",
    needs=(("node_events",),),
    find=_find_not_resumed,
    sentence=_say_not_resumed,
)
