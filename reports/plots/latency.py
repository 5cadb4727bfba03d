"""Latency of each operation on a logarithmic scale with quantiles over time, and throughput by outcome.

Up to ``POINTS`` operations each is a mark of its own; above, all of them are counted into a density raster, and only quantiles and the
operations that a finding names are drawn on top. Operations that never got an answer have no latency: they stand in a strip above the
scale, by the moment of their invocation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from reports.load import FAIL, INFO, OK, OperationColumns
from reports.plots.frame import LEFT, NS_PER_S, PLOT_WIDTH, Backdrop, Layers, TimeAxis, nice_step, pin, time_chart
from reports.plots.raster import data_uri, density, png
from reports.plots.svg import element, text

POINTS = 5_000
HEIGHT = 220.0
RATE_HEIGHT = 110.0
_STRIP = 22.0
"""upper part of the latency plot for operations without an answer"""
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
WINDOWS = 90
RATE_BINS = 141
_FINE = 60_000
"""operations from which on a raster has its finest cells; fewer of them would be invisible specks"""
_UNANSWERED_BINS = 329
_COLOURS = ((47, 111, 222), (226, 132, 20), (222, 60, 130))
"""of ok, info, fail: readable on white and on black"""


def draw_latency(
    axis: TimeAxis, operations: OperationColumns, backdrop: Backdrop, named: Mapping[int, str] | None = None
) -> Markup:
    """Latency over time. ``named`` tells op_id → anchor of the operations that findings speak of."""
    layers = Layers()
    inside = (operations.invoked_ns >= axis.start_ns) & (operations.invoked_ns <= axis.end_ns)
    answered = inside & operations.answered
    latency_ns = np.maximum(1, operations.completed_ns - operations.invoked_ns).astype(np.float64)
    low, high = _decades(latency_ns[answered])
    scale = _LogScale(low, high)
    share = _share(axis, operations.invoked_ns)
    if int(answered.sum()) > POINTS:
        fine = 1 if int(answered.sum()) >= _FINE else 2
        pixels = density(
            share[answered], scale.share(latency_ns[answered]), operations.status[answered], colours=_COLOURS,
            columns=1_972 // (fine * fine),
            rows=int(HEIGHT - _STRIP) // fine,
        )  # fmt: skip
        layers.shapes.append(
            element(
                "image", href=data_uri(png(pixels)), x=0, y=_STRIP, width=PLOT_WIDTH, height=HEIGHT - _STRIP,
                preserveAspectRatio="none", class_="raster",
            )
        )  # fmt: skip
    else:
        for code, name in ((FAIL, "fail"), (OK, "ok")):
            chosen = answered & (operations.status == code)
            marks = _marks(share[chosen] * PLOT_WIDTH, scale.y(latency_ns[chosen]), "h0" if code == OK else "v5")
            layers.shapes.append(element("path", class_=f"dot-{name}", d=marks))
    _unanswered(operations, inside, share, layers)
    _quantile_lines(share, latency_ns, answered & (operations.status == OK), scale, layers)
    if named:
        chosen = np.isin(operations.op_id, np.array(list(named), np.int64))
        for row in np.flatnonzero(chosen).tolist():
            op_id = int(operations.op_id[row])
            y = float(scale.y(latency_ns[row : row + 1])[0]) if answered[row] else _STRIP / 2
            layers.pins.append(_ring(op_id, float(share[row]) * PLOT_WIDTH, y, named[op_id]))
    _log_gutter(scale, layers)
    return time_chart(
        axis, HEIGHT, layers, backdrop, title=f"Latency of {int(answered.sum()):,} answered operations over time"
    )


class _LogScale:
    """From nanoseconds to a height in the plot, decade by decade."""

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    def share(self, latency_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.log10(latency_ns) - self.low) / (self.high - self.low), np.float64)

    def y(self, latency_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(HEIGHT - self.share(latency_ns) * (HEIGHT - _STRIP), np.float64)


def _decades(latency_ns: NDArray[np.float64]) -> tuple[int, int]:
    if not len(latency_ns):
        return 6, 9
    low = math.floor(math.log10(max(1e3, float(latency_ns.min()))))
    high = math.ceil(math.log10(max(1e3, float(latency_ns.max()))) + 1e-9)
    return low, max(high, low + 1)


def _share(axis: TimeAxis, at_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray((at_ns - axis.start_ns) / max(1, axis.end_ns - axis.start_ns), np.float64)


def _marks(x: NDArray[np.float64], y: NDArray[np.float64], stroke: str) -> str:
    return "".join(f"M{a:.1f} {b:.1f}{stroke}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _unanswered(
    operations: OperationColumns, inside: NDArray[np.bool_], share: NDArray[np.float64], layers: Layers
) -> None:
    chosen = inside & ~operations.answered
    layers.shapes.append(element("path", class_="rule", d=f"M0 {_STRIP:.1f}H{PLOT_WIDTH:.0f}"))
    layers.gutter.append(text(LEFT - 10, 15, "no answer", class_="tick-left"))
    width = PLOT_WIDTH / _UNANSWERED_BINS
    bins = np.minimum((share[chosen] * _UNANSWERED_BINS).astype(np.int64), _UNANSWERED_BINS - 1)
    counts = np.bincount(bins, minlength=_UNANSWERED_BINS)
    heights = np.where(counts > 0, 4 + (_STRIP - 8) * counts / max(1, int(counts.max())), 0)
    bars = (
        f"M{i * width:.1f} {_STRIP:.0f}v{-heights[i]:.1f}h{width:.1f}V{_STRIP:.0f}z" for i in np.flatnonzero(counts)
    )
    if len(bins):
        layers.shapes.append(element("path", class_="fill-info", d="".join(bars)))


def _quantile_lines(
    share: NDArray[np.float64],
    latency_ns: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    scale: _LogScale,
    layers: Layers,
) -> None:
    windows = np.minimum((share[chosen] * WINDOWS).astype(np.int64), WINDOWS - 1)
    order = np.argsort(windows, kind="stable")
    edges = np.searchsorted(windows[order], np.arange(WINDOWS + 1))
    sorted_ns = latency_ns[chosen][order]
    for name, quantile in QUANTILES:
        path = []
        drawing = False
        for window in range(WINDOWS):
            values = sorted_ns[edges[window] : edges[window + 1]]
            if not len(values):
                drawing = False
                continue
            y = float(scale.y(np.array([np.quantile(values, quantile)]))[0])
            x0, x1 = window * PLOT_WIDTH / WINDOWS, (window + 1) * PLOT_WIDTH / WINDOWS
            path.append(f"{'L' if drawing else 'M'}{x0:.1f} {y:.1f}H{x1:.1f}")
            drawing = True
        if path:
            layers.shapes.append(element("path", class_=f"quantile {name}", d="".join(path)))


def _ring(op_id: int, x: float, y: float, anchor: str) -> Markup:
    ring = element("circle", element("title", f"operation {op_id}, named by a finding"), class_="named", r=5)
    return pin(x, y, element("a", ring, href=f"#{anchor}", aria_label=f"operation {op_id}: go to its finding"))


def _log_gutter(scale: _LogScale, layers: Layers) -> None:
    for decade in range(scale.low, scale.high + 1):
        y = float(scale.y(np.array([10.0**decade]))[0])
        layers.shapes.insert(0, element("path", class_="grid", d=f"M0 {y:.1f}H{PLOT_WIDTH:.0f}"))
        if decade < scale.high or y > _STRIP + 6:
            layers.gutter.append(text(LEFT - 10, y + 4, duration(10.0**decade), class_="tick-left"))
        else:
            layers.gutter.append(text(LEFT - 10, y + 10, duration(10.0**decade), class_="tick-left"))


def duration(ns: float) -> str:
    """A duration as a person says it: ``3.2 ms``, ``1.5 s``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            value = ns / size
            return f"{value:,.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.3g} {unit}"
    return f"{ns:.0f} ns"


def draw_throughput(axis: TimeAxis, operations: OperationColumns, backdrop: Backdrop, asked_per_s: float) -> Markup:
    """Operations a second by outcome, each counted when it was invoked, beside the rate that was asked for."""
    layers = Layers()
    share = _share(axis, operations.invoked_ns)
    inside = (share >= 0) & (share <= 1)
    bins = np.minimum((share[inside] * RATE_BINS).astype(np.int64), RATE_BINS - 1)
    per_bin = RATE_BINS / max(1e-9, axis.seconds)
    status = operations.status[inside]
    rates = [np.bincount(bins[status == code], minlength=RATE_BINS) * per_bin for code in (OK, INFO, FAIL)]
    top = max(1.0, asked_per_s, *(float(rate.max()) for rate in rates))
    step = nice_step(top / 3)
    ceiling = step * math.ceil(top / step)

    def y(rate: float) -> float:
        return RATE_HEIGHT - 4 - rate / ceiling * (RATE_HEIGHT - 10)

    for i in range(round(ceiling / step) + 1):
        layers.shapes.append(element("path", class_="grid", d=f"M0 {y(i * step):.1f}H{PLOT_WIDTH:.0f}"))
        layers.gutter.append(text(LEFT - 10, y(i * step) + 4, f"{i * step:,.0f}/s", class_="tick-left"))
    if asked_per_s > 0:
        layers.shapes.append(element("path", class_="asked", d=f"M0 {y(asked_per_s):.1f}H{PLOT_WIDTH:.0f}"))
    for rate, name in zip(rates, ("ok", "info", "fail"), strict=True):
        steps = _steps([y(float(value)) for value in rate])
        if name == "ok":
            layers.shapes.append(element("path", class_="area-ok", d=f"M0 {y(0):.1f}L{steps[1:]}V{y(0):.1f}z"))
        if rate.any():
            layers.shapes.append(element("path", class_=f"rate {name}", d=steps))
    return time_chart(axis, RATE_HEIGHT, layers, backdrop, title="Operations a second by outcome", strip=False)


def _steps(heights: list[float]) -> str:
    width = PLOT_WIDTH / len(heights)
    return "M" + "L".join(f"{i * width:.1f} {height:.1f}H{(i + 1) * width:.1f}" for i, height in enumerate(heights))


def quantile_rows(
    operations: OperationColumns, windows: list[tuple[str, NDArray[np.bool_]]]
) -> list[tuple[str, int, int, int, tuple[str, ...]]]:
    """For each named selection of operations: name, ok, info, fail and the quantiles and greatest latency of the ok ones."""
    latency_ns = (operations.completed_ns - operations.invoked_ns).astype(np.float64)
    rows = []
    for name, chosen in windows:
        ok = chosen & operations.answered & (operations.status == OK)
        values = latency_ns[ok]
        shown = tuple(duration(float(np.quantile(values, q))) if len(values) else "–" for q in (0.5, 0.95, 0.99, 1.0))
        counts = [int((chosen & (operations.status == code)).sum()) for code in (OK, INFO, FAIL)]
        rows.append((name, counts[OK], counts[INFO], counts[FAIL], shown))
    return rows


def seconds(ns: int | None) -> str:
    """A moment of the run: ``12.304 s``."""
    return "–" if ns is None else f"{ns / NS_PER_S:,.3f} s"
