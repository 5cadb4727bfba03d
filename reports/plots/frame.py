"""The frame that all time charts share: one time axis, the faults as bands behind the data, phases and moments above it.

Everything inside the nested ``svg.zoom`` has coordinates of the plot area and may be stretched in x alone; texts and marks that must
keep their shape are *pins* outside of it, placed by their ``data-x``. The page's script moves both when a person zooms; without a
script the chart is complete as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from reports.plots.svg import element, join, text, text_width

WIDTH = 1120.0
LEFT = 118.0
PLOT_WIDTH = 986.0
STRIP = 20.0
"""height of the strip above a plot, in which faults are named"""
AXIS = 24.0

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The part of the run that is drawn, in ns since the run's start."""

    start_ns: int
    end_ns: int

    def x(self, at_ns: float) -> float:
        """Plot coordinate of a moment, clamped to the plot."""
        share = (at_ns - self.start_ns) / max(1, self.end_ns - self.start_ns)
        return PLOT_WIDTH * min(1.0, max(0.0, share))

    @property
    def seconds(self) -> float:
        """How much time is drawn."""
        return (self.end_ns - self.start_ns) / NS_PER_S

    def ticks(self, wanted: int = 11) -> list[tuple[float, str]]:
        """(plot coordinate, label) of round moments."""
        step = nice_step(self.seconds / wanted)
        first = math.ceil(self.start_ns / NS_PER_S / step)
        last = math.floor(self.end_ns / NS_PER_S / step)
        digits = max(0, -math.floor(math.log10(step)))
        return [(self.x(i * step * NS_PER_S), f"{i * step:.{digits}f} s") for i in range(first, last + 1)]


def nice_step(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    rough = max(rough, 1e-6)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))


@dataclass(frozen=True, slots=True)
class Band:
    """A fault as a band behind the data."""

    number: int
    name: str
    """of the fault, with the nodes that it cut off or hit"""
    start_ns: int
    end_ns: int
    nodes: frozenset[str] = frozenset()
    """nodes on the cut-off side, or hit by the fault"""
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Backdrop:
    """What lies behind every time chart."""

    bands: tuple[Band, ...] = ()
    phases: tuple[tuple[str, int, int], ...] = ()
    """name, from ns, to ns"""
    stalls: tuple[tuple[int, int], ...] = ()
    """windows in which the controller itself did not run"""
    moments: tuple[tuple[int, str], ...] = ()
    """single moments with a name, such as the start of Spark"""
    flags: tuple[tuple[int, int, str], ...] = ()
    """findings: moment, number, anchor"""


@dataclass(slots=True)
class Layers:
    """What one chart draws: shapes in plot coordinates, pins that keep their shape, and the left margin."""

    shapes: list[Markup] = field(default_factory=list)
    pins: list[Markup] = field(default_factory=list)
    gutter: list[Markup] = field(default_factory=list)


def pin(x: float, y: float, *children: str, class_: str = "") -> Markup:
    """A mark or text at a plot coordinate; a zoom moves it and does not stretch it."""
    return element(
        "g",
        *children,
        class_=f"pin {class_}".strip(),
        data_x=round(x, 1),
        data_y=y,
        transform=f"translate({x:.1f} {y:.1f})",
    )


def span_label(x0: float, x1: float, y: float, *contents: str, class_: str = "") -> Markup:
    """A text centred in a span: the first of ``contents`` that fits, hidden where none does."""
    fitting = [content for content in contents if text_width(content) <= x1 - x0]
    return element(
        "text",
        fitting[0] if fitting else contents[0],
        x=(x0 + x1) / 2,
        y=y,
        class_=f"span-label {class_}{'' if fitting else ' tight'}".strip(),
        data_x0=round(x0, 1),
        data_x1=round(x1, 1),
        data_texts="|".join(content.replace("|", "/") for content in contents),
    )


def time_chart(
    axis: TimeAxis, height: float, layers: Layers, backdrop: Backdrop, *, title: str, strip: bool = True
) -> Markup:
    """One chart over time, ``height`` is that of the plot alone."""
    top = STRIP * (1 + max(name_rows(backdrop.bands), default=0)) if strip else 4.0
    total = top + height + AXIS
    plot = element(
        "svg",
        _bands(axis, backdrop, height),
        join(layers.shapes),
        class_="zoom",
        x=LEFT,
        y=top,
        width=PLOT_WIDTH,
        height=height,
        viewBox=f"0 0 {PLOT_WIDTH:.0f} {height:.0f}",
        preserveAspectRatio="none",
    )
    pins = element("g", join(layers.pins), class_="pins", transform=f"translate({LEFT:.0f} {top:.0f})")
    names = (
        element("g", _band_names(axis, backdrop), class_="pins", transform=f"translate({LEFT:.0f} 0)")
        if strip
        else Markup()
    )
    return element(
        "svg",
        element("title", title),
        join(
            layers.gutter and [element("g", join(layers.gutter), class_="gutter", transform=f"translate(0 {top:.0f})")]
        ),
        plot,
        names,
        pins,
        _axis(axis, top + height),
        element("line", class_="cursor", x1=LEFT, x2=LEFT, y1=top, y2=top + height),
        class_="chart",
        viewBox=f"0 0 {WIDTH:.0f} {total:.0f}",
        role="img",
        aria_label=title,
        tabindex="0",
        data_start=axis.start_ns / NS_PER_S,
        data_end=axis.end_ns / NS_PER_S,
        data_left=LEFT,
        data_width=PLOT_WIDTH,
    )


def _bands(axis: TimeAxis, backdrop: Backdrop, height: float) -> Markup:
    parts = []
    for start_ns, end_ns in backdrop.stalls:
        x0, x1 = axis.x(start_ns), axis.x(end_ns)
        parts.append(
            element(
                "rect",
                element("title", "the controller stalled"),
                class_="stall",
                x=x0,
                y=0,
                width=max(1.5, x1 - x0),
                height=height,
            )
        )
    for band in backdrop.bands:
        x0, x1 = axis.x(band.start_ns), axis.x(band.end_ns)
        parts.append(element("rect", class_="band", x=x0, y=0, width=max(1.0, x1 - x0), height=height))
        for x in (x0, x1):
            parts.append(element("path", class_="band-edge", d=f"M{x:.1f} 0V{height:.0f}"))
    for _, start_ns, _ in backdrop.phases:
        if axis.start_ns < start_ns < axis.end_ns:
            parts.append(element("path", class_="phase-edge", d=f"M{axis.x(start_ns):.1f} 0V{height:.0f}"))
    for at_ns, _ in backdrop.moments:
        if axis.start_ns <= at_ns <= axis.end_ns:
            parts.append(element("path", class_="moment-edge", d=f"M{axis.x(at_ns):.1f} 0V{height:.0f}"))
    return join(parts)


def _band_names(axis: TimeAxis, backdrop: Backdrop) -> Markup:
    parts = []
    for band, row in zip(backdrop.bands, name_rows(backdrop.bands), strict=True):
        y = STRIP * row
        x0, x1 = axis.x(band.start_ns), axis.x(band.end_ns)
        flag = "band-flag" if band.verified else "band-flag unverified"
        parts.append(
            element(
                "rect", element("title", f"{band.number}: {band.name}"), class_=f"span {flag}",
                x=x0, y=y + 2, width=max(1.5, x1 - x0), height=STRIP - 4, data_x0=round(x0, 1), data_x1=round(x1, 1),
            )
        )  # fmt: skip
        texts = (f"{band.number} {band.name}", f"{band.number} {', '.join(sorted(band.nodes))}", str(band.number))
        parts.append(span_label(x0, x1, y + 14, *texts, class_="band-name"))
    return join(parts)


def name_rows(bands: Sequence[Band]) -> list[int]:
    """In which row above the plot each band is named: faults that overlap in time stand below each other."""
    free_at: list[int] = []
    rows = [0] * len(bands)
    for place, band in sorted(enumerate(bands), key=lambda item: item[1].start_ns):
        row = next((i for i, end_ns in enumerate(free_at) if end_ns <= band.start_ns), len(free_at))
        free_at[row : row + 1] = [band.end_ns]
        rows[place] = row
    return rows


def _axis(axis: TimeAxis, y: float) -> Markup:
    parts = [element("path", class_="rule", d=f"M{LEFT:.0f} {y:.1f}h{PLOT_WIDTH:.0f}")]
    for x, label in axis.ticks():
        parts.append(element("path", class_="rule", d=f"M{LEFT + x:.1f} {y:.1f}v4"))
        parts.append(text(LEFT + x, y + 16, label, class_="tick"))
    return element("g", join(parts), class_="time-axis", data_y=y)
