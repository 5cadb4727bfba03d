"""Leaders and epochs over time: one lane a node, and one above them for the newest leader of the whole quorum.

A span's role is told by colour, fill pattern and text; an epoch stands inside its span. Two leaders at once are outlined: solid red in one
epoch, which is never allowed, dashed in different epochs, where the older leader has not yet noticed.
"""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from reports.plots.frame import LEFT, NS_PER_S, PLOT_WIDTH, Backdrop, Layers, TimeAxis, pin, span_label, time_chart
from reports.plots.svg import element, text, titled
from reports.roles import LEADER, Overlap, Roles, Span, reigns

LANE = 42.0
_QUORUM = 36.0
_BAR = 24.0
_LEAST_PX = 0.4
"""spans narrower than this are not drawn one by one; the table holds them all"""


def draw(
    axis: TimeAxis,
    nodes: tuple[str, ...],
    observers: frozenset[str],
    roles: Roles,
    *,
    together: tuple[Overlap, ...],
    backdrop: Backdrop,
) -> Markup:
    """The chart of leaders as SVG."""
    layers = Layers()
    if roles.states or roles.claims:
        _quorum(axis, reigns(roles), layers)
    else:
        words = text(0, 0, "nobody was seen to lead: no events, no samples", class_="tick")
        layers.pins.append(pin(PLOT_WIDTH / 2, 22, words))
    for i, node in enumerate(nodes):
        top = _top(i)
        layers.gutter.append(text(LEFT - 10, top + 18, node, class_="lane-name"))
        layers.gutter.append(
            text(LEFT - 10, top + 31, "observer" if node in observers else "voter", class_="lane-detail")
        )
        layers.shapes.append(element("path", class_="lane-rule", d=f"M0 {top + LANE - 3:.1f}H{PLOT_WIDTH:.0f}"))
        for band in backdrop.bands:
            if node in band.nodes:
                x0, x1 = axis.x(band.start_ns), axis.x(band.end_ns)
                hatch = {"x": x0, "y": top, "width": max(1.0, x1 - x0), "height": LANE - 4}
                layers.shapes.append(element("rect", class_="cut-off", **hatch))
        _node(axis, roles, node, top, layers)
        for overlap in together:
            if node in overlap.nodes:
                _overlap(axis, overlap, top, layers)
    height = _top(len(nodes))
    epochs = {span.epoch for span in roles.leaders}
    title = f"Leaders of {len(nodes)} nodes over time, {len(epochs)} epochs with a leader"
    return time_chart(axis, height, layers, backdrop, title=title)


def _top(lane: int) -> float:
    return _QUORUM + 8 + lane * LANE


def _node(axis: TimeAxis, roles: Roles, node: str, top: float, layers: Layers) -> None:
    absences = [span for span in roles.absences if span.node == node]
    for span in roles.states:
        if span.node == node:
            _span(axis, span, top + 4, layers)
            _name(axis, _longest_present(span, absences), top + 4, layers)
    for span in roles.claims:
        if span.node == node:
            _claim(axis, span, top + 4 + _BAR + 2, layers)
    for span in absences:
        _span(axis, span, top + 4, layers)
        _name(axis, span, top + 4, layers)
    for span in roles.wipes:
        if span.node == node:
            _wipe(axis, span, top, layers)


def _longest_present(span: Span, absences: list[Span]) -> Span:
    """The longest part of a span in which the node was neither down nor paused: there is room for its name."""
    parts = []
    start_ns = span.start_ns
    for absence in sorted(absences, key=lambda absence: absence.start_ns):
        if absence.start_ns < span.end_ns and absence.end_ns > start_ns:
            parts.append((start_ns, absence.start_ns))
            start_ns = absence.end_ns
    parts.append((start_ns, span.end_ns))
    start_ns, end_ns = max(parts, key=lambda part: part[1] - part[0])
    return replace(span, start_ns=start_ns, end_ns=max(start_ns, end_ns))


def _quorum(axis: TimeAxis, spans: tuple[Span, ...], layers: Layers) -> None:
    layers.gutter.append(text(LEFT - 10, 16, "quorum", class_="lane-name"))
    layers.gutter.append(text(LEFT - 10, 29, "newest leader", class_="lane-detail"))
    last_ns = axis.start_ns
    for span in [*spans, None]:
        until = axis.end_ns if span is None else span.start_ns
        if until - last_ns > 0.25 * NS_PER_S:
            x0, x1 = axis.x(last_ns), axis.x(until)
            gap = (until - last_ns) / NS_PER_S
            layers.shapes.append(
                titled(
                    "rect",
                    f"nobody known to lead for {gap:.2f} s",
                    class_="no-leader",
                    x=x0,
                    y=6,
                    width=x1 - x0,
                    height=_BAR,
                )
            )
            layers.pins.append(
                span_label(x0, x1, 22, f"no leader {gap:.1f} s", f"{gap:.1f} s", class_="no-leader-name")
            )
        if span is None:
            break
        x0, x1 = axis.x(span.start_ns), axis.x(span.end_ns)
        words = f"{span.node} leads epoch {span.epoch}, {_times(span)}"
        layers.shapes.append(titled("rect", words, class_="reign", x=x0, y=6, width=max(1.0, x1 - x0), height=_BAR))
        layers.pins.append(
            span_label(
                x0, x1, 22, f"{span.node} · epoch {span.epoch}", f"{span.node} {span.epoch}", class_="reign-name"
            )
        )
        last_ns = max(last_ns, span.end_ns)


def _span(axis: TimeAxis, span: Span, y: float, layers: Layers) -> None:
    x0, x1 = axis.x(span.start_ns), axis.x(span.end_ns)
    if x1 - x0 < _LEAST_PX and span.role != LEADER:
        return
    epoch = "" if span.epoch is None else f", epoch {span.epoch}"
    words = f"{span.node}: {span.role}{epoch}, {_times(span)} ({span.source})"
    shape = {"x": x0, "y": y, "width": max(0.8, x1 - x0), "height": _BAR}
    if span.source == "lifecycle":
        layers.shapes.append(element("rect", class_="blank", **shape))
    layers.shapes.append(titled("rect", words, class_=f"role {span.role}", **shape))


def _name(axis: TimeAxis, span: Span, y: float, layers: Layers) -> None:
    if span.epoch is None:
        texts: tuple[str, ...] = (span.role,)
    elif span.role == LEADER:
        texts = (f"leader, epoch {span.epoch}", f"leader {span.epoch}", str(span.epoch))
    else:
        texts = (f"{span.role} {span.epoch}", str(span.epoch))
    x0, x1 = axis.x(span.start_ns), axis.x(span.end_ns)
    layers.pins.append(span_label(x0, x1, y + 16, *texts, class_=f"role-name {span.role}-name"))


def _claim(axis: TimeAxis, span: Span, y: float, layers: Layers) -> None:
    x0, x1 = axis.x(span.start_ns), axis.x(span.end_ns)
    words = f"{span.node} answered as leader of epoch {span.epoch}, {_times(span)}"
    layers.shapes.append(titled("rect", words, class_="claim", x=x0, y=y, width=max(2.0, x1 - x0), height=4))


def _wipe(axis: TimeAxis, span: Span, top: float, layers: Layers) -> None:
    words = f"{span.node} has a new disk from {span.start_ns / NS_PER_S:.3f} s on: directory id {span.directory_id}, another identity"
    mark = titled("path", words, class_="wipe", d=f"M0 0v{LANE - 6:.0f}M-5 0h10l-5 7z")
    x = axis.x(span.start_ns)
    left = x > PLOT_WIDTH - 70
    name = text(-6 if left else 6, 8, "new disk", class_="wipe-name", text_anchor="end" if left else "start")
    layers.pins.append(pin(x, top + 1, mark, name))


def _overlap(axis: TimeAxis, overlap: Overlap, top: float, layers: Layers) -> None:
    x0, x1 = axis.x(overlap.start_ns), axis.x(overlap.end_ns)
    epochs = " and ".join(str(epoch) for epoch in dict.fromkeys(overlap.epochs))
    words = (
        f"{overlap.nodes[0]} and {overlap.nodes[1]} are leader at once (epoch {epochs}) "
        f"for {(overlap.end_ns - overlap.start_ns) / NS_PER_S:.3f} s"
    )
    kind = "together forbidden" if overlap.forbidden else "together"
    shape = {"x": x0, "y": top + 2, "width": max(2.0, x1 - x0), "height": _BAR + 10}
    layers.shapes.append(titled("rect", words, class_=kind, **shape))


def _times(span: Span) -> str:
    return f"{span.start_ns / NS_PER_S:.3f} s to {span.end_ns / NS_PER_S:.3f} s"
