"""Rounds of votes over time: one lane a candidate; pre-votes hollow, votes filled; won, refused and unanswered by shape and word."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from reports.messages import Round, told
from reports.plots.frame import LEFT, PLOT_WIDTH, Backdrop, Layers, TimeAxis, pin, time_chart
from reports.plots.svg import element, text, titled

LANE = 40.0
_APART_PX = 26.0
"""epochs that stand closer than this are not written"""


def draw(axis: TimeAxis, nodes: tuple[str, ...], voters: int, rounds: Sequence[Round], backdrop: Backdrop) -> Markup:
    """The chart of vote rounds as SVG."""
    layers = Layers()
    for i, node in enumerate(nodes):
        top = i * LANE
        own = [each for each in rounds if each.candidate == node]
        pre_votes = sum(each.pre_vote for each in own)
        layers.gutter.append(text(LEFT - 10, top + 18, node, class_="lane-name"))
        layers.gutter.append(
            text(LEFT - 10, top + 31, f"{pre_votes} pre, {len(own) - pre_votes} votes", class_="lane-detail")
        )
        layers.shapes.append(element("path", class_="lane-rule", d=f"M0 {top + LANE - 3:.1f}H{PLOT_WIDTH:.0f}"))
        for band in backdrop.bands:
            if node in band.nodes:
                x0, x1 = axis.x(band.start_ns), axis.x(band.end_ns)
                hatch = {"x": x0, "y": top, "width": max(1.0, x1 - x0), "height": LANE - 4}
                layers.shapes.append(element("rect", class_="cut-off", **hatch))
        _lane(axis, own, voters, top, layers)
    title = f"{len(rounds)} rounds of votes and pre-votes over time"
    return time_chart(axis, len(nodes) * LANE, layers, backdrop, title=title)


def _lane(axis: TimeAxis, rounds: Sequence[Round], voters: int, top: float, layers: Layers) -> None:
    written = -_APART_PX
    for each in rounds:
        x = axis.x(each.started_ns)
        outcome = "won" if each.won(voters) else "not-won"
        kind = f"round {each.kind} {outcome}"
        shape = "M0 -7L6 0L0 7L-6 0z" if each.pre_vote else "M-5 -6h10v12h-10z"
        layers.pins.append(pin(x, top + 14, titled("path", told(each), class_=kind, d=shape)))
        if x - written >= _APART_PX:
            layers.pins.append(pin(x, top + 33, text(0, 0, str(each.epoch), class_="round-epoch")))
            written = x
