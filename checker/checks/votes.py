"""Votes: one an epoch, kept over restarts, and only for candidates that are not behind.

*one-vote-per-epoch.* Granted votes (pre-votes are none), a candidate's vote for itself, what is stored, and what was said: the granting
answer on its way, whether it arrived or not, and a candidate's request, which says that it votes for itself. No voter has votes for
two candidates in one epoch. The voter is the pair of node and directory id where the candidate promises identities, else
the node. Here and below, nobody is held to what a fault has changed on its disk (:mod:`checker.remembered`); a power cut changes
nothing that was synced.

*vote-durable* (S853-1). Copies of ``quorum-state`` taken after a process ended, and what the next incarnation recovered, against what
the process had done: the epoch is not lower than the highest it had entered, and while the epoch's leader is not known the
vote is there (Kafka drops the vote on disk once it is: that is no loss, a known leader forbids further votes; a candidate that
promises ``durable-votes`` keeps it all the same). A file that cannot be read says nothing, unless a fault of the run had damaged
it. What a process did last before a kill may not have been stored yet, and no other node can have seen it: such a row is not used.

*vote-up-to-date* (S853-4, R650-12). A vote or pre-vote goes to a candidate whose last (epoch, end offset) is not behind the voter's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checker.check import Check, Finding
from checker.remembered import damages
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, node_of, witness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from checker.tables import Tables

_VOTE = witness(
    "node_events",
    "node",
    "directory_id",
    "incarnation",
    "seq",
    "ts_ns",
    "kind",
    "epoch",
    "peer",
    "peer_directory_id",
    "granted",
)
_STATE = witness(
    "node_events",
    "node",
    "directory_id",
    "incarnation",
    "seq",
    "ts_ns",
    "kind",
    "state",
    "epoch",
    "voted_for",
    "leader",
)
_STORED = witness(
    "quorum_states", "node", "directory_id", "incarnation", "collection", "ts_ns", "epoch", "voted_for", "leader"
)

_SAID = witness(
    "rpcs",
    "connection",
    "correlation_id",
    "kind",
    "ts_ns",
    "src",
    "dst",
    "api",
    "fate",
    "asked_epoch",
    "epoch",
    "replica",
    "replica_directory_id",
    "voter_directory_id",
    "granted",
    alias="v",
)

_CAST_VOTES = f"""
cast_votes AS (
    SELECT run_id, node, identity, epoch, peer, peer_directory_id, 1 AS rank, {_VOTE} AS proof, promises_damaged,
           CAST(NULL AS BIGINT) AS said_ns
    FROM remembered_events WHERE kind = 'vote' AND granted AND NOT coalesce(pre_vote, false) AND peer IS NOT NULL
    UNION ALL
    SELECT run_id, node, identity, epoch, node, directory_id, 2, {_STATE}, promises_damaged, NULL
    FROM remembered_events WHERE kind = 'state' AND state = 'candidate'
    UNION ALL
    SELECT run_id, node, identity, epoch, voted_for, CAST(NULL AS STRING), 3, {_STATE}, promises_damaged, NULL
    FROM remembered_events WHERE kind IN ('start', 'state') AND voted_for IS NOT NULL
    UNION ALL
    SELECT run_id, node, identity, epoch, voted_for, voted_for_directory_id, 4, {_STORED}, promises_damaged, NULL
    FROM remembered_states WHERE voted_for IS NOT NULL
    UNION ALL
    SELECT v.run_id, v.src, concat_ws('/', v.src, CASE v.kind WHEN 'request' THEN v.replica_directory_id ELSE v.voter_directory_id END),
           CASE v.kind WHEN 'request' THEN v.epoch ELSE v.asked_epoch END, v.replica, v.replica_directory_id, 5, {_SAID},
           CAST(NULL AS INT), v.ts_ns
    FROM rpcs AS v
    LEFT ANTI JOIN lifecycle AS l
        ON l.run_id = v.run_id AND l.node = v.src AND l.kind = 'wipe' AND v.voter_directory_id IS NULL
    WHERE v.api = 'Vote' AND NOT coalesce(v.pre_vote, false) AND v.replica IS NOT NULL AND v.problem IS NULL
      AND (v.kind = 'request' AND v.replica = v.src OR v.kind = 'response' AND v.granted)
),
voters AS (
    SELECT b.*, CASE WHEN array_contains(r.promises, 'directory-identity') THEN b.identity ELSE b.node END AS voter,
           coalesce(b.promises_damaged, {damages("promises", "d.ts_ns <= b.said_ns")}) AS forgot
    FROM cast_votes AS b
    INNER JOIN runs AS r ON r.run_id = b.run_id
    LEFT JOIN damages AS m ON m.run_id = b.run_id AND m.node = b.node
)"""


def _find_one_vote(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_CAST_VOTES,
        anomalies=f"""
            SELECT run_id, concat(voter, ' epoch ', epoch) AS subject, epoch, NULL AS offset, {NO_ANOMALY_COLUMNS},
                   CASE WHEN min(peer) <> max(peer)
                        THEN array(min_by(proof, struct(peer, rank)), max_by(proof, struct(peer, -rank)))
                        ELSE array(min_by(proof, peer_directory_id), max_by(proof, peer_directory_id)) END AS witness
            FROM voters
            GROUP BY run_id, voter, forgot, epoch
            HAVING min(peer) <> max(peer) OR min(peer_directory_id) <> max(peer_directory_id)""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(DISTINCT voter, epoch) AS exercised, NULL AS unknown, NULL AS metrics
            FROM voters GROUP BY run_id""",
    )


def _vote_of(row: Mapping[str, Any]) -> str:
    if row["table"] == "quorum_states":
        return f"its stored quorum state (copy {row['collection']}) says {row['voted_for']}"
    if row["table"] == "rpcs":
        if row["kind"] == "request":
            return f"it asked {row['dst']} for its vote{at(row.get('ts_ns'))}, a candidate itself"
        disk = f"/{row['replica_directory_id'][:6]}" if row.get("replica_directory_id") else ""
        return f"it answered {row['dst']}{at(row.get('ts_ns'))} that it votes for {row['replica']}{disk}"
    if row.get("kind") == "vote":
        disk = f"/{row['peer_directory_id'][:6]}" if row.get("peer_directory_id") else ""
        return f"it voted for {row['peer']}{disk} in incarnation {row['incarnation']}{at(row.get('ts_ns'))}"
    if row.get("voted_for"):
        return f"it knew a vote for {row['voted_for']} in incarnation {row['incarnation']}{at(row.get('ts_ns'))}"
    return f"it was a candidate itself in incarnation {row['incarnation']}{at(row.get('ts_ns'))}"


def _say_one_vote(finding: Finding) -> str:
    first, second = finding.witness
    return f"{first.get('node') or first['src']} gave two votes in epoch {finding.epoch}: {_vote_of(first)}, and {_vote_of(second)}."


ONE_VOTE_PER_EPOCH = Check(
    name="one-vote-per-epoch",
    kind=Kind.SAFETY,
    requirement="S853-4, R853-15, KIP-595",
    title="No voter votes for two candidates in one epoch.",
    situation="votes given, by voter and epoch",
    needs=(("node_events", "quorum_states", "rpcs"),),
    find=_find_one_vote,
    sentence=_say_one_vote,
)

_SURE_NS = 1_000_000_000

_RECOVERED = f"""
done AS (
    SELECT run_id, promises_memory, incarnation, seq, ts_ns, epoch,
           CASE WHEN kind = 'vote' THEN peer WHEN state = 'candidate' THEN node END AS candidate,
           {_VOTE} AS proof,
           max(seq) OVER (PARTITION BY run_id, promises_memory, incarnation
                          ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last_seq
    FROM remembered_events
    WHERE (kind IN ('start', 'state') AND epoch IS NOT NULL)
       OR (kind = 'vote' AND granted AND NOT coalesce(pre_vote, false))
),
recovered AS (
    SELECT run_id, node, identity, promises_memory, incarnation AS until, ts_ns, coalesce(epoch, -1) AS epoch, voted_for, leader,
           {_STORED} AS proof
    FROM remembered_states WHERE problem IS NULL
    UNION ALL
    SELECT run_id, node, identity, promises_memory, incarnation, ts_ns, -1, CAST(NULL AS STRING), CAST(NULL AS STRING), {_STORED}
    FROM remembered_states WHERE problem LIKE 'quorum-state%' AND promises_damaged = 0
    UNION ALL
    SELECT run_id, node, identity, promises_memory, incarnation - 1, ts_ns, coalesce(epoch, -1), voted_for, leader, {_STATE}
    FROM remembered_events WHERE kind = 'start' AND incarnation > 1
),
compared AS (
    SELECT r.run_id, r.node, r.identity, r.until, r.epoch, r.voted_for, r.leader, r.proof, r.keeps_votes,
           max(d.epoch) AS entered, max_by(d.proof, d.epoch) AS entered_proof,
           max(CASE WHEN d.candidate IS NOT NULL THEN d.epoch END) AS vote_epoch,
           max_by(CASE WHEN d.candidate IS NOT NULL THEN struct(d.candidate, d.proof) END,
                  CASE WHEN d.candidate IS NOT NULL THEN d.epoch END) AS vote
    FROM (
        SELECT c.*, array_contains(m.promises, 'durable-votes') AS keeps_votes
        FROM recovered AS c INNER JOIN runs AS m ON m.run_id = c.run_id
    ) AS r
    INNER JOIN done AS d
        ON d.run_id = r.run_id AND d.promises_memory = r.promises_memory AND d.incarnation <= r.until
       AND (d.incarnation < r.until OR d.seq < d.last_seq OR d.ts_ns < r.ts_ns - {_SURE_NS})
    GROUP BY r.run_id, r.node, r.identity, r.until, r.epoch, r.voted_for, r.leader, r.proof, r.keeps_votes
)"""


def _find_durable(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_RECOVERED,
        anomalies="""
            SELECT run_id, concat(identity, ' after incarnation ', until) AS subject, entered AS epoch, NULL AS offset,
                   NULL AS operations,
                   to_json(struct(CASE WHEN epoch < entered THEN 'epoch' ELSE 'vote' END AS lost)) AS facts,
                   array(CASE WHEN epoch < entered THEN entered_proof ELSE vote.proof END, proof) AS witness
            FROM compared
            WHERE epoch < entered
               OR (epoch = vote_epoch AND (leader IS NULL OR keeps_votes) AND NOT (voted_for <=> vote.candidate))""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count_if(epoch = vote_epoch) AS exercised, NULL AS unknown,
                   NULL AS metrics
            FROM compared GROUP BY run_id""",
    )


def _say_durable(finding: Finding) -> str:
    done, kept = finding.witness
    where = "its stored quorum state" if kept["table"] == "quorum_states" else f"incarnation {kept.get('incarnation')}"
    if finding.facts["lost"] == "epoch":
        says = "says nothing" if kept.get("epoch") is None else f"was in epoch {kept['epoch']}"
        return (
            f"{node_of(done)} was in epoch {done['epoch']}{at(done.get('ts_ns'))}, and after it ended {where} {says}."
        )
    voted = done.get("peer") or done["node"]
    known = f"its leader {kept['leader']} became known" if kept.get("leader") else "no leader of that epoch was known"
    return (
        f"{node_of(done)} voted for {voted} in epoch {done['epoch']}{at(done.get('ts_ns'))}, {known}, "
        f"and after it ended {where} says {kept.get('voted_for', 'no vote')} for epoch {kept.get('epoch')}."
    )


VOTE_DURABLE = Check(
    name="vote-durable",
    kind=Kind.SAFETY,
    requirement="S853-1",
    title="Epoch and vote survive the end of the process.",
    situation="ends of a process that had voted in its last epoch",
    needs=(("quorum_states",), ("node_events",)),
    find=_find_durable,
    sentence=_say_durable,
)

_COMPARED = witness(
    "node_events",
    "node",
    "directory_id",
    "incarnation",
    "seq",
    "ts_ns",
    "kind",
    "epoch",
    "peer",
    "pre_vote",
    "granted",
    "entry_epoch",
    "offset",
    "log_epoch",
    "log_end",
)


def _find_up_to_date(tables: Tables) -> DataFrame:
    return tables.findings(
        given="""granted_votes AS (
            SELECT * FROM events
            WHERE kind = 'vote' AND granted AND peer <> node AND entry_epoch IS NOT NULL AND log_epoch IS NOT NULL)""",
        anomalies=f"""
            SELECT run_id, concat(identity, ' epoch ', epoch) AS subject, epoch, offset, {NO_ANOMALY_COLUMNS},
                   array({_COMPARED}) AS witness
            FROM granted_votes
            WHERE entry_epoch < log_epoch OR (entry_epoch = log_epoch AND offset < log_end)""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(*) AS exercised, NULL AS unknown, NULL AS metrics
            FROM granted_votes GROUP BY run_id""",
    )


def _say_up_to_date(finding: Finding) -> str:
    (row,) = finding.witness
    kind = "a pre-vote" if row.get("pre_vote") else "its vote"
    return (
        f"{node_of(row)}, whose log ended at offset {row['log_end']} in epoch {row['log_epoch']}, gave {kind} in epoch "
        f"{row['epoch']} to {row['peer']}, whose log ended at offset {row['offset']} in epoch {row['entry_epoch']}."
    )


VOTE_UP_TO_DATE = Check(
    name="vote-up-to-date",
    kind=Kind.SAFETY,
    requirement="S853-4, R650-12",
    title="Votes go only to candidates whose log is not behind the voter's.",
    situation="votes and pre-votes granted to another node",
    needs=(("node_events",),),
    promises=("node-trace",),
    find=_find_up_to_date,
    sentence=_say_up_to_date,
)
