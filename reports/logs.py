"""The logs around a witness: which copies of which disks are drawn, and what is known of their high watermarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.evidence import matching
from reports.load import StoredRun
from reports.page import Figure
from reports.plots import log_strips
from reports.plots.describe import Row

STRIPS_MAX = 9

Copy = tuple[Any, Any]
"""node and number of the collection: one copy of one disk"""

_STRIP_LEGEND = (
    ("swatch-a", "A, B, C: contents of one offset that differ"),
    ("swatch-named", "record of the witness"),
    ("swatch-hw", "high watermark: committed to the left"),
)


def strips_figure(run: StoredRun, records: Sequence[Row], offset: int | None, number: int) -> Figure | None:
    """The logs around the records of a witness, or around the ``offset`` that it is about; None where there is neither."""
    if not records and (offset is None or not len(run.tables["log_entries"])):
        return None
    offsets = log_strips.window(records or ({"offset": offset},))
    partition = next((row["partition"] for row in records if row.get("partition")), None)
    strips = _nearby(run, records, offsets, partition)
    if not strips:
        return None
    shown = strips[:STRIPS_MAX]
    where = f" in {partition}" if partition else ""
    caption = f"Offsets around {'the witness' if records else f'offset {offset}'}{where}, one strip a disk as it was collected."
    if len(strips) > len(shown):
        caption += f" {len(strips) - len(shown)} more disks are not drawn."
    svg = log_strips.draw(shown, offsets, records, f"Logs at the witness of finding {number}")
    return Figure(f"logs-{number}", "The logs, side by side", svg, caption, _STRIP_LEGEND)


def _nearby(run: StoredRun, records: Sequence[Row], offsets: Sequence[int], partition: Any) -> list[log_strips.Strip]:
    """The copies of disks that the witness names first, then the last copy of every other disk."""
    entries = run.tables["log_entries"]
    if partition is not None:
        entries = matching(entries, {"partition": partition})
    stored = entries.filter(pc.is_in(entries["offset"], pa.array(offsets, pa.int64()))).to_pylist()
    named: dict[Copy, dict[int, Row]] = {}
    for row in records:
        named.setdefault((row.get("node"), row.get("collection")), {})[int(row["offset"])] = row
    disks = {(row["node"], row["directory_id"]) for row in stored if (row["node"], row["collection"]) in named}
    last: dict[tuple[Any, Any], int] = {}
    for row in stored:
        disk = (row["node"], row["directory_id"])
        last[disk] = max(row["collection"], last.get(disk, 0))
    copies = {copy: dict(rows) for copy, rows in named.items()}
    for row in stored:
        copy, disk = (row["node"], row["collection"]), (row["node"], row["directory_id"])
        if copy in named or (disk not in disks and row["collection"] == last[disk]):
            copies.setdefault(copy, {}).setdefault(row["offset"], row)
    ordered = sorted(copies, key=lambda copy: (copy not in named, str(copy[0]), copy[1] or 0))
    return [_strip(run, entries, copy, copies[copy]) for copy in ordered]


def _strip(run: StoredRun, entries: pa.Table, copy: Copy, records: Mapping[int, Row]) -> log_strips.Strip:
    node, collection = copy
    directory = next((row["directory_id"] for row in records.values() if row.get("directory_id")), "")
    told = "" if collection is None else f"copy {collection}"
    detail = " · ".join(part for part in (str(directory)[:8], told) if part)
    mark = _stored_high_watermark(entries, copy)
    if mark is None:
        mark = _sampled_high_watermark(run.tables["quorum_samples"], node)
    return log_strips.Strip(str(node or "?"), detail, collection, records, mark)


def _stored_high_watermark(entries: pa.Table, copy: Copy) -> int | None:
    """One above the last record that the node itself called committed on this disk."""
    wanted = {name: content for name, content in zip(("node", "collection"), copy, strict=True) if content is not None}
    own = matching(entries.filter(pc.fill_null(entries["below_high_watermark"], False)), wanted)
    last = pc.max(own["offset"]).as_py() if len(own) else None
    return None if last is None else int(last) + 1


def _sampled_high_watermark(samples: pa.Table, node: Any) -> int | None:
    own = samples.filter(pc.equal(samples["node"], str(node)))
    greatest = pc.max(own["high_watermark"]).as_py() if len(own) else None
    return int(greatest) if greatest is not None else None
