"""What a node can be held to: the content of its disk, for as long as nobody but the node has changed it.

Raft assumes that a disk keeps what was synced to it. Checks that compare what a node does with what it did, promised or reported before
(over a restart of its process) therefore compare only within one *memory*: an identity (node and directory id), between two faults
that changed the content of its disk (``lifecycle`` kinds ``damage`` and ``restore``, which happen while the node is down).

There are two memories, since a disk holds two kinds of files, and a fault that damages one of them excuses nothing about the other:

=================== ======================================== ====================================================================
what happened       promises (epoch, vote, having led)       log (records, and what was reported of them as committed)
=================== ======================================== ====================================================================
kill, stop, crash   kept                                     kept
power cut           kept: synced before a message told so    kept; an observer's may be lost, on which nobody relies
swap, and back      kept: the disk slept                     kept
damage: segment     kept                                     lost
damage: snapshot    kept                                     lost
damage: quorum-state lost                                    kept
damage, of what     lost                                     lost
is not told
restore (old copy)  lost                                     lost
wipe                another identity, which inherits nothing and must not be taken for the old one (check ``identity``)
=================== ======================================== ====================================================================

A program that keeps its promises in no ``quorum-state`` may keep them in its log: there, damage to either is damage to both.

What the *cluster* shows is judged whatever happened to disks: two leaders in an epoch, records that differ, acknowledged values that are
gone. One voter that has forgotten can bring these about in an implementation without a mistake; they are facts about the data all the
same, and a scenario says beforehand that they may come (``[known_hazard]``).
"""

from __future__ import annotations

_DAMAGES = """
SELECT l.run_id, l.node,
       collect_list(CASE WHEN l.kind = 'restore' OR q.run_id IS NULL
                           OR coalesce(l.detail NOT LIKE 'segment %' AND l.detail NOT LIKE 'snapshot %', true)
                         THEN struct(concat_ws('/', l.node, l.directory_id) AS identity, l.incarnation, l.ts_ns) END) AS promises,
       collect_list(CASE WHEN l.kind = 'restore' OR q.run_id IS NULL OR coalesce(l.detail NOT LIKE 'quorum-state %', true)
                         THEN struct(concat_ws('/', l.node, l.directory_id) AS identity, l.incarnation, l.ts_ns) END) AS log
FROM lifecycle AS l
LEFT JOIN (SELECT DISTINCT run_id FROM quorum_states WHERE epoch IS NOT NULL) AS q ON q.run_id = l.run_id
WHERE l.kind IN ('damage', 'restore')
GROUP BY l.run_id, l.node
"""
"""one row a node whose disk a fault has changed: when its promises, and when its log were affected"""


def damages(memory: str, before: str, *, identity: str = "b.identity", node: str = "b.node") -> str:
    """How often a memory (``promises`` or ``log``) had been affected ``before`` (a condition on a damage ``d``), in SQL.

    For a query that names its rows ``b`` and has left-joined ``damages AS m``. Where either side tells no directory id, the node decides.
    """
    same = f"(d.identity = {identity} OR d.identity = {node} OR {identity} = {node})"
    return f"CASE WHEN m.{memory} IS NULL THEN 0 ELSE size(filter(m.{memory}, d -> {before} AND {same})) END"


def _remembered(source: str, before: str) -> str:
    return f"""
SELECT *, concat(identity, '#', promises_damaged) AS promises_memory, concat(identity, '#', log_damaged) AS log_memory
FROM (
    SELECT b.*, {damages("promises", before)} AS promises_damaged, {damages("log", before)} AS log_damaged
    FROM {source} AS b LEFT JOIN damages AS m ON m.run_id = b.run_id AND m.node = b.node
)
"""


VIEWS = (
    ("damages", _DAMAGES, True),
    # A disk is changed while its node is down: the next incarnation is the first to see it.
    ("remembered_events", _remembered("events", "d.incarnation < b.incarnation"), False),
    ("remembered_states", _remembered("stored_states", "d.ts_ns <= b.ts_ns"), False),
)
"""``events`` and ``stored_states`` with the memories that their rows belong to; name, query, and whether it is computed once"""
