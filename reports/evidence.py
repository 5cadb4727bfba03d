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
    "rpcs": ("connection", "correlation_id", "kind"),
    "snapshots": ("node", "collection", "end_offset"),
}
"""the columns by which a row of a table is found again; by all that it tells where it lacks one of them"""
_LEAST_KEYS = 2


def completed(rows: Sequence[Row], tables: Mapping[str, pa.Table]) -> tuple[Row, ...]:
    """The rows with the columns that they lack, where exactly one stored row agrees with all that they tell."""
    return tuple(_completed(row, tables) for row in rows)


def _completed(row: Row, tables: Mapping[str, pa.Table]) -> Row:
    table = tables.get(str(row.get("table")))
    if table is None:
        return row
    keys = _KEYS.get(str(row.get("table")), ())
    told = {key: row[key] for key in row if key in table.column_names and isinstance(row[key], int | str)}
    if any(key not in told for key in keys):
        keys = tuple(told)
    if len(keys) < _LEAST_KEYS:
        return row
    found = matching(table, {key: told[key] for key in keys}).to_pylist()
    same = [stored for stored in found if all(stored[key] == told[key] for key in told)]
    if len(same) > 1 and "kind" not in told:
        # A report of a high watermark is repeated by whatever else the node did at that moment.
        same = [stored for stored in same if stored.get("kind") == "high_watermark"]
    return {**same[0], **row} if len(same) == 1 else row


def matching(table: pa.Table, wanted: Mapping[str, Any]) -> pa.Table:
    """The rows whose columns have the wanted values."""
    for name, content in wanted.items():
        table = table.filter(pc.equal(table[name], pa.scalar(content, table[name].type)))
    return table
