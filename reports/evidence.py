"""Witness rows made whole for drawing: a witness carries the columns that its check needed, the stored table has all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.plots.describe import Row

_KEYS = {
    "node_events": ("node", "incarnation", "seq"),
    "log_entries": ("node", "collection", "offset"),
    "quorum_samples": ("node", "ts_ns"),
    "lifecycle": ("node", "kind", "ts_ns"),
    "snapshots": ("node", "collection", "end_offset"),
}
"""the columns by which a row of a table is found again"""


def completed(rows: Sequence[Row], tables: Mapping[str, pa.Table]) -> tuple[Row, ...]:
    """The rows with the columns that they lack, where exactly one stored row agrees with all that they tell."""
    return tuple(_completed(row, tables) for row in rows)


def _completed(row: Row, tables: Mapping[str, pa.Table]) -> Row:
    name = str(row.get("table"))
    keys = _KEYS.get(name, ())
    table = tables.get(name)
    if table is None or not keys or any(row.get(key) is None for key in keys):
        return row
    told = {key: row[key] for key in row if key in table.column_names and isinstance(row[key], int | str)}
    found = matching(table, {key: told[key] for key in keys if key in told})
    same = [stored for stored in found.to_pylist() if all(stored[key] == told[key] for key in told)]
    return {**same[0], **row} if len(same) == 1 else row


def matching(table: pa.Table, wanted: Mapping[str, Any]) -> pa.Table:
    """The rows whose columns have the wanted values."""
    for name, content in wanted.items():
        table = table.filter(pc.equal(table[name], pa.scalar(content, table[name].type)))
    return table
