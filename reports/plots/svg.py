"""SVG elements from values: every attribute and text is escaped, so nothing that a candidate wrote becomes markup."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

Value = str | float | int | None


def number(value: float) -> str:
    """A coordinate with at most one decimal: a tenth of a pixel is finer than anything drawn."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def element(name: str, /, *children: str, **attributes: Value) -> Markup:
    """One element. ``class_`` is written ``class``, ``_`` becomes ``-`` and attributes that are None are left out.

    Children that are plain text are escaped; :class:`markupsafe.Markup` is taken as it is.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(children)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def _attribute(value: Value) -> str:
    return str(escape(value)) if isinstance(value, str) else number(float(value or 0))


def join(parts: Iterable[str]) -> Markup:
    """Concatenate elements; plain texts among them are escaped."""
    return Markup("").join(parts)


def titled(shape_name: str, title: str, /, **attributes: Value) -> Markup:
    """A shape that tells its meaning on hover and to a screen reader."""
    return element(shape_name, element("title", title), **attributes)


def text(x: float, y: float, content: str, /, **attributes: Value) -> Markup:
    """A line of text at its baseline."""
    return element("text", content, x=x, y=y, **attributes)


def text_width(content: str, size_px: float = 11.0) -> float:
    """About how wide a text becomes: wide enough to decide whether it fits into a span."""
    return 0.55 * size_px * len(content)
