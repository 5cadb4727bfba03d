"""What clients were told is kept, and they were told nothing too early.

*acknowledged-lost.* An acknowledged value (of a write or compare-and-set, an append, an addition, a registration) is found in no log
below the high watermark after recovery. A record counts as found when it stands in a final copy of a log, is below a high watermark
that somebody reported or on a majority of the final copies (asked for only when the run came to its end), and when no committed
record contradicts it at its offset. Below the start of a final log, behind a snapshot, earlier copies count too. Values are
unique, of registers within a key. A candidate whose records cannot be decoded for an operation makes this check *unknown*.

*acknowledged-below-high-watermark.* A leader's own trace: it acknowledged a record at or above its high watermark, that is,
before the record was committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import NO_ANOMALY_COLUMNS, at, node_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_OPERATION = witness(
    "operations",
    "op_id",
    "process",
    "client_node",
    "f",
    "key",
    "input",
    "output",
    "status",
    "invoked_ns",
    "completed_ns",
    "offset",
    alias="o",
)

_OBJECT = "CASE WHEN f IN ('write', 'cas') THEN 'value' ELSE f END"
"""a register takes values by writes and by compare-and-sets"""

_LOOKED_UP = f"""
acknowledged AS (
    SELECT op_id, process, client_node, f, key, input, output, status, invoked_ns, completed_ns, offset, run_id,
           {_OBJECT} AS object,
           CASE f WHEN 'cas' THEN get(input, 1) WHEN 'add' THEN get(output, 0) + get(input, 0) WHEN 'register' THEN get(output, 0)
                  ELSE get(input, 0) END AS said
    FROM operations
    WHERE status = 'ok' AND f IN ('write', 'cas', 'append', 'add', 'register')
),
log_starts AS (
    SELECT run_id, max(log_start) AS log_start, max(log_end) AS log_end FROM copies WHERE final GROUP BY run_id
),
reached AS (
    SELECT run_id, max(high_watermark) AS high_watermark FROM claims GROUP BY run_id
),
superseded AS (
    SELECT DISTINCT o.run_id, o.node, o.identity, o.collection, o.offset
    FROM contested AS o
    INNER JOIN contested AS c
        ON c.run_id = o.run_id AND c.offset = o.offset AND c.committed AND (c.epoch <> o.epoch OR c.checksum <> o.checksum)
    WHERE NOT o.committed
),
kept AS (
    SELECT d.run_id, {_OBJECT} AS object, d.key, CASE WHEN d.f = 'register' THEN d.offset ELSE d.value END AS said,
           min(d.offset) AS offset, count(DISTINCT CASE WHEN d.final THEN d.node END) AS disks
    FROM disk AS d
    INNER JOIN log_starts AS s ON s.run_id = d.run_id AND (d.final OR d.offset < s.log_start)
    LEFT ANTI JOIN superseded AS x
        ON x.run_id = d.run_id AND x.node = d.node AND x.identity = d.identity AND x.collection = d.collection
       AND x.offset = d.offset
    WHERE d.f IS NOT NULL
    GROUP BY d.run_id, object, d.key, said
),
kept_well AS (
    SELECT k.*
    FROM kept AS k
    INNER JOIN runs AS r ON r.run_id = k.run_id
    LEFT JOIN reached AS h ON h.run_id = k.run_id
    WHERE k.offset < coalesce(h.high_watermark, 0) OR 2 * k.disks > size(r.voters) OR NOT r.finished OR r.interrupted
),
decoded AS (SELECT DISTINCT run_id, {_OBJECT} AS object FROM disk WHERE f IS NOT NULL),
lost AS (
    SELECT o.*
    FROM acknowledged AS o
    LEFT SEMI JOIN decoded AS d ON d.run_id = o.run_id AND d.object = o.object
    LEFT ANTI JOIN kept_well AS k
        ON k.run_id = o.run_id AND k.object = o.object AND k.said = o.said
       AND (k.key = o.key OR k.key IS NULL OR o.key IS NULL)
)"""


def _find_lost(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_LOOKED_UP,
        anomalies=f"""
            SELECT o.run_id, concat('operation ', o.op_id) AS subject, NULL AS epoch, o.offset, array(o.op_id) AS operations,
                   to_json(struct(o.said, s.log_end, h.high_watermark)) AS facts, array({_OPERATION}) AS witness
            FROM lost AS o
            LEFT JOIN log_starts AS s ON s.run_id = o.run_id
            LEFT JOIN reached AS h ON h.run_id = o.run_id""",
        tally="""
            SELECT a.run_id, count(*) AS evidence_rows, count(d.object) AS exercised,
                   max(CASE WHEN d.object IS NULL
                            THEN concat('no record of the logs could be read as ', a.f) END) AS unknown,
                   NULL AS metrics
            FROM acknowledged AS a
            LEFT JOIN decoded AS d ON d.run_id = a.run_id AND d.object = a.object
            GROUP BY a.run_id""",
    )


def _say_lost(finding: Finding) -> str:
    (row,) = finding.witness
    key = "" if row.get("key") is None else f" of key {row['key']}"
    where = "" if row.get("client_node") is None else f" by {row['client_node']}"
    facts = finding.facts
    place = "" if row.get("offset") is None else f" for offset {row['offset']}"
    return (
        f"Operation {row['op_id']} ({row['f']}{key}, value {facts.get('said')}) was acknowledged{where}{place}"
        f"{at(row.get('completed_ns'))}, but after recovery no log holds it as a committed record: they end at offset "
        f"{facts.get('log_end', '?')}, and the high watermark was {facts.get('high_watermark', 'unknown')}."
    )


ACKNOWLEDGED_LOST = Check(
    name="acknowledged-lost",
    kind=Kind.SAFETY,
    requirement="AckedValueNotLost, KIP-595",
    title="Whatever was acknowledged is in the log after recovery.",
    situation="acknowledged values looked up in the logs",
    needs=(("operations",), ("log_entries",)),
    find=_find_lost,
    sentence=_say_lost,
)

_ACKNOWLEDGEMENT = witness(
    "node_events", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "epoch", "offset", "high_watermark"
)


def _find_early(tables: Tables) -> DataFrame:
    return tables.findings(
        given="acknowledgements AS (SELECT * FROM events WHERE kind = 'acknowledge')",
        anomalies=f"""
            SELECT run_id, concat(node, ' epoch ', epoch) AS subject, epoch, offset, {NO_ANOMALY_COLUMNS},
                   array({_ACKNOWLEDGEMENT}) AS witness
            FROM acknowledgements
            WHERE offset >= coalesce(high_watermark, 0)""",
        tally="""
            SELECT run_id, count(*) AS evidence_rows, count(*) AS exercised, NULL AS unknown, NULL AS metrics
            FROM acknowledgements GROUP BY run_id""",
    )


def _say_early(finding: Finding) -> str:
    (row,) = finding.witness
    return (
        f"{node_of(row)}, leading epoch {row['epoch']}, acknowledged the record at offset {row['offset']}{at(row.get('ts_ns'))} while "
        f"its high watermark was {row.get('high_watermark', 'unknown')}: the record was not committed."
    )


ACKNOWLEDGED_BELOW_HIGH_WATERMARK = Check(
    name="acknowledged-below-high-watermark",
    kind=Kind.SAFETY,
    requirement="KIP-595, X650-3",
    title="A leader acknowledges only committed records.",
    situation="acknowledgements",
    needs=(("node_events",),),
    promises=("node-trace",),
    find=_find_early,
    sentence=_say_early,
)
