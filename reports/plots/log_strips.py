"""Logs side by side: a strip for each disk, one cell an offset, so that a divergence is seen where it begins.

Cells of one offset that differ get different letters and fills (A, B, C …); the records of the witness are outlined; a line marks the high
watermark that is known of the node. Only the neighbourhood of the witness is drawn; what lies between two neighbourhoods is folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports.plots.describe import Row, checksum
from reports.plots.svg import element, join, text, titled

_WIDTH = 1120.0
_LEFT = 150.0
_CELL_MAX = 92.0
_STRIP = 52.0
_TOP = 30.0
AROUND = 4
"""offsets drawn on each side of a record of the witness"""
_COLUMNS_MAX = 14


@dataclass(frozen=True, slots=True)
class Strip:
    """One disk of one node as far as it is drawn."""

    label: str
    detail: str
    collection: int | None
    """number of the copy"""
    records: Mapping[int, Row]
    high_watermark: int | None


def window(witness: Sequence[Row]) -> tuple[int, ...]:
    """The offsets around the records of a witness, as many as fit."""
    wanted = sorted({int(row["offset"]) for row in witness if isinstance(row.get("offset"), int)})
    if not wanted:
        return ()
    around = AROUND
    while around > 0:
        shown = sorted({o for offset in wanted for o in range(offset - around, offset + around + 1) if o >= 0})
        if len(shown) <= _COLUMNS_MAX:
            return tuple(shown)
        around -= 1
    return tuple(wanted[:_COLUMNS_MAX])


def draw(strips: Sequence[Strip], offsets: Sequence[int], witness: Sequence[Row], title: str) -> Markup:
    """The strips as SVG."""
    folds = [i for i in range(1, len(offsets)) if offsets[i] != offsets[i - 1] + 1]
    cell = min(_CELL_MAX, (_WIDTH - _LEFT - 20 - 14 * len(folds)) / max(1, len(offsets)))
    lefts = {offset: _LEFT + i * cell + 14 * sum(1 for fold in folds if fold <= i) for i, offset in enumerate(offsets)}
    named = {(row.get("node"), row.get("collection"), row.get("offset")) for row in witness}
    variants = {offset: _variants([strip.records.get(offset) for strip in strips]) for offset in offsets}
    height = _TOP + _STRIP * len(strips)
    parts: list[Markup] = []
    for offset, left in lefts.items():
        parts.append(
            text(left + cell / 2, 18, f"{offset}", class_="tick strong" if len(variants[offset]) > 1 else "tick")
        )
    parts.append(text(_LEFT - 12, 18, "offset", class_="tick-left"))
    for i, strip in enumerate(strips):
        top = _TOP + i * _STRIP
        parts.append(text(_LEFT - 12, top + 20, strip.label, class_="lane-name"))
        parts.append(text(_LEFT - 12, top + 33, strip.detail, class_="lane-detail"))
        if strip.high_watermark is not None:
            parts.append(text(_LEFT - 12, top + 45, f"high watermark ≥ {strip.high_watermark}", class_="lane-detail"))
        for offset, left in lefts.items():
            record = strip.records.get(offset)
            letter = "" if record is None or len(variants[offset]) < 2 else variants[offset][_content(record)]
            is_witness = record is not None and (strip.label, strip.collection, offset) in named
            parts.append(
                _cell(strip, offset, record, letter=letter, is_witness=is_witness, left=left, top=top, cell=cell)
            )
        parts.append(_high_watermark(strip, lefts, top, cell))
    differing = [offset for offset in offsets if len(variants[offset]) > 1]
    if differing:
        x = lefts[differing[0]]
        parts.append(element("path", class_="divergence", d=f"M{x - 2:.1f} {_TOP - 6:.0f}V{height:.0f}"))
        parts.append(
            text(x + 2, height + 16, f"first difference drawn: offset {differing[0]}", class_="divergence-name")
        )
    return element(
        "svg", element("title", title), join(parts), class_="witness", viewBox=f"0 0 {_WIDTH:.0f} {height + 24:.0f}",
        role="img", aria_label=title,
    )  # fmt: skip


def _content(record: Row) -> tuple[Any, Any]:
    return record.get("epoch"), record.get("checksum")


def _variants(records: Sequence[Row | None]) -> dict[tuple[Any, Any], str]:
    contents = dict.fromkeys(_content(record) for record in records if record is not None)
    return {content: "ABCDEFGH"[min(i, 7)] for i, content in enumerate(contents)}


def _cell(
    strip: Strip,
    offset: int,
    record: Row | None,
    *,
    letter: str,
    is_witness: bool,
    left: float,
    top: float,
    cell: float,
) -> Markup:
    x, y, width, height = left + 1, top + 5, cell - 3, _STRIP - 10
    if record is None:
        return titled(
            "rect",
            f"{strip.label}: no record at {offset}",
            class_="cell absent",
            x=x,
            y=y,
            width=width,
            height=height,
            rx=3,
        )
    said = _said(record)
    title = f"{strip.label}, offset {offset}: epoch {record.get('epoch')}, checksum {checksum(record.get('checksum'))}, {said}"
    shape = titled(
        "rect", title, class_=f"cell{' differs-' + letter if letter else ''}{' named' if is_witness else ''}",
        x=x, y=y, width=width, height=height, rx=3,
    )  # fmt: skip
    room = max(3, int(width / 6.4))
    return join(
        [
            shape,
            text(
                x + 6, y + 16, f"{letter + ' ' if letter else ''}epoch {record.get('epoch')}"[:room], class_="card-head"
            ),
            text(x + 6, y + 30, said[:room], class_="card-detail"),
            text(x + 6, y + 40, checksum(record.get("checksum"))[:room], class_="cell-sum"),
        ]
    )


def _said(record: Row) -> str:
    kind = str(record.get("kind") or "")
    if kind == "leader_change":
        return f"leader {record.get('leader') or '?'}"
    if record.get("f"):
        key = "" if record.get("key") is None else f"k{record['key']}="
        return f"{key}{record.get('value')}"
    return kind or "data"


def _high_watermark(strip: Strip, lefts: Mapping[int, float], top: float, cell: float) -> Markup:
    if strip.high_watermark is None or not lefts:
        return Markup()
    offsets = list(lefts)
    if strip.high_watermark in lefts:
        x = lefts[strip.high_watermark] - 1
    elif strip.high_watermark == offsets[-1] + 1:
        x = lefts[offsets[-1]] + cell
    else:
        return Markup()
    words = f"{strip.label}: high watermark {strip.high_watermark}, everything to the left of the line is committed"
    return titled("path", words, class_="high-watermark", d=f"M{x:.1f} {top + 1:.1f}v{_STRIP - 2:.0f}m-4 0h8")
