"""Findings: each anomaly with its witness drawn and its raw rows as a table with the contradicting cells marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from checker.verdict import Anomaly, CheckResult, Kind, Verdict
from clusters.evidence.schema import TABLES
from reports.evidence import completed
from reports.load import StoredRun
from reports.logs import strips_figure
from reports.page import Cell, Figure, Finding, FindingGroup, Grid
from reports.plots import votes, warped
from reports.plots.describe import Row, checksum, end_ns, moment_ns, value
from reports.plots.frame import Band
from workloads.history.schema import FAULTS, OPERATIONS

DRAWN_PER_CHECK = 3
"""findings of one check that are drawn; all others are counted, and their sentences listed"""

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


def groups(results: Iterable[CheckResult], found: tuple[Finding, ...]) -> tuple[FindingGroup, ...]:
    """The findings by check, with how many were found in all."""
    made = []
    for result in violated(results):
        own = tuple(finding for finding in found if finding.check == result.check)
        total = max(len(own), result.anomaly_count)
        told = own[DRAWN_PER_CHECK:]
        more = []
        if told:
            more.append(f"{len(told)} more of {result.check}, told in one sentence each")
        if total > len(own):
            more.append(f"{total - len(own):,} beyond these were found and counted")
        broken = result.verdict is Verdict.INVALID
        drawn = own[:DRAWN_PER_CHECK]
        made.append(FindingGroup(result.check, result.kind.value, broken, total, drawn, told, "; ".join(more)))
    return tuple(made)


def _figures(run: StoredRun, anomaly: Anomaly, bands: tuple[Band, ...], number: int) -> tuple[Figure, ...]:
    witness = completed(anomaly.witness, run.tables)
    figures = []
    cast = [row for row in witness if votes.is_vote(row)]
    drawn_votes = len(cast) > 1
    if drawn_votes:
        svg = votes.draw(cast, f"Votes of finding {number}")
        figures.append(Figure(f"votes-{number}", "Votes", svg, legend=_VOTE_LEGEND))
    records = [row for row in witness if row.get("table") == "log_entries" and row.get("offset") is not None]
    around = strips_figure(run, records, anomaly.offset, number)
    if around is not None and records:
        figures.append(around)
    rest = [row for row in witness if row.get("table") != "log_entries" and not (drawn_votes and votes.is_vote(row))]
    if rest:
        svg = warped.draw(rest, bands, f"Witness of finding {number} in warped time")
        legend = _OUTCOME_LEGEND if any(row.get("table") == "operations" for row in rest) else (_OUTCOME_LEGEND[3],)
        caption = "Equal room for each event, real times below: the columns are no scale."
        figures.append(Figure(f"witness-{number}", "What happened, in order", svg, caption, legend))
    if around is not None and not records:
        figures.append(around)
    return tuple(figures)


def _window(anomaly: Anomaly) -> tuple[float, float] | None:
    """From before the first to after the last moment of the witness, in seconds of the run."""
    moments = [at for row in anomaly.witness for at in (moment_ns(row), end_ns(row)) if at is not None]
    if not moments:
        return None
    margin_ns = max(0.25e9, 0.25 * (max(moments) - min(moments)))
    return (min(moments) - margin_ns) / 1e9, (max(moments) + margin_ns) / 1e9


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
