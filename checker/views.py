"""Derivations that several checks share, each a view over the tables.

**What counts as committed.** Nobody can photograph the global state, so only facts that stay true are used. A node that reports
high watermark *h* states that the records of *its own log* below *h* are committed, for ever. Hence

* ``claimed``: for each copy of a node's disk, the highest high watermark that this *identity* had reported before the copy was
  taken: its own events, answers in which it claimed leadership, its own mark on the records. Records below it on that copy are
  committed. Copies are taken when a process has ended, so all events of that incarnation come before; answers are ordered by
  the controller's clock, on which both were recorded. A wiped disk is another identity and inherits nothing, and nor does a
  disk whose log a fault has changed (:mod:`checker.remembered`). A voter reports a high watermark over records that it has
  synced, so a power cut takes nothing from these claims.
* ``epochs``: for each epoch, the highest high watermark that its *leader* reported, and where the epoch begins (its LeaderChange
  record on any disk, or the leader's first append). All records below that high watermark were in that leader's log, so
  they are of its epoch or older ones; the leader of a later epoch has them all. Therefore an epoch that begins below the high
  watermark of an older epoch (``epochs.before``) contradicts it: this needs no content, so it convicts black boxes too, and it
  holds even where the reporting node has meanwhile replaced its records.

A later restart forgets a high watermark, a slow follower reports an old one: both only make claims weaker. ``contested`` are all
records on disks at offsets where any two disks differ: uncommitted tails, mostly; a table that is small in every healthy run.
"""

from __future__ import annotations

from checker.remembered import VIEWS as REMEMBERED
from checker.remembered import damages
from checker.tables import SMALL_ROWS, Tables

_EVENTS = "SELECT *, concat_ws('/', node, directory_id) AS identity FROM node_events"

_DISK = "SELECT *, concat_ws('/', node, directory_id) AS identity FROM log_entries"

_STATES = "SELECT *, concat_ws('/', node, directory_id) AS identity FROM quorum_states"

_EPOCH_RANGES = """
SELECT run_id, node, identity, collection, epoch, bool_or(final) AS final,
       min(offset) AS first_offset, max(offset) AS last_offset, count(*) AS records,
       min_by(kind, offset) AS first_kind
FROM disk
GROUP BY run_id, node, identity, collection, epoch
"""
"""for each copy of a disk, where each epoch begins and ends: what most checks of logs need of millions of records"""

_COPIES = f"""
SELECT *, concat(identity, '#', log_damaged) AS log_memory
FROM (
SELECT b.*, {damages("log", "coalesce(d.ts_ns <= b.ts_ns, b.final)")} AS log_damaged,
       CASE WHEN m.log IS NOT NULL
            THEN array_max(transform(filter(m.log, d -> coalesce(d.ts_ns <= b.ts_ns, b.final)), d -> d.ts_ns)) END AS damaged_ns
FROM (
SELECT run_id, node, identity, collection,
       coalesce(bool_or(final), false) AS final, max(incarnation) AS incarnation, max(ts_ns) AS ts_ns,
       min(log_start) AS log_start, max(log_end) AS log_end
FROM (
    SELECT run_id, node, identity, collection, final, CAST(NULL AS INT) AS incarnation, CAST(NULL AS BIGINT) AS ts_ns,
           first_offset AS log_start, last_offset + 1 AS log_end
    FROM epoch_ranges
    UNION ALL
    SELECT run_id, node, identity, collection, CAST(NULL AS BOOLEAN), incarnation, ts_ns, log_start, log_end
    FROM stored_states
)
GROUP BY run_id, node, identity, collection
) AS b
LEFT JOIN damages AS m ON m.run_id = b.run_id AND m.node = b.node
)
"""
"""one row a copy of a disk: whose, of which incarnation, when, from where to where its log goes, and when a fault last changed that"""

_CLAIMS = """
SELECT run_id, node, log_memory, incarnation, CAST(NULL AS BIGINT) AS asked_ns, max(ts_ns) AS ts_ns, epoch,
       state = 'leader' AS leading, max(high_watermark) AS high_watermark, 'node_events' AS source
FROM remembered_events
WHERE kind = 'high_watermark' AND high_watermark >= 0
GROUP BY run_id, node, log_memory, incarnation, epoch, state = 'leader'
UNION ALL
SELECT run_id, node, CAST(NULL AS STRING), CAST(NULL AS INT), asked_ns, ts_ns, epoch, true, high_watermark, 'quorum_samples'
FROM quorum_samples
WHERE claims_leadership AND error IS NULL AND high_watermark >= 0
"""
"""who reported which high watermark; of events only the highest of each incarnation and epoch"""

_BIRTHS = """
SELECT run_id, node, concat_ws('/', node, directory_id) AS identity,
       CASE WHEN row_number() OVER (PARTITION BY run_id, node ORDER BY min(ts_ns)
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) = 1
            THEN CAST(-1 AS BIGINT) ELSE min(ts_ns) END AS since_ns,
       collect_list(CASE WHEN kind = 'swap' THEN ts_ns END) AS swaps
FROM lifecycle
WHERE kind IN ('format', 'start', 'swap')
GROUP BY run_id, node, directory_id
"""
"""since when a node had which identity, and when its disk was taken out and came back; the first it had from the beginning"""

_CLAIMED = """
SELECT c.run_id, c.node, c.identity, c.collection, c.final, c.ts_ns, c.log_start, c.log_end, c.log_damaged,
       max(h.high_watermark) AS high_watermark,
       max_by(struct(h.source AS table, h.node, h.epoch, h.high_watermark, h.ts_ns), h.high_watermark) AS claim
FROM copies AS c
LEFT JOIN births AS b ON b.run_id = c.run_id AND b.node = c.node AND b.identity = c.identity
INNER JOIN claims AS h
    ON h.run_id = c.run_id AND h.node = c.node
   AND CASE WHEN h.source = 'node_events'
            THEN h.log_memory = c.log_memory AND (h.incarnation <= c.incarnation OR c.final)
            ELSE h.asked_ns >= greatest(b.since_ns, c.damaged_ns, -1) AND (h.ts_ns <= c.ts_ns OR c.final)
                 AND coalesce(size(filter(b.swaps, t -> t <= h.asked_ns)) % 2, 0) <= 0 END
GROUP BY c.run_id, c.node, c.identity, c.collection, c.final, c.ts_ns, c.log_start, c.log_end, c.log_damaged
"""

_EPOCH_BEGINS = """
SELECT run_id, epoch, min(offset) AS begins_at, min_by(proof, offset) AS begin
FROM (
    SELECT run_id, epoch, offset,
           to_json(struct('log_entries' AS table, node, collection, offset, epoch, kind, leader)) AS proof
    FROM disk
    WHERE kind = 'leader_change'
    UNION ALL
    SELECT run_id, epoch, offset, to_json(struct('node_events' AS table, node, incarnation, seq, kind, state, offset, epoch))
    FROM events
    WHERE kind = 'append' AND state = 'leader'
)
GROUP BY run_id, epoch
"""

_EPOCHS = """
SELECT *,
       max(high_watermark) OVER earlier AS before,
       max(struct(high_watermark, epoch, claim)) OVER earlier AS before_claim
FROM (
    SELECT coalesce(b.run_id, h.run_id) AS run_id, coalesce(b.epoch, h.epoch) AS epoch, b.begins_at, b.begin,
           h.high_watermark, h.claim
    FROM epoch_begins AS b
    FULL OUTER JOIN (
        SELECT run_id, epoch, max(high_watermark) AS high_watermark,
               max_by(to_json(struct(source AS table, node, ts_ns, epoch, high_watermark)), high_watermark) AS claim
        FROM claims
        WHERE leading
        GROUP BY run_id, epoch
    ) AS h ON h.run_id = b.run_id AND h.epoch = b.epoch
)
WINDOW earlier AS (PARTITION BY run_id ORDER BY epoch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""

_OFFSETS = """
SELECT run_id, offset, count(*) AS records, min(identity) <> max(identity) AS shared,
       min(epoch) <> max(epoch) OR min(checksum) <> max(checksum) AS differ
FROM disk
GROUP BY run_id, offset
"""

_CONTESTED = """
SELECT d.run_id, d.node, d.identity, d.collection, d.final, d.offset, d.epoch, d.kind, d.checksum, d.f, d.key, d.value,
       coalesce(d.offset < c.high_watermark, false) OR coalesce(d.below_high_watermark, false) AS committed,
       c.claim, k.log_memory
FROM disk AS d
INNER JOIN (SELECT run_id, offset FROM offsets WHERE differ) AS o ON o.run_id = d.run_id AND o.offset = d.offset
LEFT JOIN claimed AS c
    ON c.run_id = d.run_id AND c.node = d.node AND c.identity = d.identity AND c.collection = d.collection
LEFT JOIN copies AS k
    ON k.run_id = d.run_id AND k.node = d.node AND k.identity = d.identity AND k.collection = d.collection
"""

_VIEWS = (
    ("events", _EVENTS, False),
    ("disk", _DISK, False),
    ("stored_states", _STATES, False),
    *REMEMBERED,
    ("epoch_ranges", _EPOCH_RANGES, True),
    ("copies", _COPIES, True),
    ("claims", _CLAIMS, True),
    ("births", _BIRTHS, True),
    ("claimed", _CLAIMED, True),
    ("epoch_begins", _EPOCH_BEGINS, False),
    ("epochs", _EPOCHS, True),
    ("offsets", _OFFSETS, True),
    ("contested", _CONTESTED, True),
)
"""name, query, and whether it is computed once (small ones, and ``offsets``, which two plans need)"""


_ONCE_IF_FEW = frozenset({"remembered_events", "remembered_states"})
"""as large as tables, and in so many plans that those of a few rows are planned faster around a copy"""


def define_views(tables: Tables) -> None:
    """Make the shared views; each is computed when the first job needs it, and once."""
    few = tables.row_count <= SMALL_ROWS
    for name, query, once in _VIEWS:
        tables.define(name, query, once=once or (few and name in _ONCE_IF_FEW))
