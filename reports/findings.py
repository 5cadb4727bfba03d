"""Findings: each anomaly with its witness drawn and its raw rows as a table with the contradicting cells marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checker.verdict import Anomaly, CheckResult, Kind, Verdict
from clusters.evidence.schema import TABLES
from reports.load import StoredRun
from reports.page import Cell, Figure, Finding, Grid
from reports.plots import log_strips, votes, warped
from reports.plots.describe import Row, checksum, value
from reports.plots.frame import Band
from workloads.history.schema import FAULTS, OPERATIONS

DRAWN_PER_CHECK = 8
"""findings of one check that are drawn; all others are counted, and their sentences listed"""
STRIPS_MAX = 9

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
                    grids=_grids(anomaly) if i < DRAWN_PER_CHECK else (),
                )
            )
    return tuple(made)


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
    witness = anomaly.witness
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


def _strips(run: StoredRun, records: Sequence[Row], number: int) -> Figure:
    offsets = log_strips.window(records)
    partition = records[0].get("partition")
    strips = _nearby(run, records, offsets, partition)
    shown = strips[:STRIPS_MAX]
    caption = f"Offsets around the witness{f' in {partition}' if partition else ''}, one strip a disk."
    if len(strips) > len(shown):
        caption += f" {len(strips) - len(shown)} more disks are not drawn."
    svg = log_strips.draw(shown, offsets, records, f"Logs at the witness of finding {number}")
    return Figure(f"logs-{number}", "The logs, side by side", svg, caption, _STRIP_LEGEND)


def _nearby(run: StoredRun, records: Sequence[Row], offsets: Sequence[int], partition: Any) -> list[log_strips.Strip]:
    """The disks named by the witness first, then the last copy of every other disk."""
    table = run.tables["log_entries"]
    near = table.filter(pc.is_in(table["offset"], pa.array(offsets, pa.int64())))
    if partition is not None:
        near = near.filter(pc.equal(near["partition"], str(partition)))
    disks: dict[tuple[Any, Any, Any], dict[int, Row]] = {}
    for row in records:
        disks.setdefault(_disk(row), {})[int(row["offset"])] = row
    named = set(disks)
    last: dict[tuple[Any, Any], int] = {}
    stored = near.to_pylist()
    for row in stored:
        last[row["node"], row["directory_id"]] = max(row["collection"], last.get((row["node"], row["directory_id"]), 0))
    for row in stored:
        disk = _disk(row)
        if disk in named or (
            row["collection"] == last[disk[0], disk[1]] and (disk[0], disk[1]) not in {n[:2] for n in named}
        ):
            disks.setdefault(disk, {}).setdefault(row["offset"], row)
    ordered = sorted(disks, key=lambda disk: (disk not in named, str(disk[0]), str(disk[1]), disk[2] or 0))
    return [_strip(run, disk, disks[disk]) for disk in ordered]


def _strip(run: StoredRun, disk: tuple[Any, Any, Any], records: Mapping[int, Row]) -> log_strips.Strip:
    node, directory, collection = disk
    copy = "" if collection is None else f"copy {collection}"
    detail = " · ".join(part for part in (str(directory or "")[:8], copy) if part)
    below = [offset for offset, row in records.items() if row.get("below_high_watermark")]
    above = [offset for offset, row in records.items() if row.get("below_high_watermark") is False]
    mark = (
        min(above)
        if above
        else max(below) + 1
        if below
        else _sampled_high_watermark(run.tables["quorum_samples"], node)
    )
    return log_strips.Strip(str(node or "?"), detail, records, mark)


def _sampled_high_watermark(samples: pa.Table, node: Any) -> int | None:
    own = samples.filter(pc.equal(samples["node"], str(node)))
    greatest = pc.max(own["high_watermark"]).as_py() if len(own) else None
    return int(greatest) if greatest is not None else None


def _disk(row: Row) -> tuple[Any, Any, Any]:
    return row.get("node"), row.get("directory_id"), row.get("collection")


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
