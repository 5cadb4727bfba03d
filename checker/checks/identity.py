"""Identity: a node is the pair of its id and the directory id of its disk (R853-29 … R853-34).

*identity*, where the candidate promises directory ids: a disk that was wiped is gone, so its directory id must not act again in a
later incarnation; one directory id belongs to one node; one incarnation has one directory id; and nobody acts without one. In the
messages between nodes, candidates and those who fetch name theirs (Vote since version 1, Fetch since 17): not none, and not two on one
connection, which belongs to one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checker.check import Check, Finding
from checker.verdict import Kind
from checker.wording import at, witness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from checker.tables import Tables

_EVENT = witness("node_events", "node", "directory_id", "incarnation", "seq", "ts_ns", "kind", "state", "epoch")
_STORED = witness("quorum_states", "node", "directory_id", "incarnation", "collection", "ts_ns", "epoch")
_LIFE = witness("lifecycle", "node", "directory_id", "assigned", "incarnation", "kind", "ts_ns")

_SAID = witness(
    "rpcs",
    "connection",
    "correlation_id",
    "kind",
    "ts_ns",
    "src",
    "dst",
    "api",
    "version",
    "replica",
    "replica_directory_id",
)

_ACTS = f"""
said AS (
    SELECT * FROM rpcs
    WHERE kind = 'request' AND replica = src AND problem IS NULL AND (api = 'Vote' AND version >= 1 OR api = 'Fetch' AND version >= 17)
),
acts AS (
    SELECT run_id, node, directory_id, incarnation, min_by({_EVENT}, seq) AS proof, count(*) AS rows
    FROM events GROUP BY run_id, node, directory_id, incarnation
    UNION ALL
    SELECT run_id, node, directory_id, incarnation, min({_STORED}), count(*)
    FROM stored_states GROUP BY run_id, node, directory_id, incarnation
    UNION ALL
    SELECT run_id, node, CASE WHEN NOT assigned THEN directory_id END, incarnation, min_by({_LIFE}, ts_ns), count(*)
    FROM lifecycle WHERE kind = 'start' GROUP BY run_id, node, CASE WHEN NOT assigned THEN directory_id END, incarnation
    UNION ALL
    SELECT run_id, src, replica_directory_id, CAST(NULL AS INT), min_by({_SAID}, ts_ns), count(*)
    FROM said GROUP BY run_id, src, replica_directory_id
),
wipes AS (
    SELECT run_id, node, directory_id, min(incarnation) AS incarnation, min_by({_LIFE}, ts_ns) AS proof
    FROM lifecycle WHERE kind = 'wipe' AND directory_id IS NOT NULL
    GROUP BY run_id, node, directory_id
)"""


def _find(tables: Tables) -> DataFrame:
    return tables.findings(
        given=_ACTS,
        anomalies=f"""
            SELECT a.run_id, concat(a.node, ' ', a.directory_id, ' after its wipe') AS subject, NULL AS epoch, NULL AS offset,
                   NULL AS operations, to_json(struct('wiped' AS rule)) AS facts,
                   array(min(w.proof), min_by(a.proof, a.incarnation)) AS witness
            FROM acts AS a
            INNER JOIN wipes AS w
                ON w.run_id = a.run_id AND w.node = a.node AND w.directory_id = a.directory_id AND a.incarnation > w.incarnation
            GROUP BY a.run_id, a.node, a.directory_id
            UNION ALL
            SELECT run_id, concat('directory ', directory_id), NULL, NULL, NULL, to_json(struct('shared' AS rule)),
                   array(min_by(proof, node), max_by(proof, node))
            FROM acts WHERE directory_id IS NOT NULL
            GROUP BY run_id, directory_id HAVING min(node) <> max(node)
            UNION ALL
            SELECT run_id, concat(node, ' incarnation ', incarnation), NULL, NULL, NULL, to_json(struct('two' AS rule)),
                   array(min_by(proof, directory_id), max_by(proof, directory_id))
            FROM acts WHERE directory_id IS NOT NULL AND incarnation > 0
            GROUP BY run_id, node, incarnation HAVING min(directory_id) <> max(directory_id)
            UNION ALL
            SELECT run_id, concat('connection ', connection), NULL, NULL, NULL, to_json(struct('two' AS rule)),
                   array(min_by({_SAID}, replica_directory_id), max_by({_SAID}, replica_directory_id))
            FROM said WHERE replica_directory_id IS NOT NULL
            GROUP BY run_id, connection HAVING min(replica_directory_id) <> max(replica_directory_id)
            UNION ALL
            SELECT run_id, concat(node, ' incarnation ', incarnation, ' without identity'), NULL, NULL, NULL,
                   to_json(struct('none' AS rule)), array(min(proof))
            FROM acts WHERE directory_id IS NULL
            GROUP BY run_id, node, incarnation""",
        tally="""
            SELECT a.run_id, sum(a.rows) AS evidence_rows, max(coalesce(w.wipes, 0)) AS exercised, NULL AS unknown,
                   NULL AS metrics
            FROM acts AS a
            LEFT JOIN (SELECT run_id, count(*) AS wipes FROM wipes GROUP BY run_id) AS w ON w.run_id = a.run_id
            GROUP BY a.run_id""",
    )


def _act(row: Mapping[str, Any]) -> str:
    if row["table"] == "rpcs":
        return f"{row['src']} in a {row['api']} request to {row['dst']}{at(row.get('ts_ns'))}"
    what = row.get("kind") or "stored quorum state"
    return f"{row['node']} in incarnation {row['incarnation']} ({what}{at(row.get('ts_ns'))})"


def _disk(row: Mapping[str, Any]) -> Any:
    return row.get("directory_id") or row.get("replica_directory_id")


def _process(row: Mapping[str, Any]) -> str:
    return f"one connection to {row['dst']}" if row["table"] == "rpcs" else f"incarnation {row['incarnation']}"


def _say(finding: Finding) -> str:
    rule = finding.facts["rule"]
    first, *others = finding.witness
    if rule == "wiped":
        return (
            f"The disk {first['directory_id']} of {first['node']} was wiped after incarnation {first['incarnation']}"
            f"{at(first.get('ts_ns'))}, yet {_act(others[0])} acts under the same directory id."
        )
    if rule == "shared":
        return f"One directory id, {_disk(first)}, belongs to two nodes: {_act(first)} and {_act(others[0])}."
    if rule == "two":
        return (
            f"{first.get('node') or first['src']} acts under two directory ids in {_process(first)}: {_disk(first)} and "
            f"{_disk(others[0])}."
        )
    return f"{_act(first)} has no directory id although the candidate promises one."


IDENTITY = Check(
    name="identity",
    kind=Kind.SAFETY,
    requirement="R853-29 … R853-34",
    title="A wiped disk never acts again, and every disk has an identity of its own.",
    situation="disks that were wiped",
    needs=(("lifecycle",), ("node_events", "quorum_states", "rpcs")),
    promises=("directory-identity",),
    find=_find,
    sentence=_say,
)
