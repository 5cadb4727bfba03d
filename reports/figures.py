"""The drawings over time of one run, each with its reading aid and the same facts as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from reports import findings, messages
from reports.impact import Impact
from reports.load import FAIL, INFO, OK, StoredRun
from reports.page import Cell, Figure, Finding, Grid
from reports.plots import latency, leaders, rounds, timeline
from reports.plots.frame import Backdrop, TimeAxis
from reports.plots.latency import seconds
from reports.roles import LEADER, Roles, overlaps

TABLE_ROWS = 400
"""rows of a figure's table in the page; more are counted"""

_COMMON = (("swatch-band", "fault, from injection to healing"), ("swatch-cut", "node cut off or hit"))
_STALL = (("swatch-stall", "controller stalled"),)

Window = tuple[str, NDArray[np.bool_]]
Plan = tuple[Figure, Callable[[], Markup], Callable[[], Grid | None]]
"""a figure, what draws it, and what makes its table"""


@dataclass(frozen=True, slots=True)
class Scene:
    """What all drawings of a run have in common."""

    run: StoredRun
    axis: TimeAxis
    backdrop: Backdrop
    roles: Roles
    measured: tuple[Impact, ...]
    found: tuple[Finding, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes as they were set up."""
        return tuple(node.name for node in self.run.manifest.nodes)


def time_figures(scene: Scene, warnings: list[str]) -> tuple[Figure, ...]:
    """All drawings over time. One that fails is a warning, and the page stands."""
    windows = _windows(scene)
    plans: tuple[Plan, ...] = (
        (_timeline(scene), lambda: _draw_timeline(scene), lambda: _counts_grid(scene, windows)),
        (_leaders(), lambda: _draw_leaders(scene), lambda: _leaders_grid(scene.roles)),
        *_rounds(scene),
        (_latency(scene), lambda: _draw_latency(scene), lambda: _latency_grid(scene, windows)),
        (_throughput(), lambda: _draw_throughput(scene), lambda: None),
    )
    figures = []
    for figure, draw, tabulate in plans:
        try:
            figures.append(replace(figure, svg=draw(), grid=tabulate()))
        except Exception as error:  # whatever a drawing meets, the page and its verdict stand
            warnings.append(
                f"“{figure.title}” could not be drawn ({type(error).__name__}: {error}). The verdict is not touched by that."
            )
            figures.append(figure)
    return tuple(figures)


def _timeline(scene: Scene) -> Figure:
    return Figure(
        "timeline",
        "Operations, and the faults over them",
        Markup(),
        f"All {len(scene.run.operations):,} operations by the node that their client was pinned to, counted when invoked: "
        "acknowledged upwards, failed and unanswered downwards. Each lane has its own scale.",
        (
            ("swatch-ok", "ok: acknowledged"),
            ("swatch-info", "info: no answer, may still take effect"),
            ("swatch-fail", "fail: had no effect"),
            *_COMMON,
            *(_STALL if scene.backdrop.stalls else ()),
        ),
    )


def _draw_timeline(scene: Scene) -> Markup:
    cut_off = tuple(cut for impact in scene.measured for cut in impact.cut_off)
    return timeline.draw(scene.axis, scene.run.operations, scene.nodes, scene.backdrop, cut_off)


def _leaders() -> Figure:
    return Figure(
        "leaders",
        "Leaders and epochs",
        Markup(),
        "Blocks are states by a node's own events, or by its answers where it has none; "
        "the line below a block is an unbroken series of answers as leader.",
        (
            ("swatch-leader", "leader, with its epoch"),
            ("swatch-candidate", "candidate, prospective, voted"),
            ("swatch-follower", "follower, observer"),
            ("swatch-idle", "unattached, resigned"),
            ("swatch-down", "down or paused"),
            ("swatch-claim", "answered as leader"),
            ("swatch-together", "two leaders, different epochs: the older has not noticed yet"),
            ("swatch-forbidden", "two leaders in one epoch: forbidden"),
        ),
    )


def _draw_leaders(scene: Scene) -> Markup:
    observers = frozenset(node.name for node in scene.run.manifest.nodes if node.role != "voter")
    return leaders.draw(
        scene.axis, scene.nodes, observers, scene.roles, together=overlaps(scene.roles), backdrop=scene.backdrop
    )


def _rounds(scene: Scene) -> tuple[Plan, ...]:
    """Who asked for votes; nothing where no messages were captured."""
    tried = messages.rounds(scene.run.tables["rpcs"])
    if not tried:
        return ()
    voters = sum(node.role == "voter" for node in scene.run.manifest.nodes)
    figure = Figure(
        "rounds",
        "Who asked for votes",
        Markup(),
        "Each try of a candidate, from the messages between the nodes. A pre-vote round raises no epoch; a vote round has raised it, and "
        "the number below is its epoch.",
        (
            ("swatch-pre-vote", "pre-vote round"),
            ("swatch-vote-round", "vote round"),
            ("swatch-won", "granted by a majority"),
        ),
    )

    def grid() -> Grid:
        rows: list[tuple[Cell, ...]] = [
            (
                Cell(seconds(each.started_ns)),
                Cell(each.candidate),
                Cell(each.kind),
                Cell(str(each.epoch), number=True),
                Cell(", ".join(sorted(each.asked))),
                Cell(
                    ", ".join(f"{voter} {'yes' if yes else 'no'}" for voter, yes in sorted(each.answers.items()))
                    or "none"
                ),
                Cell("won" if each.won(voters) else "not won"),
            )
            for each in tried
        ]
        return _grid("Rounds of votes", ("when", "candidate", "kind", "epoch", "asked", "answers", "outcome"), rows)

    return ((figure, lambda: rounds.draw(scene.axis, scene.nodes, voters, tried, scene.backdrop), grid),)


def _latency(scene: Scene) -> Figure:
    unanswered = int((~scene.run.operations.answered).sum())
    drawn = "Every" if len(scene.run.operations) - unanswered <= latency.POINTS else "The density of every"
    return Figure(
        "latency",
        "Latency",
        Markup(),
        f"{drawn} answered operation, by its invocation; {unanswered:,} without an answer stand above the scale. "
        "Lines are quantiles of the acknowledged ones.",
        (
            ("swatch-ok", "ok (dot)"),
            ("swatch-fail", "fail (tick)"),
            ("swatch-info", "no answer (bars above the scale)"),
            ("swatch-p50", "p50"),
            ("swatch-p95", "p95"),
            ("swatch-p99", "p99"),
            *((("swatch-named", "named by a finding"),) if scene.found else ()),
        ),
    )


def _draw_latency(scene: Scene) -> Markup:
    anomalies = [anomaly for result in findings.violated(scene.run.verdict.checks) for anomaly in result.anomalies]
    named: dict[int, str] = {}
    for anomaly, finding in zip(anomalies, scene.found, strict=True):
        if finding.figures:
            named.update(dict.fromkeys(anomaly.operations, finding.anchor))
    return latency.draw_latency(scene.axis, scene.run.operations, scene.backdrop, named)


def _throughput() -> Figure:
    legend = (
        ("swatch-ok", "ok"),
        ("swatch-info", "info (dashed)"),
        ("swatch-fail", "fail (dotted)"),
        ("swatch-asked", "asked for"),
    )
    return Figure("throughput", "Throughput", Markup(), "Operations a second, by invocation.", legend)


def _draw_throughput(scene: Scene) -> Markup:
    return latency.draw_throughput(scene.axis, scene.run.operations, scene.backdrop, scene.run.manifest.rate)


def _windows(scene: Scene) -> list[Window]:
    operations = scene.run.operations
    at = operations.invoked_ns
    in_fault = np.zeros(len(at), np.bool_)
    during: list[Window] = []
    for band in scene.backdrop.bands:
        chosen = (at >= band.start_ns) & (at < band.end_ns)
        in_fault |= chosen
        during.append((f"during {band.number} {band.name}", chosen))
    phases = [(f"phase {name}", operations.phase == i) for i, name in enumerate(operations.phases)]
    return [("whole run", np.ones(len(at), np.bool_)), ("without any fault", ~in_fault), *phases, *during]


def _counts_grid(scene: Scene, windows: list[Window]) -> Grid:
    operations = scene.run.operations
    lanes = timeline.lanes(operations, scene.nodes)
    rows = []
    for name, chosen in windows[:TABLE_ROWS]:
        for lane in lanes:
            inside = chosen & lane.rows
            counts = (f"{int((inside & (operations.status == code)).sum()):,}" for code in (OK, INFO, FAIL))
            rows.append(
                (Cell(name), Cell(f"{lane.label} ({lane.detail})"), *(Cell(count, number=True) for count in counts))
            )
    return _grid("Operations by time and lane", ("when", "lane", "ok", "info", "fail"), rows)


def _latency_grid(scene: Scene, windows: list[Window]) -> Grid:
    rows = []
    for name, ok, info, fail, quantiles in latency.quantile_rows(scene.run.operations, windows[:TABLE_ROWS]):
        counts = (Cell(f"{count:,}", number=True) for count in (ok, info, fail))
        rows.append((Cell(name), *counts, *(Cell(text, number=True) for text in quantiles)))
    return _grid("Latency of acknowledged operations", ("when", "ok", "info", "fail", "p50", "p95", "p99", "max"), rows)


def _leaders_grid(roles: Roles) -> Grid:
    spans = sorted(
        (*roles.states, *roles.claims, *roles.absences, *roles.wipes), key=lambda span: (span.start_ns, span.node)
    )
    rows = []
    for span in spans:
        if span.role == LEADER or span.source != "quorum_samples":
            epoch = "–" if span.epoch is None else str(span.epoch)
            told = (
                span.node,
                span.directory_id or "–",
                span.role,
                epoch,
                seconds(span.start_ns),
                seconds(span.end_ns),
                span.source,
            )
            rows.append(tuple(Cell(text) for text in told))
    return _grid("Spans", ("node", "directory id", "state", "epoch", "from", "to", "source"), rows)


def _grid(caption: str, columns: tuple[str, ...], rows: list[tuple[Cell, ...]]) -> Grid:
    return Grid(caption, columns, tuple(rows[:TABLE_ROWS]), max(0, len(rows) - TABLE_ROWS))
