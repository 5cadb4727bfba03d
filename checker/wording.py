"""Words for the sentences of anomalies, and the SQL that puts a row into a witness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_ANOMALY_COLUMNS = "NULL AS operations, NULL AS facts"

SET_BACK_NS = "CAST(CAST(regexp_extract(detail, 'set back ([0-9.]+) s', 1) AS DOUBLE) * 1e9 AS BIGINT)"
"""SQL: by how much a row ``clock`` of lifecycle says that a clock was set back"""


def witness(table: str, *columns: str, alias: str = "") -> str:
    """SQL that makes a witness row, a JSON object, of ``columns``; ``alias`` is the relation's name in the query."""
    prefix = f"{alias}." if alias else ""
    named = ", ".join(f"{prefix}{column} AS {column}" for column in columns)
    return f"to_json(struct('{table}' AS table, {named}))"


def at(ts_ns: int | None) -> str:
    """``at 3.214 s``, or nothing where no time is known."""
    return "" if ts_ns is None else f" at {ts_ns / 1e9:.3f} s"


def seconds(ns: int) -> str:
    """``14.2 s``."""
    return f"{ns / 1e9:.1f} s"


def node_of(row: Mapping[str, Any]) -> str:
    """The node, with its incarnation where the row has one: ``n1 (incarnation 2)``."""
    incarnation = row.get("incarnation")
    return f"{row['node']}" if incarnation is None else f"{row['node']} (incarnation {incarnation})"


def disk_of(row: Mapping[str, Any]) -> str:
    """The copy of a disk that a record was read from: ``n1's disk (copy 2)``."""
    return f"{row['node']}'s disk (copy {row['collection']})"


def record_of(row: Mapping[str, Any]) -> str:
    """A record with its place: ``offset 88 on n1's disk (copy 2) holds epoch 7, checksum 5a3f``."""
    return (
        f"offset {row['offset']} on {disk_of(row)} holds a record of epoch {row['epoch']} with checksum {checksum(row)}"
    )


def checksum(row: Mapping[str, Any]) -> str:
    """A checksum in hexadecimal."""
    return "?" if row.get("checksum") is None else f"{int(row['checksum']) & 0xFFFFFFFF:08x}"


def claim_of(row: Mapping[str, Any]) -> str:
    """Who reported which high watermark: ``n1 reported high watermark 100 in epoch 6 at 3.2 s``."""
    return (
        f"{row['node']} reported high watermark {row['high_watermark']} in epoch {row['epoch']}{at(row.get('ts_ns'))}"
    )
