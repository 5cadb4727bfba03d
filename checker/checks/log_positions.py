"""Check ``log-positions``: what clients were told about places in the log agrees with every read and every disk.

Property. An offset holds one value and a value stands at one offset, whoever tells it: the answer to the client that appended it, every
poll, every node's disk. Of two changes, the one that was acknowledged before the other began stands first.

Evidence. Table ``operations``: answers with an offset (append, write, compare-and-set), pairs in the answers of polls, starts of
additions. Table ``log_entries``: data records on final copies, without those at offsets where copies differ and this copy's was not
reported as committed (an uncommitted tail says nothing).

Predicates; a *statement* is (offset, value), and values are compared per register or log.

* ``offset``: two statements give one offset two values, or another kind of record stands where a client was told its value stands.
* ``value``: two statements give one value, attempted once, two offsets.
* ``order``: place(o) < place(p) although p was acknowledged before o began. An operation's place is the offset that it was told or
  that the disks give its value: so writes whose answers tell no offset (Kafka's configuration) and additions (Kafka's ProducerIds
  records, which hold the value *after* the addition) are judged by the log. An unknown change counts where the disks hold its value.
* ``hole``: a poll covers an offset that another answer proves to be taken, and does not show it. A poll covers what lies between its
  beginning and its last record; a linearizable one that shows nothing covers all up to its high watermark.
* ``unasked``: a poll shows a value that nobody appended, or only an operation that failed.
* ``disorder``: a poll's offsets do not rise, or reach its high watermark, or begin before what was asked.

Requirements. KIP-595 (an acknowledged record has a place and keeps it); requirements.md §3.6: unique committed ids, nobody observes a
value never requested or twice, failed writes are never observed, committed writes keep real time.

Blind spots. A value on no disk at all is ``acknowledged-lost``'s. Values that were attempted twice are compared by offset only.
A poll's answer that was cut off covers only what it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.witness.words import capital, deed, finished_before, named
from checker.wording import witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checker.tables import Tables

_OPERATION = witness(
    "operations",
    *(
        "op_id",
        "process",
        "client_node",
        "f",
        "key",
        "input",
        "output",
        "status",
        "error",
        "invoked_ns",
        "completed_ns",
        "offset",
    ),
    alias="a",
)
_POLL_COLUMNS = (
    "op_id",
    "process",
    "client_node",
    "f",
    "key",
    "input",
    "status",
    "invoked_ns",
    "completed_ns",
    "offset",
)
_PAIR = """to_json(struct('operations' AS table, p.op_id, p.process, p.client_node, p.f, p.key, p.input, p.status, p.invoked_ns,
                          p.completed_ns, array(p.shown_offset, p.shown_value) AS output))"""
_ENTRY = witness("log_entries", "node", "collection", "offset", "epoch", "kind", "f", "key", "value", alias="d")

_FAMILY = "CASE f WHEN 'cas' THEN 'write' ELSE f END"

PLACED = f"""
settled AS (
    SELECT d.*, {_FAMILY} AS family, coalesce(d.key, -1) AS object
    FROM disk AS d
    LEFT ANTI JOIN (SELECT * FROM contested WHERE NOT committed) AS u
        ON u.run_id = d.run_id AND u.identity = d.identity AND u.collection = d.collection AND u.offset = d.offset
    WHERE d.final
),
attempts AS (
    SELECT run_id, op_id, process, client_node, f, key, input, output, status, error, invoked_ns, completed_ns,
           CASE WHEN status = 'ok' THEN CASE f WHEN 'register' THEN get(output, 0) ELSE offset END END AS offset,
           {_FAMILY} AS family, CASE f WHEN 'register' THEN -1 ELSE coalesce(key, -1) END AS object,
           CASE f WHEN 'add' THEN get(output, 0) + get(input, 0) ELSE get(input, size(input) - 1) END AS value
    FROM operations
    WHERE f IN ('write', 'cas', 'append', 'add', 'register')
),
once AS (
    SELECT run_id, family, object, value, min_by(status, op_id) AS status, min_by(struct(*), op_id) AS attempt
    FROM attempts WHERE value IS NOT NULL
    GROUP BY run_id, family, object, value
    HAVING count(*) = 1
),
on_disk AS (
    SELECT run_id, family, object, value, min(offset) AS offset,
           min_by({_ENTRY}, struct(offset, node)) AS first_entry, max(offset) AS last_offset,
           max_by({_ENTRY}, struct(offset, node)) AS last_entry
    FROM settled AS d
    WHERE value IS NOT NULL AND family IS NOT NULL
    GROUP BY run_id, family, object, value
),
placed AS (
    SELECT o.attempt.*, coalesce(o.attempt.offset, e.offset) AS place, e.first_entry AS entry
    FROM once AS o
    LEFT JOIN on_disk AS e
        ON e.run_id = o.run_id AND e.family = o.family AND e.object = o.object AND e.value = o.value
    WHERE o.status <> 'fail'
)"""
"""Common table expressions: records on final disks that are not in doubt (``settled``, ``on_disk``), changes that were attempted, and those
attempted once with their place in the log (``placed``)."""

_SHOWN = """
polls AS (
    SELECT * FROM operations WHERE f = 'poll' AND status = 'ok'
),
pairs AS (
    SELECT run_id, op_id, process, client_node, f, key, input, status, invoked_ns, completed_ns, coalesce(key, -1) AS object,
           output[2 * number] AS shown_offset, output[2 * number + 1] AS shown_value
    FROM polls LATERAL VIEW explode(sequence(0, CAST(size(output) / 2 AS INT) - 1)) AS number
    WHERE size(output) >= 2
)"""

_STATEMENTS = f"""
told AS (
    SELECT run_id, object, offset, value, 'append' = family AS readable, min_by({_OPERATION}, a.op_id) AS witness,
           min(op_id) AS op_id, count(*) AS times
    FROM attempts AS a
    WHERE offset IS NOT NULL
    GROUP BY run_id, object, offset, value, 'append' = family
    UNION ALL
    SELECT run_id, object, shown_offset, shown_value, true, min_by({_PAIR}, p.op_id), min(op_id), count(*)
    FROM pairs AS p
    GROUP BY run_id, object, shown_offset, shown_value
),
told_offsets AS (SELECT DISTINCT run_id, offset FROM told),
statements AS (
    SELECT run_id, offset, struct(object, value) AS content, witness, op_id, 0 AS disks FROM told
    UNION ALL
    SELECT d.run_id, d.offset, struct(d.object, d.value), min({_ENTRY}), CAST(NULL AS BIGINT), 1
    FROM settled AS d
    LEFT SEMI JOIN told_offsets AS t ON t.run_id = d.run_id AND t.offset = d.offset
    GROUP BY d.run_id, d.offset, d.object, d.value
),
by_offset AS (
    SELECT run_id, offset, min(content) AS low, max(content) AS high, min_by(witness, content) AS low_witness,
           max_by(witness, content) AS high_witness, array_sort(collect_set(op_id)) AS operations, count(*) AS sources
    FROM statements
    GROUP BY run_id, offset
),
by_value AS (
    SELECT s.run_id, s.object, s.value, min(s.offset) AS low, max(s.offset) AS high, min_by(s.witness, s.offset) AS low_witness,
           max_by(s.witness, s.offset) AS high_witness, array_sort(collect_set(s.op_id)) AS operations
    FROM (
        SELECT run_id, object, offset, value, witness, op_id FROM told
        UNION ALL
        SELECT run_id, object, offset, value, first_entry, CAST(NULL AS BIGINT) FROM on_disk
        UNION ALL
        SELECT run_id, object, last_offset, value, last_entry, CAST(NULL AS BIGINT) FROM on_disk
    ) AS s
    LEFT SEMI JOIN once AS o ON o.run_id = s.run_id AND o.object = s.object AND o.value = s.value
    GROUP BY s.run_id, s.object, s.value
    HAVING min(s.offset) <> max(s.offset)
)"""

_ORDER = f"""
moments AS (
    SELECT run_id, op_id, invoked_ns AS ts_ns, 0 AS is_return, place, CAST(NULL AS STRING) AS witness,
           struct(a.*) AS a
    FROM placed AS a WHERE place IS NOT NULL
    UNION ALL
    SELECT run_id, op_id, completed_ns, 1, place, to_json(array({_OPERATION}, entry)), struct(a.*)
    FROM placed AS a WHERE place IS NOT NULL AND status = 'ok'
),
floors AS (
    SELECT *, max(CASE WHEN is_return = 1 THEN struct(place, op_id, witness) END) OVER (
                  PARTITION BY run_id ORDER BY ts_ns, is_return, op_id
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS floor
    FROM moments
),
late AS (
    SELECT run_id, a, place, floor FROM floors WHERE is_return = 0 AND place < floor.place
)"""

_HOLES = f"""
known AS (
    SELECT run_id, object, offset, min_by(witness, op_id) AS witness, min(op_id) AS op_id
    FROM told WHERE readable GROUP BY run_id, object, offset
),
covers AS (
    SELECT *, coalesce(key, -1) AS object, CAST(size(output) / 2 AS BIGINT) AS shown,
           CASE WHEN size(output) >= 2 THEN element_at(output, -2) + 1
                WHEN consistency = 'linearizable' THEN offset ELSE get(input, 0) END AS until
    FROM polls
),
marks AS (
    SELECT run_id, object, offset AS place, 1 AS is_known, CAST(NULL AS BIGINT) AS op_id, 0 AS sign FROM known
    UNION ALL
    SELECT run_id, object, get(input, 0), 0, op_id, -1 FROM covers WHERE until > get(input, 0)
    UNION ALL
    SELECT run_id, object, until, 0, op_id, 1 FROM covers WHERE until > get(input, 0)
),
counted_marks AS (
    SELECT *, sum(is_known) OVER (PARTITION BY run_id, object ORDER BY place, is_known
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS below
    FROM marks
),
expected AS (
    SELECT run_id, op_id, sum(sign * below) AS expected FROM counted_marks WHERE is_known = 0 GROUP BY run_id, op_id
),
short AS (
    SELECT c.* FROM covers AS c INNER JOIN expected AS e ON e.run_id = c.run_id AND e.op_id = c.op_id
    WHERE e.expected > c.shown
),
holes AS (
    SELECT s.run_id, s.op_id, min_by(struct(k.offset, k.witness, k.op_id), k.offset) AS missing, min(s.until) AS until,
           min({witness("operations", *_POLL_COLUMNS, alias="s")}) AS witness
    FROM short AS s
    INNER JOIN known AS k
        ON k.run_id = s.run_id AND k.object = s.object AND k.offset >= get(s.input, 0) AND k.offset < s.until
       AND NOT coalesce(array_contains(transform(sequence(0, CAST(s.shown AS INT)), n -> get(s.output, 2 * n)), k.offset), false)
    GROUP BY s.run_id, s.op_id
)"""

_POLLED = f"""
unasked AS (
    SELECT p.run_id, p.object, p.shown_offset, p.shown_value, min_by({_PAIR}, p.op_id) AS witness, min(p.op_id) AS op_id,
           min_by({_OPERATION}, a.op_id) AS failed
    FROM pairs AS p
    LEFT JOIN attempts AS a
        ON a.run_id = p.run_id AND a.object = p.object AND a.value = p.shown_value AND a.family = 'append'
    GROUP BY p.run_id, p.object, p.shown_offset, p.shown_value
    HAVING count_if(a.status <> 'fail') = 0
),
disorder AS (
    SELECT run_id, op_id, get(input, 0) AS begin, a.offset AS until, shown,
           {witness("operations", *_POLL_COLUMNS, "output", alias="a")} AS witness
    FROM (
        SELECT *, transform(sequence(0, CAST(size(output) / 2 AS INT) - 1), n -> output[2 * n]) AS shown
        FROM polls WHERE size(output) >= 2
    ) AS a
    WHERE shown <> array_sort(array_distinct(shown)) OR element_at(shown, -1) >= a.offset OR shown[0] < get(input, 0)
)"""

_ANOMALIES = f"""
    SELECT run_id, concat('offset ', offset) AS subject, NULL AS epoch, offset, operations,
           to_json(struct('offset' AS rule, low.value AS low, high.value AS high)) AS facts,
           array(low_witness, high_witness) AS witness
    FROM by_offset WHERE low <> high
    UNION ALL
    SELECT run_id, concat('value ', value), NULL, low, operations, to_json(struct('value' AS rule, value, low, high)),
           array(low_witness, high_witness)
    FROM by_value
    UNION ALL
    SELECT run_id, concat('operation ', a.op_id), NULL, place, array(floor.op_id, a.op_id),
           to_json(struct('order' AS rule, floor.place AS first, place AS late)),
           array_compact(array_append(array_append(from_json(floor.witness, 'array<string>'), {_OPERATION}), a.entry))
    FROM late
    UNION ALL
    SELECT run_id, concat('read ', op_id), NULL, missing.offset, array(missing.op_id, op_id),
           to_json(struct('hole' AS rule, missing.offset, until)), array(missing.witness, witness)
    FROM holes
    UNION ALL
    SELECT run_id, concat('value ', shown_value, ' unasked'), NULL, shown_offset, array(op_id),
           to_json(struct('unasked' AS rule, shown_offset AS offset, shown_value AS value)), array_compact(array(witness, failed))
    FROM unasked
    UNION ALL
    SELECT run_id, concat('read ', op_id, ' disorder'), NULL, begin, array(op_id),
           to_json(struct('disorder' AS rule, begin, until, element_at(shown, -1) AS last)), array(witness)
    FROM disorder"""

_TALLY = """
    SELECT run_id, sum(rows) AS evidence_rows, sum(times) AS exercised, NULL AS unknown, NULL AS metrics
    FROM (
        SELECT run_id, sum(times) AS rows, CAST(0 AS BIGINT) AS times FROM told GROUP BY run_id
        UNION ALL
        SELECT run_id, CAST(0 AS BIGINT), count_if(sources > 1) FROM by_offset GROUP BY run_id
        UNION ALL
        SELECT run_id, count(*), count_if(floor IS NOT NULL) FROM floors WHERE is_return = 0 GROUP BY run_id
    )
    GROUP BY run_id"""


def find(tables: Tables) -> DataFrame:
    """Join all statements about places in the log."""
    return tables.findings(
        given=",".join((PLACED, _SHOWN, _STATEMENTS, _ORDER, _HOLES, _POLLED)), anomalies=_ANOMALIES, tally=_TALLY
    )


def sentence(finding: Finding) -> str:
    """Say which two facts contradict each other."""
    return capital(_SENTENCES[str(finding.facts["rule"])](finding))


def _source(row: Mapping[str, Any], place: int) -> str:
    """Who says what stands at an offset."""
    if row["table"] == "log_entries":
        what = row["value"] if "value" in row else f"a record of kind {row['kind']}"
        return f"the disk of {row['node']} holds {what} at offset {place}"
    row = {"key": None, "client_node": None, **row}
    if row["f"] == "poll":
        return f"{named(row)} showed {row['output'][1]} at offset {place}"
    return f"{named(row)} was acknowledged at offset {place}"


def _say_offset(finding: Finding) -> str:
    first, second = finding.witness
    place = finding.offset or 0
    return f"{_source(first, place)}, but {_source(second, place)}."


def _say_value(finding: Finding) -> str:
    first, second = finding.witness
    facts = finding.facts
    return f"{_source(first, facts['low'])}, but {_source(second, facts['high'])}: value {facts['value']} stands at two offsets."


def _say_order(finding: Finding) -> str:
    first, late = ({"client_node": None, **row} for row in finding.witness if row["table"] == "operations")
    return (
        f"{finished_before(first, late)}, yet the {deed(first)} stands at offset {finding.facts['first']} of the log, behind the "
        f"{deed(late)} at offset {finding.facts['late']}."
    )


def _say_hole(finding: Finding) -> str:
    taken, poll = finding.witness
    place = finding.offset or 0
    poll = {"client_node": None, **poll}
    return f"{_source(taken, place)}, but {named(poll)} shows the log up to offset {finding.facts['until']} without it."


def _say_unasked(finding: Finding) -> str:
    poll = {"client_node": None, **finding.witness[0]}
    facts = finding.facts
    said = f"{named(poll)} showed {facts['value']} at offset {facts['offset']}"
    if len(finding.witness) == 1:
        return f"{said}, which nobody appended."
    failed = {"client_node": None, **finding.witness[1]}
    return f"{said}, which only {named(failed)} would have appended, and that failed ({failed.get('error')})."


def _say_disorder(finding: Finding) -> str:
    poll = {"client_node": None, **finding.witness[0]}
    facts = finding.facts
    until = facts.get("until")
    if until is not None and facts["last"] >= until:
        return f"{named(poll)} showed offset {facts['last']}, which is not below the high watermark {until} of the same answer."
    return f"{named(poll)} showed offsets that do not rise from {facts['begin']} on."


_SENTENCES: Mapping[str, Callable[[Finding], str]] = {
    "offset": _say_offset,
    "value": _say_value,
    "order": _say_order,
    "hole": _say_hole,
    "unasked": _say_unasked,
    "disorder": _say_disorder,
}

LOG_POSITIONS = Check(
    name="log-positions",
    kind=Kind.SAFETY,
    requirement="KIP-595, CCF ExternalHistoryInvars",
    title="An offset holds one value and a value has one offset, for every client and on every disk; the log keeps real time.",
    situation="offsets told by more than one source, and changes that began after another was acknowledged",
    needs=(("operations",),),
    find=find,
    sentence=sentence,
)
