"""What a node's last process printed at its end."""

from __future__ import annotations

from pathlib import Path

_LAST_LINES = 12
_LINE_CHARACTERS = 300
_TAIL_BYTES = 65_536


def last_words(directory: Path) -> str:
    """The end of it, each line on a line of its own; says so where there is nothing."""
    lines = _last_lines(directory)
    if lines is None:
        return "\n           (there is no output)"
    return "".join(f"\n           | {line}" for line in lines[-_LAST_LINES:]) or "\n           (it printed nothing)"


def last_line(directory: Path) -> str:
    """The last line that is not indented, which is where programs name the error that a trace of calls belongs to; empty for none."""
    return next((line for line in reversed(_last_lines(directory) or ()) if not line[0].isspace()), "")


def _last_lines(directory: Path) -> list[str] | None:
    outputs = sorted((int(path.stem), path) for path in (directory / "output").glob("*.log") if path.stem.isdigit())
    if not outputs:
        return None
    with outputs[-1][1].open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
        said = file.read().decode("utf-8", errors="replace")
    return [line.rstrip()[:_LINE_CHARACTERS] for line in said.splitlines() if line.strip()]
