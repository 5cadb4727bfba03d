"""Snapshots and state: a snapshot is the committed prefix up to its end offset, the same on every node (KIP-630).

*snapshot-prefix.* A complete snapshot ends at or below the high watermark that its node had reported (judged where the node's
own trace tells every high watermark, and no fault has changed its log), with a record of its epoch; and whoever has applied the log up
to one offset, by itself or from a snapshot, has the same state: equal digests at equal offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import claim_of, disk_of, node_of, record_of, witness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from checker.tables import Tables

_SNAPSHOT = witness("snapshots", "node", "collection", "end_offset", "epoch", "digest")
_SNAPSHOT_S = witness("snapshots", "node", "collection", "end_offset", "epoch", "digest", alias="s")
_DIGEST = witness("state_digests", "node", "applied_offset", "digest")
_APPLY = witness("node_events", "node", "incarnation", "seq", "kind", "offset", "digest")

_STATES = f"""
complete AS (SELECT *, concat_ws('/', node, directory_id) AS identity FROM snapshots WHERE complete),
digests AS (
    SELECT run_id, end_offset AS applied, digest, {_SNAPSHOT} AS proof FROM complete WHERE digest IS NOT NULL
    UNION ALL
    SELECT run_id, applied_offset, digest, {_DIGEST} FROM state_digests
    UNION ALL
    SELECT run_id, offset, digest, {_APPLY} FROM events WHERE kind = 'apply' AND digest IS NOT NULL
)"""


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_STATES,
        anomalies=f"""
            SELECT run_id, concat('offset ', min(applied)) AS subject, NULL AS epoch, min(applied) AS offset, NULL AS operations,
                   to_json(struct('digest' AS rule, count(*) AS places)) AS facts, min_by(witness, applied) AS witness
            FROM (
                SELECT run_id, applied, array(min_by(proof, digest), max_by(proof, digest)) AS witness
                FROM digests GROUP BY run_id, applied HAVING min(digest) <> max(digest)
            )
            GROUP BY run_id
            UNION ALL
            SELECT s.run_id, concat(s.identity, ' snapshot ', s.end_offset), s.epoch, s.end_offset, NULL,
                   to_json(struct('early' AS rule, max(k.high_watermark) AS high_watermark)),
                   array(min({_SNAPSHOT_S}), to_json(max_by(k.claim, k.high_watermark)))
            FROM complete AS s
            INNER JOIN runs AS r ON r.run_id = s.run_id AND array_contains(r.promises, 'node-trace')
            INNER JOIN claimed AS k
                ON k.run_id = s.run_id AND k.node = s.node AND k.identity = s.identity AND k.collection = s.collection
               AND k.log_damaged = 0
            GROUP BY s.run_id, s.identity, s.epoch, s.end_offset
            HAVING max(k.high_watermark) < s.end_offset
            UNION ALL
            SELECT s.run_id, concat(s.identity, ' snapshot ', s.end_offset, ' epoch'), s.epoch, s.end_offset, NULL,
                   to_json(struct('epoch' AS rule)),
                   array(min({_SNAPSHOT_S}),
                         min(to_json(struct('log_entries' AS table, d.node, d.collection, d.offset, d.epoch, d.checksum))))
            FROM complete AS s
            INNER JOIN disk AS d
                ON d.run_id = s.run_id AND d.offset = s.end_offset - 1 AND d.epoch <> s.epoch
            INNER JOIN claimed AS k
                ON k.run_id = d.run_id AND k.node = d.node AND k.identity = d.identity AND k.collection = d.collection
               AND k.high_watermark > d.offset
            GROUP BY s.run_id, s.identity, s.epoch, s.end_offset""",
        tally="""
            SELECT run_id, sum(rows) AS evidence_rows, sum(compared) AS exercised, NULL AS unknown, NULL AS metrics
            FROM (
                SELECT run_id, count(*) AS rows, CASE WHEN count(*) > 1 THEN 1 ELSE 0 END AS compared
                FROM digests GROUP BY run_id, applied
                UNION ALL
                SELECT run_id, count(*), count(*) FROM complete GROUP BY run_id
            )
            GROUP BY run_id""",
    )


def _state(row: Mapping[str, Any]) -> str:
    if row["table"] == "snapshots":
        return f"the snapshot on {disk_of(row)} has digest {row['digest']}"
    if row["table"] == "state_digests":
        return f"{row['node']} has digest {row['digest']}"
    return f"{node_of(row)} had digest {row['digest']} after applying it"


def _say(finding: Finding) -> str:
    rule = finding.facts["rule"]
    first, second = finding.witness
    if rule == "digest":
        return f"Two states at one offset, {finding.offset}: {_state(first)}, {_state(second)}."
    if rule == "early":
        return f"The snapshot on {disk_of(first)} ends at offset {first['end_offset']}, above what was committed: {claim_of(second)}."
    return f"The snapshot on {disk_of(first)} ends at offset {first['end_offset']} in epoch {first['epoch']}, but {record_of(second)}."


SNAPSHOT_PREFIX = Check(
    name="snapshot-prefix",
    kind=Kind.SAFETY,
    requirement="KIP-630, R853-4",
    title="Snapshots and states are those of the committed prefix of the log.",
    situation="snapshots, and offsets at which several states could be compared",
    needs=(("snapshots", "state_digests", "node_events", "log_entries"),),
    find=_find,
    sentence=_say,
)
