"""What is committed stays, everywhere (what counts as committed: :mod:`checker.views`).

*committed-divergence.* Two copies differ at an offset below the high watermark that each of their nodes had reported; or a record
that a node reported as committed belongs to an epoch that began below the high watermark of an older epoch's leader.

*leader-completeness.* A leader's log lacks a record that was committed in an older epoch: its epoch begins below a high watermark
that an older epoch's leader reported, or its log holds another record at a committed offset below its LeaderChange record.

*committed-truncation.* A node truncates below a high watermark that it had reported itself; or removes a record that was
committed in no later epoch than the one it was in when it truncated (that epoch's leader has the record, so no diverging
answer can have asked for it; a record that only a later leader committed may have been removed before: that is legal); or the
log on a later copy of its disk ends below, or differs from, what it had reported as committed. A log that a fault has changed
is held to nothing from before (:mod:`checker.remembered`), and an observer's need not survive a power cut.

Blind: records that were committed and reported by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import at, claim_of, disk_of, node_of, record_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_RECORD = witness(
    "log_entries", "node", "collection", "offset", "epoch", "kind", "checksum", "f", "key", "value", alias="c"
)
_OTHER = _RECORD.replace("c.", "o.")

_LATE_EPOCHS = "late_epochs AS (SELECT * FROM epochs WHERE begins_at < before)"
"""epochs that begin below a high watermark that an older epoch's leader reported"""


def _find_divergence(tables: Tables) -> DataFrame:
    return tables.findings(
        given=f"""
        {_LATE_EPOCHS},
        split AS (
            SELECT run_id, offset, min(struct(epoch, checksum)) AS low, max(struct(epoch, checksum)) AS high,
                   min_by(struct(c.*), struct(epoch, checksum, node, collection)) AS one,
                   max_by(struct(c.*), struct(epoch, checksum, node, collection)) AS two
            FROM contested AS c
            WHERE committed
            GROUP BY run_id, offset
            HAVING min(struct(epoch, checksum)) <> max(struct(epoch, checksum))
        )""",
        anomalies=f"""
            SELECT run_id, concat('offset ', min(offset)) AS subject, two.epoch AS epoch, min(offset) AS offset,
                   NULL AS operations, to_json(struct('differ' AS rule, count(*) AS records)) AS facts,
                   min_by(array({_RECORD.replace("c.", "one.")}, {_RECORD.replace("c.", "two.")},
                                to_json(one.claim), to_json(two.claim)), offset) AS witness
            FROM split
            GROUP BY run_id, one.identity, one.epoch, two.identity, two.epoch
            UNION ALL
            SELECT l.run_id, concat('epoch ', l.epoch), l.epoch, min(r.first_offset), NULL,
                   to_json(struct('epochs' AS rule)),
                   min_by(array(l.before_claim.claim,
                                to_json(struct('log_entries' AS table, r.node, r.collection, r.first_offset AS offset, r.epoch)),
                                to_json(k.claim)), r.first_offset)
            FROM late_epochs AS l
            INNER JOIN epoch_ranges AS r
                ON r.run_id = l.run_id AND r.epoch = l.epoch AND r.first_offset < l.before
            INNER JOIN claimed AS k
                ON k.run_id = r.run_id AND k.node = r.node AND k.identity = r.identity AND k.collection = r.collection
               AND k.high_watermark > r.first_offset
            GROUP BY l.run_id, l.epoch""",
        tally="""
            SELECT run_id, sum(copies) AS evidence_rows,
                   CASE WHEN count(*) < 2 THEN 0 ELSE element_at(sort_array(collect_list(reached), false), 2) END AS exercised,
                   NULL AS unknown, NULL AS metrics
            FROM (
                SELECT run_id, identity, count(*) AS copies, max(high_watermark) AS reached
                FROM claimed GROUP BY run_id, identity
            )
            GROUP BY run_id""",
    )


def _say_divergence(finding: Finding) -> str:
    if finding.facts["rule"] == "differ":
        one, two, *claims = finding.witness
        records = finding.facts["records"]
        more = f" ({records} records differ)" if records > 1 else ""
        both = " and ".join(claim_of(claim) for claim in claims)
        return f"Two committed records at one offset: {record_of(one)}, {record_of(two)}; {both}{more}."
    claim, record, other = finding.witness
    return (
        f"{claim_of(claim)}, so offset {record['offset']} was committed in epoch {claim['epoch']} or before; yet {disk_of(record)} "
        f"holds a record of epoch {record['epoch']} there, and {claim_of(other)}."
    )


COMMITTED_DIVERGENCE = Check(
    name="committed-divergence",
    kind=Kind.SAFETY,
    requirement="S853 NoLogDivergence, KIP-595",
    title="No two logs differ below what both nodes reported as committed.",
    situation="offsets that at least two nodes reported as committed",
    needs=(("log_entries",), ("node_events", "quorum_samples")),
    find=_find_divergence,
    sentence=_say_divergence,
)


def _find_completeness(tables: Tables) -> DataFrame:
    return tables.findings(
        given=f"""
        {_LATE_EPOCHS},
        lacking AS (
            SELECT o.run_id, r.epoch AS leader_epoch, r.first_offset AS began, c.offset, min(e.epoch) AS commit_epoch,
                   min(array({_RECORD}, to_json(c.claim), {_OTHER})) AS witness
            FROM contested AS o
            INNER JOIN contested AS c
                ON c.run_id = o.run_id AND c.offset = o.offset AND c.committed
               AND (c.epoch <> o.epoch OR c.checksum <> o.checksum)
            INNER JOIN epoch_ranges AS r
                ON r.run_id = o.run_id AND r.node = o.node AND r.identity = o.identity AND r.collection = o.collection
               AND r.first_offset > o.offset AND r.first_kind = 'leader_change'
            INNER JOIN epochs AS e
                ON e.run_id = c.run_id AND e.high_watermark > c.offset
            GROUP BY o.run_id, r.epoch, r.first_offset, c.offset
            HAVING min(e.epoch) < r.epoch
        )""",
        anomalies="""
            SELECT run_id, concat('epoch ', epoch) AS subject, epoch, begins_at AS offset, NULL AS operations,
                   to_json(struct('short' AS rule, before)) AS facts, array(before_claim.claim, begin) AS witness
            FROM late_epochs
            UNION ALL
            SELECT run_id, concat('epoch ', leader_epoch, ' content'), leader_epoch, min(offset), NULL,
                   to_json(struct('differs' AS rule, min_by(commit_epoch, offset) AS commit_epoch, min(began) AS began)),
                   min_by(witness, offset)
            FROM lacking
            GROUP BY run_id, leader_epoch""",
        tally="""
            SELECT run_id, count(begins_at) AS evidence_rows, count_if(begins_at IS NOT NULL AND before > 0) AS exercised,
                   NULL AS unknown, NULL AS metrics
            FROM epochs GROUP BY run_id""",
    )


def _say_completeness(finding: Finding) -> str:
    if finding.facts["rule"] == "short":
        claim, begin = finding.witness
        leader = f", led by {begin['leader']}," if begin.get("leader") else ""
        where = disk_of(begin) if begin["table"] == "log_entries" else f"{node_of(begin)}'s log"
        return (
            f"{claim_of(claim)}; epoch {finding.epoch}{leader} begins at offset {finding.offset} (on {where}): its leader lacked the "
            f"committed records from offset {finding.offset} to {finding.facts['before'] - 1}."
        )
    committed, claim, other = finding.witness
    return (
        f"{record_of(committed)}, committed by epoch {finding.facts['commit_epoch']} ({claim_of(claim)}); but the log of epoch "
        f"{finding.epoch}'s leader, which begins its epoch at offset {finding.facts['began']}, has another there: {record_of(other)}."
    )


LEADER_COMPLETENESS = Check(
    name="leader-completeness",
    kind=Kind.SAFETY,
    requirement="LeaderHasAllAckedValues, KIP-595",
    title="Every leader has all records that were committed in earlier epochs.",
    situation="elections after something was committed",
    needs=(("log_entries", "node_events"), ("node_events", "quorum_samples")),
    find=_find_completeness,
    sentence=_say_completeness,
)

_TRUNCATION = witness(
    "node_events",
    "node",
    "directory_id",
    "incarnation",
    "seq",
    "ts_ns",
    "kind",
    "offset",
    "log_end",
    "high_watermark",
    alias="t",
)
_APPEND = witness(
    "node_events", "node", "incarnation", "seq", "kind", "offset", "end_offset", "epoch", "checksum", alias="a"
)

_TRUNCATIONS = f"""
history AS (
    SELECT *, struct(incarnation, seq) AS place,
           max(CASE WHEN kind = 'high_watermark' THEN high_watermark END) OVER past AS reported,
           max_by(CASE WHEN kind = 'high_watermark' THEN
                      {witness("node_events", "node", "incarnation", "seq", "ts_ns", "kind", "epoch", "high_watermark")} END,
                  CASE WHEN kind = 'high_watermark' THEN high_watermark END) OVER past AS report,
           max(CASE WHEN kind IN ('start', 'state') THEN epoch END) OVER past AS own_epoch
    FROM remembered_events
    WHERE kind IN ('high_watermark', 'truncate', 'start', 'state')
    WINDOW past AS (PARTITION BY run_id, log_memory ORDER BY incarnation, seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
truncations AS (SELECT * FROM history WHERE kind = 'truncate'),
removed AS (
    SELECT a.run_id, a.identity, a.offset, a.end_offset, a.epoch, {_APPEND} AS append,
           min_by(struct(t.own_epoch, {_TRUNCATION} AS proof, t.offset), t.place) AS cut
    FROM remembered_events AS a
    INNER JOIN truncations AS t
        ON t.run_id = a.run_id AND t.log_memory = a.log_memory AND t.offset < a.end_offset
       AND t.place > struct(a.incarnation, a.seq)
    WHERE a.kind = 'append'
    GROUP BY a.run_id, a.identity, a.node, a.incarnation, a.seq, a.kind, a.offset, a.end_offset, a.epoch, a.checksum
),
removed_committed AS (
    SELECT r.run_id, r.identity, d.offset, d.epoch, min(e.epoch) AS commit_epoch, max(r.cut.own_epoch) AS own_epoch,
           min(array(r.cut.proof, r.append, to_json(struct('log_entries' AS table, d.node, d.collection, d.offset, d.epoch)),
                     to_json(k.claim))) AS witness
    FROM (
        SELECT *, explode(sequence(greatest(offset, cut.offset), end_offset - 1)) AS gone FROM removed
        WHERE greatest(offset, cut.offset) < end_offset
    ) AS r
    INNER JOIN disk AS d ON d.run_id = r.run_id AND d.offset = r.gone AND d.epoch = r.epoch
    INNER JOIN claimed AS k
        ON k.run_id = d.run_id AND k.node = d.node AND k.identity = d.identity AND k.collection = d.collection
       AND k.high_watermark > d.offset
    INNER JOIN epochs AS e ON e.run_id = d.run_id AND e.high_watermark > d.offset
    GROUP BY r.run_id, r.identity, d.offset, d.epoch
    HAVING min(e.epoch) <= max(r.cut.own_epoch)
),
observers_cut AS (
    SELECT l.run_id, l.node, l.ts_ns
    FROM lifecycle AS l INNER JOIN runs AS r ON r.run_id = l.run_id
    WHERE l.kind = 'power-cut' AND NOT array_contains(r.voters, l.node) AND NOT r.voters_change
)"""


def _find_truncation(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_TRUNCATIONS,
        anomalies=f"""
            SELECT run_id, concat(identity, ' offset ', offset) AS subject, own_epoch AS epoch, offset, NULL AS operations,
                   to_json(struct('own' AS rule, greatest(reported, high_watermark) AS reported)) AS facts,
                   array({_TRUNCATION}, report) AS witness
            FROM truncations AS t
            WHERE offset < greatest(reported, high_watermark)
            UNION ALL
            SELECT run_id, concat(identity, ' offset ', min(offset), ' elsewhere'), max(own_epoch), min(offset), NULL,
                   to_json(struct('elsewhere' AS rule, min_by(commit_epoch, offset) AS commit_epoch,
                                  min_by(own_epoch, offset) AS own_epoch)),
                   min_by(witness, offset)
            FROM removed_committed
            GROUP BY run_id, identity, witness[0]
            UNION ALL
            SELECT run_id, concat(identity, ' copy ', collection), claim.epoch, log_end, NULL,
                   to_json(struct('short' AS rule, high_watermark AS reported, log_end)),
                   array(to_json(claim), to_json(struct('quorum_states' AS table, node, collection, log_start, log_end)))
            FROM claimed AS c
            LEFT ANTI JOIN observers_cut AS p ON p.run_id = c.run_id AND p.node = c.node AND p.ts_ns <= coalesce(c.ts_ns, p.ts_ns)
            WHERE log_end < high_watermark
            UNION ALL
            SELECT c.run_id, concat(c.identity, ' offset ', min(c.offset), ' rewritten'), max(o.epoch), min(c.offset), NULL,
                   to_json(struct('rewritten' AS rule)), min_by(array(to_json(c.claim), {_RECORD}, {_OTHER}), c.offset)
            FROM contested AS c
            INNER JOIN contested AS o
                ON o.run_id = c.run_id AND o.identity = c.identity AND o.offset = c.offset AND o.collection > c.collection
               AND o.log_memory = c.log_memory AND (o.epoch <> c.epoch OR o.checksum <> c.checksum)
            WHERE c.committed
            GROUP BY c.run_id, c.identity""",
        tally="""
            SELECT run_id, sum(rows) AS evidence_rows, sum(cuts) AS exercised, NULL AS unknown, NULL AS metrics
            FROM (
                SELECT run_id, count(*) AS rows, count(*) AS cuts FROM truncations GROUP BY run_id
                UNION ALL
                SELECT run_id, count(*), count_if(log_end IS NOT NULL) FROM claimed GROUP BY run_id
            )
            GROUP BY run_id""",
    )


def _say_truncation(finding: Finding) -> str:
    rule = finding.facts["rule"]
    if rule == "short":
        claim, copy = finding.witness
        return f"{claim_of(claim)}, and afterwards {disk_of(copy)} ends at offset {copy['log_end']}: committed records are gone from it."
    if rule == "rewritten":
        claim, record, other = finding.witness
        return f"{claim_of(claim)}; {record_of(record)}, and later {record_of(other)}."
    cut = finding.witness[0]
    # Apache Kafka's log lines tell where a log was cut, and not where it had ended.
    cut_from = f" from {cut['log_end']}" if "log_end" in cut else ""
    cut_text = f"{node_of(cut)} truncated its log{cut_from} to {cut['offset']}{at(cut.get('ts_ns'))}"
    if rule == "own":
        said = (
            claim_of(finding.witness[1])
            if len(finding.witness) > 1
            else f"its high watermark was {finding.facts['reported']}"
        )
        return f"{cut_text}, below high watermark {finding.facts['reported']}: {said}."
    record, claim = finding.witness[2], finding.witness[3]
    return (
        f"{cut_text} while in epoch {finding.facts['own_epoch']} and so removed offset {record['offset']} of epoch {record['epoch']}, "
        f"which was committed in epoch {finding.facts['commit_epoch']}: {disk_of(record)} holds it, and {claim_of(claim)}."
    )


COMMITTED_TRUNCATION = Check(
    name="committed-truncation",
    kind=Kind.SAFETY,
    requirement="NoCommittedTruncation, S853-8, KIP-595",
    title="No log loses a record that was committed.",
    situation="truncations, and copies of a disk after its node had reported a high watermark",
    needs=(("log_entries",), ("node_events", "quorum_samples")),
    find=_find_truncation,
    sentence=_say_truncation,
)
