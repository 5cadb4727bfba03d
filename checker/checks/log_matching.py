"""The shape of logs: equal places hold equal records, epochs rise, and each begins with its leader's record.

*log-matching* (Raft's property, over all records, committed or not). Two logs that hold a record of the same epoch at the same
offset are equal up to there. So for any two copies: equal (offset, epoch) means an equal checksum; and an epoch that both hold
begins at the same offset and follows the same epoch in both, unless the copy's log starts inside it. A batch that two nodes
appended at one offset in one epoch has one checksum.

*log-epochs-monotone.* Inside a log epochs never fall, and the first record of an epoch is its LeaderChange record (S853-11).

A copy's torn tail was dropped by the collector; a log that starts behind a snapshot begins inside an epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import checksum, disk_of, node_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_RECORD = witness("log_entries", "node", "collection", "offset", "epoch", "kind", "checksum")
_BATCH = witness(
    "node_events", "node", "incarnation", "seq", "kind", "offset", "end_offset", "epoch", "checksum", "state"
)
_RANGE = """to_json(struct('log_entries' AS table, node, collection, epoch, first_offset AS offset, first_kind AS kind,
                           last_offset, previous_epoch))"""

_ORDERED = """
ordered AS (
    SELECT *, lag(epoch) OVER log AS previous_epoch,
           min(first_offset) OVER (PARTITION BY run_id, node, identity, collection
                                   ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS log_start
    FROM epoch_ranges
    WINDOW log AS (PARTITION BY run_id, node, identity, collection ORDER BY first_offset)
),
beginnings AS (SELECT * FROM ordered WHERE first_offset > log_start OR log_start = 0)"""


def _find_matching(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_ORDERED,
        anomalies=f"""
            SELECT run_id, concat('epoch ', epoch, ' records') AS subject, epoch, min(offset) AS offset, NULL AS operations,
                   to_json(struct('records' AS rule, count(*) AS places)) AS facts,
                   min_by(witness, offset) AS witness
            FROM (
                SELECT run_id, offset, epoch,
                       array(min_by({_RECORD}, struct(checksum, node)), max_by({_RECORD}, struct(checksum, node))) AS witness
                FROM contested
                GROUP BY run_id, offset, epoch
                HAVING min(checksum) <> max(checksum)
            )
            GROUP BY run_id, epoch
            UNION ALL
            SELECT run_id, concat('epoch ', epoch, ' beginning'), epoch, min(first_offset), NULL,
                   to_json(struct('beginning' AS rule)),
                   array(min_by({_RANGE}, struct(first_offset, coalesce(previous_epoch, -1))),
                         max_by({_RANGE}, struct(first_offset, coalesce(previous_epoch, -1))))
            FROM beginnings
            GROUP BY run_id, epoch
            HAVING min(first_offset) <> max(first_offset)
                OR min(coalesce(previous_epoch, -1)) <> max(coalesce(previous_epoch, -1))
            UNION ALL
            SELECT run_id, concat('epoch ', epoch, ' batches'), epoch, min(offset), NULL,
                   to_json(struct('batches' AS rule, count(*) AS places)), min_by(witness, offset)
            FROM (
                SELECT run_id, offset, end_offset, epoch,
                       array(min_by({_BATCH}, struct(checksum, node)), max_by({_BATCH}, struct(checksum, node))) AS witness
                FROM events
                WHERE kind = 'append' AND checksum IS NOT NULL
                GROUP BY run_id, offset, end_offset, epoch
                HAVING min(checksum) <> max(checksum)
            )
            GROUP BY run_id, epoch""",
        tally="""
            SELECT run_id, sum(records) AS evidence_rows, count_if(shared) AS exercised, NULL AS unknown, NULL AS metrics
            FROM offsets GROUP BY run_id""",
    )


def _say_matching(finding: Finding) -> str:
    first, second = finding.witness
    places = finding.facts.get("places", 1)
    more = f" ({places} places in all)" if places > 1 else ""
    if finding.facts["rule"] == "records":
        return (
            f"Two different records stand at offset {first['offset']} in epoch {first['epoch']}: {disk_of(first)} holds checksum "
            f"{checksum(first)}, {disk_of(second)} holds {checksum(second)}{more}."
        )
    if finding.facts["rule"] == "batches":
        return (
            f"{node_of(first)} and {node_of(second)} appended different batches at offset {first['offset']} in epoch "
            f"{first['epoch']}: checksums {checksum(first)} and {checksum(second)}{more}."
        )
    if first["offset"] != second["offset"]:
        return (
            f"Epoch {finding.epoch} begins at offset {first['offset']} on {disk_of(first)} and at offset {second['offset']} on "
            f"{disk_of(second)}: the logs share records of that epoch and differ before them."
        )
    return (
        f"Epoch {finding.epoch} begins at offset {first['offset']} on both logs, but follows epoch "
        f"{first.get('previous_epoch', 'none')} on {disk_of(first)} and epoch {second.get('previous_epoch', 'none')} on "
        f"{disk_of(second)}."
    )


LOG_MATCHING = Check(
    name="log-matching",
    kind=Kind.SAFETY,
    requirement="Raft log matching, KIP-595",
    title="Logs that hold the same epoch at the same offset are equal up to there.",
    situation="offsets held by at least two disks",
    needs=(("log_entries",),),
    find=_find_matching,
    sentence=_say_matching,
)


def _find_monotone(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_ORDERED
        + """,
        steps AS (
            SELECT *, lag(last_offset) OVER log AS previous_last
            FROM ordered
            WINDOW log AS (PARTITION BY run_id, node, identity, collection ORDER BY epoch)
        )""",
        anomalies=f"""
            SELECT run_id, concat(identity, ' epoch ', epoch) AS subject, epoch, first_offset AS offset, NULL AS operations,
                   to_json(struct('fell' AS rule, previous_last)) AS facts, array({_RANGE}) AS witness
            FROM steps WHERE first_offset <= previous_last
            UNION ALL
            SELECT run_id, concat(identity, ' epoch ', epoch, ' beginning'), epoch, first_offset, NULL,
                   to_json(struct('beginning' AS rule)), array({_RANGE})
            FROM beginnings WHERE first_kind <> 'leader_change' AND epoch > 0""",
        tally="""
            SELECT run_id, sum(records) AS evidence_rows, count_if(previous_epoch IS NOT NULL) AS exercised, NULL AS unknown,
                   NULL AS metrics
            FROM ordered GROUP BY run_id""",
    )


def _say_monotone(finding: Finding) -> str:
    (row,) = finding.witness
    if finding.facts["rule"] == "fell":
        return (
            f"Epochs fall on {disk_of(row)}: records of epoch {row['epoch']} begin at offset {row['offset']}, yet an older epoch "
            f"goes on until offset {finding.facts['previous_last']}."
        )
    return (
        f"Epoch {row['epoch']} begins at offset {row['offset']} on {disk_of(row)} with a record of kind {row['kind']}, "
        "not with its LeaderChange record."
    )


LOG_EPOCHS_MONOTONE = Check(
    name="log-epochs-monotone",
    kind=Kind.SAFETY,
    requirement="S853-11, KIP-595",
    title="Epochs rise inside a log, and each begins with its LeaderChange record.",
    situation="changes of epoch inside a log",
    needs=(("log_entries",),),
    find=_find_monotone,
    sentence=_say_monotone,
)
