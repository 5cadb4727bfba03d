"""Check ``committed-reads``: a read that promises no recency still shows only what is committed, and never goes back.

Property. Each stale answer is a state that the committed log passed through (a prefix of the log), and in one session the states
only advance. How old an answer is, is measured and reported, and never judged.

Evidence. Table ``operations``, reads and polls with ``consistency = stale`` and the changes of the same objects; ``log_entries`` of final
copies for the places of values; ``lifecycle`` for the ends of sessions.

Predicates. A value's *place* is the offset that its acknowledgement told or that the final disks give it. A read of it proves a prefix
of at least place + 1 records, and of at most the place of the next change of the same register; an answer with a high watermark, or with
the offset up to which the node had applied the log, is a prefix of exactly that length.

* ``uncommitted``: a value that no operation wrote, or only one that failed, or one of unknown outcome whose value is on no final disk
  (only judged where a majority's final disks hold the log from its beginning).
* ``torn``: the node said that it had applied the log up to an offset, yet returned a value that an acknowledged change below that offset
  had replaced, or that stands at or above it.
* ``back``: an earlier read of the session proves a longer prefix than this one can have seen. A session is a process and the node that
  answered, between two starts of the node: Kafka promises that one node only advances, not that two agree.

Measured, per run: ``stale_reads``; ``behind``, how many were behind an acknowledged change; ``versions_max`` and ``versions_p99``, by how
many acknowledged changes of the same object; ``staleness_ms_max`` and ``staleness_ms_p99``, for how long the first of those had been
acknowledged when the read began.

Requirements. R650-28 (a client may choose stale reads: committed, monotone); kraft.md §7.3: committed prefix, monotone per node.

Blind spots. Polls' records are compared with each other and with the disks by ``log-positions``. Where copies of the log differ and none
was reported as committed, the records in doubt give no place. Values that were written twice have none either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from checker.check import Check, Finding
from checker.checks.log_positions import PLACED
from checker.kernels.objects import CUT_OFF_RECORDS
from checker.verdict import Kind
from checker.witness.words import capital, finished_before, named, value_of
from checker.wording import witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_COLUMNS = (
    "op_id",
    "process",
    "client_node",
    "f",
    "key",
    "input",
    "status",
    "error",
    "invoked_ns",
    "completed_ns",
    "offset",
)
_READ = witness("operations", *_COLUMNS, "output", alias="r")
_CHANGE = witness("operations", *_COLUMNS, alias="w")

_READS = f"""
whole_logs AS (
    SELECT d.run_id
    FROM (SELECT run_id, count(DISTINCT node) AS nodes, min(offset) AS begin FROM disk WHERE final GROUP BY run_id) AS d
    INNER JOIN runs AS r ON r.run_id = d.run_id
    WHERE d.begin = 0 AND 2 * d.nodes > size(r.voters)
),
in_doubt AS (
    SELECT DISTINCT c.run_id, coalesce(c.key, -1) AS object, c.value
    FROM contested AS c
    LEFT ANTI JOIN (SELECT run_id, offset FROM contested WHERE committed) AS k ON k.run_id = c.run_id AND k.offset = c.offset
    WHERE c.final AND c.value IS NOT NULL
),
starts AS (
    SELECT run_id, node, array_sort(collect_list(ts_ns)) AS starts FROM lifecycle WHERE kind = 'start' GROUP BY run_id, node
),
stale AS (
    SELECT o.run_id, op_id, process, client_node, f, key, input, slice(output, greatest(1, size(output) - 1), 2) AS output, status,
           error, invoked_ns, completed_ns, offset, size(output) / 2 AS records,
           CASE f WHEN 'poll' THEN 'append' ELSE 'write' END AS family, coalesce(key, -1) AS object,
           CASE f WHEN 'read' THEN get(output, 0) END AS value,
           CASE f WHEN 'poll' THEN coalesce(get(output, size(output) - 2) + 1, 0) END AS shown_end,
           size(filter(coalesce(starts, array()), ts -> ts <= invoked_ns)) AS life
    FROM operations AS o
    LEFT JOIN starts AS s ON s.run_id = o.run_id AND s.node = o.client_node
    WHERE consistency = 'stale' AND status = 'ok' AND f IN ('read', 'poll')
),
versions AS (
    SELECT *, lead(place) OVER (PARTITION BY run_id, object ORDER BY place, op_id) AS next_place
    FROM placed
    WHERE place IS NOT NULL AND family = 'write' AND (f <> 'cas' OR status = 'ok')
),
known_writes AS (
    SELECT run_id, family, object, value, max(status) AS best_status, count(*) AS attempts,
           min_by({_CHANGE}, w.op_id) AS witness
    FROM attempts AS w WHERE value IS NOT NULL AND family = 'write' GROUP BY run_id, family, object, value
),
reads AS (
    SELECT r.*, v.place, v.next_place, n.attempts, n.best_status, n.witness AS writer,
           e.offset IS NOT NULL OR d.value IS NOT NULL OR l.run_id IS NULL AS may_be_on_disk,
           CASE WHEN r.f = 'poll' THEN greatest(r.shown_end, CASE WHEN r.records < {CUT_OFF_RECORDS} THEN coalesce(r.offset, 0) ELSE 0 END)
                ELSE coalesce(r.offset, v.place + 1, 0) END AS low,
           CASE WHEN r.f = 'poll' THEN CASE WHEN r.records < {CUT_OFF_RECORDS} THEN r.offset END
                WHEN r.offset IS NOT NULL THEN r.offset
                WHEN r.value IS NULL THEN b.first_place
                ELSE v.next_place END AS high
    FROM stale AS r
    LEFT JOIN versions AS v ON v.run_id = r.run_id AND v.object = r.object AND v.value = r.value AND r.f = 'read'
    LEFT JOIN known_writes AS n ON n.run_id = r.run_id AND n.object = r.object AND n.value = r.value AND r.f = 'read'
    LEFT JOIN on_disk AS e
        ON e.run_id = r.run_id AND e.family = 'write' AND e.object = r.object AND e.value = r.value AND r.f = 'read'
    LEFT JOIN in_doubt AS d ON d.run_id = r.run_id AND d.object = r.object AND d.value = r.value AND r.f = 'read'
    LEFT JOIN (SELECT run_id, object, min(place) AS first_place FROM versions GROUP BY run_id, object) AS b
        ON b.run_id = r.run_id AND b.object = r.object
    LEFT JOIN whole_logs AS l ON l.run_id = r.run_id
)"""

_JUDGED = f"""
uncommitted AS (
    SELECT *, CASE WHEN attempts IS NULL THEN 'nobody' WHEN best_status = 'fail' THEN 'failed' ELSE 'lost' END AS why
    FROM reads AS r
    WHERE f = 'read' AND value IS NOT NULL
      AND (attempts IS NULL OR best_status = 'fail' OR (best_status = 'info' AND NOT may_be_on_disk))
),
applied AS (
    SELECT *, max(CASE WHEN is_change THEN struct(mark, change) END) OVER (
                  PARTITION BY run_id, object ORDER BY mark, is_change
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS newest
    FROM (
        SELECT run_id, object, place AS mark, true AS is_change, {_CHANGE} AS change, NULL AS r
        FROM versions AS w WHERE status = 'ok'
        UNION ALL
        SELECT run_id, object, offset, false, NULL, struct(r.*)
        FROM reads AS r WHERE f = 'read' AND offset IS NOT NULL AND (place IS NOT NULL OR value IS NULL)
    )
),
torn AS (
    SELECT run_id, r.op_id, {_READ} AS witness, newest.change AS other, newest.mark AS place, r.offset
    FROM applied WHERE NOT is_change AND newest.mark > coalesce(r.place, -1)
    UNION ALL
    SELECT run_id, op_id, {_READ}, writer, place, offset FROM reads AS r WHERE f = 'read' AND place >= offset
),
sessions AS (
    SELECT *, max(struct(low, op_id, {_READ})) OVER (
                  PARTITION BY run_id, process, client_node, life ORDER BY invoked_ns, op_id
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS floor
    FROM reads AS r
),
back AS (
    SELECT * FROM sessions WHERE high < floor.low
)"""

_AGE = """
timeline AS (
    SELECT run_id, family, object, place, invoked_ns, completed_ns, 1 AS is_change, completed_ns AS ts_ns, CAST(NULL AS BIGINT) AS op_id
    FROM placed WHERE place IS NOT NULL AND status = 'ok'
    UNION ALL
    SELECT run_id, family, object, low, invoked_ns, completed_ns, 0, invoked_ns, op_id FROM reads
),
aged AS (
    SELECT *,
           sum(is_change) OVER (PARTITION BY run_id, family, object ORDER BY place, is_change
                                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS version,
           min(CASE WHEN is_change = 1 THEN completed_ns END) OVER (
               PARTITION BY run_id, family, object ORDER BY place DESC, is_change DESC
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS replaced_ns
    FROM timeline
),
ages AS (
    SELECT run_id, is_change, CASE WHEN replaced_ns < invoked_ns THEN (invoked_ns - replaced_ns) / 1e6 ELSE 0 END AS staleness_ms,
           greatest(0, coalesce(max(CASE WHEN is_change = 1 THEN version END) OVER (
               PARTITION BY run_id, family, object ORDER BY ts_ns, is_change
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 0) - version) AS versions
    FROM aged
),
figures AS (
    SELECT run_id, map('stale_reads', CAST(count(*) AS DOUBLE), 'behind', CAST(count_if(staleness_ms > 0) AS DOUBLE),
                       'versions_max', CAST(max(versions) AS DOUBLE),
                       'versions_p99', CAST(percentile(versions, 0.99) AS DOUBLE),
                       'staleness_ms_max', CAST(max(staleness_ms) AS DOUBLE),
                       'staleness_ms_p99', CAST(percentile(staleness_ms, 0.99) AS DOUBLE)) AS metrics
    FROM ages WHERE is_change = 0 GROUP BY run_id
)"""

_ANOMALIES = f"""
    SELECT run_id, concat('value ', value) AS subject, NULL AS epoch, NULL AS offset, array(min(op_id)) AS operations,
           to_json(struct('uncommitted' AS rule, min(why) AS why)) AS facts,
           array_compact(array(min_by({_READ}, op_id), min(writer))) AS witness
    FROM uncommitted AS r GROUP BY run_id, object, value
    UNION ALL
    SELECT run_id, concat('read ', op_id, ' torn'), NULL, offset, array(op_id),
           to_json(struct('torn' AS rule, place, offset)), array_compact(array(witness, other))
    FROM torn
    UNION ALL
    SELECT run_id, concat('process ', process, ' at ', client_node), NULL, NULL, array(min_by(floor.op_id, op_id), min(op_id)),
           to_json(struct('back' AS rule, min_by(floor.low, op_id) AS low, min_by(high, op_id) AS high, count(*) AS times)),
           array(min_by(floor.col3, op_id), min_by({_READ}, op_id))
    FROM back AS r GROUP BY run_id, process, client_node, life"""

_TALLY = """
    SELECT s.run_id, s.evidence_rows, s.exercised, NULL AS unknown, f.metrics
    FROM (
        SELECT run_id, count(*) AS evidence_rows, count_if(floor IS NOT NULL) AS exercised FROM sessions GROUP BY run_id
    ) AS s
    LEFT JOIN figures AS f ON f.run_id = s.run_id"""


def find(tables: Tables) -> DataFrame:
    """Give every stale read its prefix of the log, and compare those of each session."""
    if not tables.holds("operations", "consistency", "stale"):
        return tables.nothing()
    return tables.findings(given=",".join((PLACED, _READS, _JUDGED, _AGE)), anomalies=_ANOMALIES, tally=_TALLY)


def sentence(finding: Finding) -> str:
    """Say which two facts contradict each other."""
    return capital(_SENTENCES[str(finding.facts["rule"])](finding))


def _say_uncommitted(finding: Finding) -> str:
    read, *writers = ({"key": None, "client_node": None, "error": None, **row} for row in finding.witness)
    said = f"{named(read)} of key {read['key']} returned {value_of(read)}, which "
    if finding.facts["why"] == "nobody":
        return f"{said}no operation wrote."
    if finding.facts["why"] == "failed":
        return f"{said}only {named(writers[0])} would have written, and that failed ({writers[0]['error']})."
    return f"{said}only {named(writers[0])} of unknown outcome would have written, and no final log holds it: it was never committed."


def _say_torn(finding: Finding) -> str:
    read, change = ({"key": None, "client_node": None, **row} for row in finding.witness)
    said = f"{named(read)} of key {read['key']} returned {value_of(read)} and said that the log was applied up to offset {finding.offset}"
    place = finding.facts["place"]
    if place >= (finding.offset or 0):
        return f"{said}, yet {named(change)} stands at offset {place}, at or above that."
    return f"{said}, yet {named(change)} at offset {place}, below that, had replaced it."


def _say_back(finding: Finding) -> str:
    first, late = ({"key": None, "client_node": None, **row} for row in finding.witness)
    times = finding.facts["times"]
    more = f" ({times} such reads in this session)" if times > 1 else ""
    return (
        f"{finished_before(first, late)}; {_prefix(first)} and so proves the first {finding.facts['low']} records of the log, yet the same "
        f"node then showed a state of at most {finding.facts['high']}: {_prefix(late)}{more}."
    )


def _prefix(row: Mapping[str, object]) -> str:
    if row["f"] == "poll":
        return f"op {row['op_id']} showed high watermark {row.get('offset')}"
    return f"op {row['op_id']} returned {value_of(row)} of key {row['key']}"


_SENTENCES: Mapping[str, Callable[[Finding], str]] = {
    "uncommitted": _say_uncommitted,
    "torn": _say_torn,
    "back": _say_back,
}

COMMITTED_READS = Check(
    name="committed-reads",
    kind=Kind.SAFETY,
    requirement="R650-28, KIP-595",
    title="Stale reads show only committed values, a prefix of the log, and never go back in one session.",
    situation="stale reads that followed another one of their session",
    needs=(("operations",),),
    find=find,
    sentence=sentence,
)
