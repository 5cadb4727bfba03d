"""The timeline of a witness in warped time: equal room for each event, so that few operations in a long run can be read.

Every lane is a client process or a node; real times stand below the columns. An operation that got no answer stays open to the right
edge, since it may take effect at any later time. Rows without a time (evidence from disks) follow in their own order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from markupsafe import Markup

from reports.plots.describe import Row, card, end_ns, moment_ns, operation, place
from reports.plots.frame import NS_PER_S, STRIP, Band
from reports.plots.svg import element, join, text, text_width, titled

_WIDTH = 1120.0
_LEFT = 128.0
_RIGHT = 24.0
_LANE = 56.0
_CARD = 40.0
_CARD_WIDTH = 250.0
_NO_TIME = 2**63


def draw(rows: Sequence[Row], bands: Sequence[Band], title: str) -> Markup:
    """Rows of ``operations`` as bars, all others as cards, on one warped axis with the faults behind them.

    A row of ``faults`` that is drawn as a band has no lane of its own; its start and end are columns all the same.
    """
    timed = [row for row in rows if moment_ns(row) is not None]
    columns = sorted({at for row in timed for at in (moment_ns(row), end_ns(row)) if at is not None})
    begun = {band.start_ns for band in bands}
    shown = [row for row in rows if not (row.get("table") == "faults" and moment_ns(row) in begun)]
    untimed = [row for row in shown if moment_ns(row) is None]
    warp = _Warp(columns, len(untimed))
    lanes = list(dict.fromkeys(place(row) for row in sorted(shown, key=_lane_order)))
    tops = {lane: STRIP + i * _LANE for i, lane in enumerate(lanes)}
    height = STRIP + _LANE * max(1, len(lanes))
    parts = [_faults(bands, warp, columns, height)] if columns else []
    for column in columns:
        x = warp.x(column)
        parts.append(element("path", class_="grid", d=f"M{x:.1f} {STRIP:.0f}V{height:.0f}"))
    for lane, top in tops.items():
        parts.append(text(_LEFT - 12, top + 33, lane, class_="lane-name"))
        parts.append(element("path", class_="lane-rule", d=f"M{_LEFT:.0f} {top + _LANE:.1f}H{_WIDTH - _RIGHT:.0f}"))
    for row in shown:
        if moment_ns(row) is not None:
            draw_row = _bar if row.get("table") in ("operations", "faults") else _card
            parts.append(draw_row(row, warp, tops[place(row)]))
    for i, row in enumerate(untimed):
        parts.append(_card(row, warp, tops[place(row)], warp.after(i)))
    parts.append(_times(columns, warp, height, bool(untimed)))
    return element(
        "svg", element("title", title), join(parts), class_="witness", viewBox=f"0 0 {_WIDTH:.0f} {height + 40:.0f}",
        role="img", aria_label=title,
    )  # fmt: skip


class _Warp:
    """From a moment to a coordinate: columns stand equally far apart, time runs linearly between two of them."""

    def __init__(self, columns: list[int], extra: int) -> None:
        self.columns = columns
        self.step = (_WIDTH - _LEFT - _RIGHT) / (len(columns) + extra + 1)

    def x(self, at_ns: int) -> float:
        after = bisect_right(self.columns, at_ns)
        if after == 0:
            return _LEFT
        if after == len(self.columns):
            return self._column(after - 1) if self.columns[-1] == at_ns else _WIDTH - _RIGHT
        left, right = self.columns[after - 1], self.columns[after]
        return self._column(after - 1) + self.step * (at_ns - left) / (right - left)

    def after(self, i: int) -> float:
        return self._column(len(self.columns) + i)

    def _column(self, i: int) -> float:
        return _LEFT + self.step * (i + 0.75)


def _lane_order(row: Row) -> tuple[bool, int, str]:
    at = moment_ns(row)
    return row.get("table") != "faults", _NO_TIME if at is None else at, place(row)


def _faults(bands: Sequence[Band], warp: _Warp, columns: list[int], height: float) -> Markup:
    parts = []
    for band in bands:
        if band.end_ns < columns[0] or band.start_ns > columns[-1]:
            continue
        x0, x1 = warp.x(band.start_ns), warp.x(band.end_ns)
        parts.append(element("rect", class_="band", x=x0, y=STRIP, width=max(2.0, x1 - x0), height=height - STRIP))
        words = f"{band.number} {band.name}"
        parts.append(titled("rect", words, class_="band-flag", x=x0, y=2, width=max(2.0, x1 - x0), height=STRIP - 4))
        label = words if text_width(words) < x1 - x0 else str(band.number)
        parts.append(text((x0 + x1) / 2, 14, label, class_="span-label band-name"))
    return join(parts)


def _bar(row: Row, warp: _Warp, top: float) -> Markup:
    start, end = moment_ns(row), end_ns(row)
    assert start is not None
    status = str(row.get("status", "fault"))
    x0 = warp.x(start)
    x1 = warp.x(end) if end is not None else _WIDTH - _RIGHT
    x1 = max(x1, x0 + 3)
    y = top + 26
    words = operation(row) if row.get("table") == "operations" else " ".join(card(row))
    name = f"op {row['op_id']}: " if row.get("op_id") is not None else ""
    took = "no answer" if end is None else f"took {(end - start) / 1e6:.3f} ms"
    title = f"{name}{words} ({status}), invoked {start / NS_PER_S:.6f} s, {took}"
    # An open end is drawn as an arrow head: the operation may take effect at any later time.
    shape = (
        f"M{x0:.1f} {y}H{x1:.1f}v18H{x0:.1f}z" if end is not None else f"M{x0:.1f} {y}H{x1 - 9:.1f}l9 9l-9 9H{x0:.1f}z"
    )
    anchor, x = ("start", x0) if x0 < _WIDTH - 330 else ("end", min(x1, _WIDTH - _RIGHT))
    return join(
        [
            titled("path", title, class_=f"op {status}", d=shape),
            text(x, top + 20, f"{_mark(status)} {name}{words}", class_="op-name", text_anchor=anchor),
        ]
    )


def _mark(status: str) -> str:
    return {"ok": "●", "info": "▶", "fail": "✕"}.get(status, "■")


def _card(row: Row, warp: _Warp, top: float, x: float | None = None) -> Markup:
    at = moment_ns(row)
    centre = x if x is not None else warp.x(at or 0)
    width = min(_CARD_WIDTH, warp.step - 6) if warp.step > 80 else 80.0
    left = min(max(_LEFT, centre - width / 2), _WIDTH - _RIGHT - width)
    head, detail = card(row)
    title = f"{place(row)} {head}: {detail}" + ("" if at is None else f" at {at / NS_PER_S:.6f} s")
    return join(
        [
            titled(
                "rect", title, class_=f"card {row.get('table', '')}", x=left, y=top + 8, width=width, height=_CARD, rx=4
            ),
            element("path", class_="card-tick", d=f"M{centre:.1f} {top + 8 + _CARD:.1f}V{top + _LANE:.1f}")
            if x is None
            else Markup(),
            text(left + 8, top + 24, _fit(head, width - 12), class_="card-head"),
            text(left + 8, top + 39, _fit(detail, width - 12), class_="card-detail"),
        ]
    )


def _fit(content: str, width: float) -> str:
    room = max(3, int(width / text_width("n", 11)))
    return content if len(content) <= room else content[: room - 1] + "…"


def _times(columns: list[int], warp: _Warp, y: float, untimed: bool) -> Markup:
    parts = []
    last = -1e9
    low = False
    for i, column in enumerate(columns):
        x = warp.x(column)
        low = x - last < 74 and not low
        label = f"{column / NS_PER_S:.4f} s" if i == 0 else f"+{_since(column - columns[0])}"
        parts.append(element("path", class_="rule", d=f"M{x:.1f} {y:.1f}v4"))
        parts.append(text(x, y + (31 if low else 17), label, class_="tick"))
        last = x
    if untimed:
        parts.append(text(_WIDTH - _RIGHT, y + 17, "from disks: no time", class_="tick-left"))
    return join(parts)


def _since(ns: int) -> str:
    return f"{ns / 1e9:.3f} s" if ns >= 1e9 else f"{ns / 1e6:.3f} ms" if ns >= 1e4 else f"{ns} ns"
