"""Findings: each anomaly with its witness drawn and its raw rows as a table with the contradicting cells marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checker.verdict import Anomaly, CheckResult, Kind, Verdict
from clusters.evidence.schema import TABLES
from reports.evidence import completed, matching
from reports.load import StoredRun
from reports.page import Cell, Figure, Finding, Grid
from reports.plots import log_strips, votes, warped
from reports.plots.describe import Row, checksum, end_ns, moment_ns, value
from reports.plots.frame import Band
from workloads.history.schema import FAULTS, OPERATIONS

DRAWN_PER_CHECK = 8
"""findings of one check that are drawn; all others are counted, and their sentences listed"""
STRIPS_MAX = 9

Copy = tuple[Any, Any]
"""node and number of the collection: one copy of one disk"""

_KINDS = (Kind.SAFETY, Kind.LIVENESS, Kind.FRAMEWORK)
_NEVER_MARKED = frozenset(
    (
        *(
            "run_id",
            "table",
            "node",
            "directory_id",
            "peer_directory_id",
            "client_node",
            "collection",
            "final",
            "incarnation",
            "seq",
        ),
        *("ts_ns", "asked_ns", "invoked_ns", "completed_ns", "planned_ns", "started_ns", "ended_ns"),
        *("op_id", "process", "pinned", "phase", "fault_id", "f", "kind", "input", "detail"),
    )
)
"""columns that say who, when or where: to differ in them is no contradiction"""
_OUTCOME_LEGEND = (
    ("swatch-ok", "● ok: acknowledged"),
    ("swatch-info", "▶ info: no answer, open to the right"),
    ("swatch-fail", "✕ fail"),
    ("swatch-band", "fault"),
)
_STRIP_LEGEND = (
    ("swatch-a", "A, B, C: contents of one offset that differ"),
    ("swatch-named", "record of the witness"),
    ("swatch-hw", "high watermark: committed to the left"),
)
_VOTE_LEGEND = (("swatch-vote", "two candidates of one voter in one epoch"),)


def violated(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Checks with anomalies, safety first; the worst of the page stands on top."""
    found = [result for result in results if result.anomalies]
    return sorted(found, key=lambda result: (result.verdict is not Verdict.INVALID, _KINDS.index(result.kind)))


def findings(run: StoredRun, bands: tuple[Band, ...], warnings: list[str]) -> tuple[Finding, ...]:
    """All stored anomalies as findings, numbered through; a drawing that fails becomes a warning."""
    made: list[Finding] = []
    for result in violated(run.verdict.checks):
        for i, anomaly in enumerate(result.anomalies):
            number = len(made) + 1
            figures: tuple[Figure, ...] = ()
            if i < DRAWN_PER_CHECK:
                try:
                    figures = _figures(run, anomaly, bands, number)
                except Exception as error:  # whatever a drawing meets, the finding itself is told
                    warnings.append(
                        f"The witness of finding {number} could not be drawn ({type(error).__name__}: {error})."
                    )
            made.append(
                Finding(
                    number=number,
                    check=result.check,
                    kind=anomaly.severity.value,
                    requirement=result.requirement,
                    title=result.title,
                    subject=anomaly.subject,
                    message=anomaly.message,
                    figures=figures,
                    seconds=_window(anomaly),
                    grids=_grids(anomaly) if i < DRAWN_PER_CHECK else (),
                )
            )
    return tuple(made)


def flags(results: Iterable[CheckResult], found: tuple[Finding, ...]) -> tuple[tuple[int, int, str], ...]:
    """Where the drawn findings stand in time: (first moment of the witness, number, anchor)."""
    anomalies = [anomaly for result in violated(results) for anomaly in result.anomalies]
    placed = []
    for anomaly, finding in zip(anomalies, found, strict=True):
        moments = [at for row in anomaly.witness if (at := moment_ns(row)) is not None]
        if finding.figures and moments:
            placed.append((min(moments), finding.number, finding.anchor))
    return tuple(placed)


def not_drawn(results: Iterable[CheckResult]) -> tuple[str, ...]:
    """What is left out of the drawings, in numbers."""
    said = []
    for result in violated(results):
        stored = len(result.anomalies)
        total = max(stored, result.anomaly_count)
        if stored > DRAWN_PER_CHECK:
            said.append(
                f"{result.check}: {DRAWN_PER_CHECK} of {stored} findings are drawn, the others are told in one sentence each."
            )
        if total > stored:
            said.append(
                f"{result.check}: {total:,} were found, {stored} are stored with their witness; the others differ in nothing but place."
            )
    return tuple(said)


def _figures(run: StoredRun, anomaly: Anomaly, bands: tuple[Band, ...], number: int) -> tuple[Figure, ...]:
    witness = completed(anomaly.witness, run.tables)
    figures = []
    cast = [row for row in witness if votes.is_vote(row)]
    drawn_votes = len(cast) > 1
    if drawn_votes:
        svg = votes.draw(cast, f"Votes of finding {number}")
        figures.append(Figure(f"votes-{number}", "Votes", svg, legend=_VOTE_LEGEND))
    records = [row for row in witness if row.get("table") == "log_entries"]
    if records:
        figures.append(_strips(run, records, number))
    rest = [row for row in witness if row.get("table") != "log_entries" and not (drawn_votes and votes.is_vote(row))]
    if rest:
        svg = warped.draw(rest, bands, f"Witness of finding {number} in warped time")
        legend = _OUTCOME_LEGEND if any(row.get("table") == "operations" for row in rest) else (_OUTCOME_LEGEND[3],)
        caption = "Equal room for each event, real times below: the columns are no scale."
        figures.append(Figure(f"witness-{number}", "What happened, in order", svg, caption, legend))
    return tuple(figures)


def _window(anomaly: Anomaly) -> tuple[float, float] | None:
    """From before the first to after the last moment of the witness, in seconds of the run."""
    moments = [at for row in anomaly.witness for at in (moment_ns(row), end_ns(row)) if at is not None]
    if not moments:
        return None
    margin_ns = max(0.25e9, 0.25 * (max(moments) - min(moments)))
    return (min(moments) - margin_ns) / 1e9, (max(moments) + margin_ns) / 1e9


def _strips(run: StoredRun, records: Sequence[Row], number: int) -> Figure:
    offsets = log_strips.window(records)
    partition = next((row["partition"] for row in records if row.get("partition")), None)
    strips = _nearby(run, records, offsets, partition)
    shown = strips[:STRIPS_MAX]
    caption = f"Offsets around the witness{f' in {partition}' if partition else ''}, one strip a disk."
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


def _grids(anomaly: Anomaly) -> tuple[Grid, ...]:
    by_table: dict[str, list[Row]] = {}
    for row in anomaly.witness:
        by_table.setdefault(str(row.get("table", "rows")), []).append(row)
    return tuple(_grid(table, rows) for table, rows in by_table.items())


def _grid(table: str, rows: Sequence[Row]) -> Grid:
    order = [name for name in _columns_of(table) if any(row.get(name) is not None for row in rows)]
    order += sorted({name for row in rows for name in row if row[name] is not None} - {*order, "table", "run_id"})
    marked = {name for name in order if name not in _NEVER_MARKED and len({value(row.get(name)) for row in rows}) > 1}
    lines = tuple(
        tuple(Cell(_shown(name, row.get(name)), name in marked, isinstance(row.get(name), int)) for name in order)
        for row in rows
    )
    return Grid(f"Rows of {table}", tuple(order), lines)


def _columns_of(table: str) -> list[str]:
    schemas: dict[str, pa.Schema] = {**TABLES, "operations": OPERATIONS, "faults": FAULTS}
    return [name for name in schemas[table].names if name != "run_id"] if table in schemas else []


def _shown(name: str, content: Any) -> str:
    if name in ("checksum", "digest"):
        return checksum(content)
    if name.endswith("_ns") and isinstance(content, int):
        return f"{content / 1e9:.6f} s"
    return value(content)
