"""Operations in words: the pieces that every witness sentence is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]

SHOWN_NUMBERS_MAX = 8
"""a poll's answer may have thousands of numbers; a witness row keeps the last of them"""

_COLUMNS = ("op_id", "process", "client_node", "f", "key", "status", "error", "invoked_ns", "completed_ns", "offset")


def operation_row(flat: Row) -> dict[str, Any]:
    """Make a witness row, in the columns of ``operations``, of a row with ``checker.kernels.objects.COLUMNS``."""
    shown = flat.get("shown")
    answer = [] if flat["answer"] is None else [flat["answer"]]
    row: dict[str, Any] = {"table": "operations", **{name: flat[name] for name in _COLUMNS}}
    row["input"] = [number for number in (flat["asked"], flat["asked_more"]) if number is not None]
    row["output"] = answer if shown is None else list(shown[-SHOWN_NUMBERS_MAX:])
    return row


def seconds(time_ns: int) -> str:
    """A moment of the run: ``12.304 s``."""
    return f"{time_ns / 1e9:.3f} s"


def span(duration_ns: int) -> str:
    """A duration in the unit that a person would use: ``12.3 ms``."""
    if duration_ns < 1_000_000:
        return f"{duration_ns / 1e3:.1f} µs"
    if duration_ns < 10_000_000_000:
        return f"{duration_ns / 1e6:.1f} ms"
    return f"{duration_ns / 1e9:.1f} s"


def who(row: Row) -> str:
    """Which operation: ``op 41, process 3 at n2``."""
    node = row["client_node"]
    return f"op {row['op_id']}, process {row['process']}" + (f" at {node}" if node else "")


def named(row: Row) -> str:
    """An operation with what it did: ``write of 17 (op 41, process 3 at n2)``."""
    return f"{deed(row)} ({who(row)})"


def deed(row: Row) -> str:
    """What an operation did: ``write of 17``."""
    return _DEEDS[row["f"]](row)


_DEEDS: Mapping[str, Callable[[Row], str]] = {
    "read": lambda _row: "read",
    "write": lambda row: f"write of {row['input'][0]}",
    "cas": lambda row: f"compare-and-set {row['input'][0]}→{row['input'][1]}",
    "append": lambda row: f"append of {row['input'][0]}",
    "poll": lambda row: f"read of the log from offset {row['input'][0]}" if row["input"] else "read of the log",
    "add": lambda row: f"addition of {row['input'][0]}",
    "register": lambda row: f"registration of broker {row['key']}",
}


def value_of(row: Row) -> str:
    """The value that a read returned, in words."""
    return str(row["output"][0]) if row["output"] else "nothing (the register was unwritten)"


def capital(sentence: str) -> str:
    """Begin a sentence."""
    return sentence[:1].upper() + sentence[1:]


def finished_before(first: Row, second: Row) -> str:
    """``write of 17 (…) finished at 12.304 s, 12.3 ms before read (…) began``. Both must be completed in that order."""
    gap_ns = second["invoked_ns"] - first["completed_ns"]
    return f"{named(first)} finished at {seconds(first['completed_ns'])}, {span(gap_ns)} before {named(second)} began"
