"""The timeline: every operation, by the node that it was sent to, with the faults drawn over it.

One lane a pinned node and one for the clients that follow the leader. Acknowledged operations grow upwards from a lane's line, failed
and unanswered ones downwards, so the outcome is told by direction and not by colour alone. Every operation is counted in the bin in
which it was invoked: nothing is left out, whatever the size of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from reports.load import FAIL, INFO, OK, OperationColumns
from reports.plots.frame import LEFT, PLOT_WIDTH, Backdrop, Layers, TimeAxis, pin, span_label, time_chart
from reports.plots.svg import element, text, titled

BINS_MAX = 493
BINS_MIN = 116
_OPERATIONS_A_BIN = 25
LANE = 58.0
_UP = 30.0
_DOWN = 22.0
PHASES = 18.0
_NAMES = 18.0
"""height of the row of moments, and of the row of findings"""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the timeline."""

    label: str
    detail: str
    node: str | None
    """the node that a partition may cut off, None for clients that go wherever the leader is"""
    rows: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CutOff:
    """What happened on the cut-off side of one fault at one node."""

    node: str
    start_ns: int
    end_ns: int
    invoked: int
    acknowledged: int


def lanes(operations: OperationColumns, nodes: tuple[str, ...]) -> list[Lane]:
    """The lanes that have operations, nodes in their order, the followers of the leader last."""
    found = []
    for node in dict.fromkeys((*nodes, *operations.nodes)):
        if node in operations.nodes:
            rows = operations.pinned & (operations.node == operations.nodes.index(node))
            if rows.any():
                found.append(Lane(node, "pinned clients", node, rows))
    follows = ~operations.pinned
    if follows.any():
        found.append(Lane("the leader", "clients that follow", None, follows))
    return found


def bin_count(operations: OperationColumns) -> int:
    """Bins as fine as the number of operations bears: bars of one operation each are noise."""
    return int(np.clip(len(operations) // _OPERATIONS_A_BIN, BINS_MIN, BINS_MAX))


def draw(
    axis: TimeAxis,
    operations: OperationColumns,
    nodes: tuple[str, ...],
    backdrop: Backdrop,
    cut_off: tuple[CutOff, ...],
) -> Markup:
    """The timeline as SVG."""
    layers = Layers()
    rows = lanes(operations, nodes)
    for phase, start_ns, end_ns in backdrop.phases:
        if end_ns > axis.start_ns and start_ns < axis.end_ns:
            layers.pins.append(span_label(axis.x(start_ns), axis.x(end_ns), 12, phase, class_="phase-name"))
    top = PHASES
    for lane in rows:
        _lane(axis, operations, lane, top, layers)
        for cut in cut_off:
            if lane.node is not None and cut.node == lane.node:
                _cut(axis, cut, top, layers)
        top += LANE
    for at_ns, name in backdrop.moments:
        if axis.start_ns <= at_ns <= axis.end_ns:
            x = axis.x(at_ns)
            side = "end" if x > PLOT_WIDTH - 150 else "start"
            mark = text(-3 if side == "end" else 3, 0, name, class_="moment-name", text_anchor=side)
            layers.pins.append(pin(x, top + 11, mark))
    top += _NAMES if backdrop.moments else 0.0
    _flags(axis, backdrop, top, layers)
    height = top + (_NAMES if backdrop.flags else 0.0)
    title = f"Timeline of {len(operations):,} operations in {len(rows)} lanes with {len(backdrop.bands)} faults"
    return time_chart(axis, height, layers, backdrop, title=title)


def _flags(axis: TimeAxis, backdrop: Backdrop, top: float, layers: Layers) -> None:
    last = -_NAMES
    for at_ns, number, anchor in sorted(backdrop.flags):
        if not axis.start_ns <= at_ns <= axis.end_ns:
            continue
        x = axis.x(at_ns)
        last = max(x, last + _NAMES)
        disc = titled("circle", f"finding {number}", class_="flag", cx=last - x, cy=0, r=8)
        name = text(last - x, 4, str(number), class_="flag-name")
        layers.pins.append(
            pin(x, top + 9, element("a", disc, name, href=f"#{anchor}", aria_label=f"go to finding {number}"))
        )


def _lane(axis: TimeAxis, operations: OperationColumns, lane: Lane, top: float, layers: Layers) -> None:
    bins = bin_count(operations)
    share = (operations.invoked_ns[lane.rows] - axis.start_ns) / max(1, axis.end_ns - axis.start_ns)
    inside = (share >= 0) & (share <= 1)
    at = np.minimum((share[inside] * bins).astype(np.int64), bins - 1)
    status = operations.status[lane.rows][inside]
    ok, info, fail = (np.bincount(at[status == code], minlength=bins) for code in (OK, INFO, FAIL))
    # One scale for both directions, so that heights above and below the line can be compared.
    scale = min(_UP / max(1, int(ok.max())), _DOWN / max(1, int((info + fail).max())))
    base = np.full(bins, top + _UP + 3)
    layers.shapes.append(element("path", class_="lane-rule", d=f"M0 {base[0]:.1f}H{PLOT_WIDTH:.0f}"))
    for name, counts, below in (("ok", -ok, 0 * ok), ("info", info, 0 * ok), ("fail", fail, info)):
        if np.any(counts):
            layers.shapes.append(
                element(
                    "path", class_=f"fill-{name}", d=_bars(base + below * scale, np.asarray(counts * scale, np.float64))
                )
            )
    peak = int((ok + info + fail).max()) / max(1e-9, axis.seconds / bins)
    totals = f"{int(ok.sum()):,} ok, {int(info.sum()):,} info, {int(fail.sum()):,} fail"
    layers.gutter.append(text(LEFT - 10, top + 20, lane.label, class_="lane-name"))
    layers.gutter.append(text(LEFT - 10, top + 33, lane.detail, class_="lane-detail"))
    peak_text = (element("title", totals), f"peak {peak:,.0f}/s")
    layers.gutter.append(element("text", *peak_text, x=LEFT - 10, y=top + 46, class_="lane-detail"))


def _bars(base: NDArray[np.float64], heights: NDArray[np.float64]) -> str:
    """One path of all bars that have a height; neighbours of equal height are one bar."""
    bins = len(heights)
    width = PLOT_WIDTH / bins
    parts = []
    start = 0
    for end in range(1, bins + 1):
        if end < bins and heights[end] == heights[start] and base[end] == base[start]:
            continue
        if heights[start]:
            parts.append(
                f"M{start * width:.1f} {base[start]:.1f}v{heights[start]:.1f}h{(end - start) * width:.1f}v{-heights[start]:.1f}z"
            )
        start = end
    return "".join(parts)


def _cut(axis: TimeAxis, cut: CutOff, top: float, layers: Layers) -> None:
    x0, x1 = axis.x(cut.start_ns), axis.x(cut.end_ns)
    layers.shapes.append(element("rect", class_="cut-off", x=x0, y=top + 1, width=max(1.0, x1 - x0), height=LANE - 2))
    asked, ok = f"{cut.invoked:,}", f"{cut.acknowledged:,}"
    texts = (f"{cut.node} cut off: {asked} asked, {ok} answered ok", f"{asked} asked, {ok} ok", f"{asked} → {ok}")
    layers.pins.append(span_label(x0, x1, top + 13, *texts, class_="cut-name"))
