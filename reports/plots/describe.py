"""A row of any table in a few words: the headline and the detail of its card in a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

_FIELDS = {
    "start": ("state", "epoch", "voted_for"),
    "state": ("previous_state", "epoch", "leader"),
    "append": ("checksum", "epoch", "end_offset"),
    "truncate": ("log_end", "high_watermark"),
    "high_watermark": ("previous_high_watermark", "epoch", "entry_epoch"),
    "fetch": ("peer", "offset"),
    "apply": ("digest", "high_watermark"),
    "acknowledge": ("high_watermark", "epoch"),
    "read": ("required_offset", "high_watermark"),
    "read_offset": ("high_watermark", "epoch"),
    "resign": ("epoch", "detail"),
    "wipe_identity": ("directory_id",),
}
_SHORT = {
    "high_watermark": "HW",
    "previous_high_watermark": "from",
    "end_offset": "to",
    "log_end": "was",
    "entry_epoch": "entry epoch",
    "previous_state": "was",
    "required_offset": "needs",
    "directory_id": "disk",
    "checksum": "sum",
    "voted_for": "voted",
}


def place(row: Row) -> str:
    """Whose lane a row stands in."""
    if row.get("table") == "operations":
        node = row.get("client_node")
        return f"process {row.get('process', '?')}" + (f" · {node}" if node else "")
    if row.get("table") == "faults":
        return "faults"
    return str(row.get("node") or row.get("src") or row.get("table") or "?")


def operation(row: Row) -> str:
    """``append 17 → offset 88``: what was asked and what came back."""
    f = str(row.get("f", "?"))
    key = "" if row.get("key") is None else f" k{row['key']}"
    asked = _values(row.get("input"))
    answered = _values(row.get("output"))
    if f in ("read", "poll"):
        back = answered or ("nothing" if row.get("status") == "ok" else "")
    elif f == "append" and row.get("offset") is not None:
        back = f"offset {row['offset']}"
    else:
        back = answered or ("ok" if row.get("status") == "ok" else "")
    if row.get("status") != "ok":
        back = str(row.get("error") or ("no answer" if row.get("status") == "info" else "fail"))
    return f"{f}{key}{' ' + asked if asked else ''} → {back or '?'}"


def card(row: Row) -> tuple[str, str]:
    """Headline and detail of one thing that a node did or said."""
    table = str(row.get("table", ""))
    return _CARDS.get(table, _any_card)(row)


def _event_card(row: Row) -> tuple[str, str]:
    kind = str(row.get("kind", ""))
    if kind == "vote":
        word = "refuses" if row.get("granted") is False else "votes for"
        return f"{'pre-' if row.get('pre_vote') else ''}{word} {row.get('peer', '?')}", _told(
            row, ("epoch", "offset", "entry_epoch", "log_end")
        )
    head = {
        "state": f"becomes {row.get('state', '?')}",
        "append": f"appends {row.get('offset', '?')}",
        "truncate": f"truncates to {row.get('offset', '?')}",
        "high_watermark": f"HW {row.get('high_watermark', '?')}",
        "apply": f"applies {row.get('offset', '?')}",
        "acknowledge": f"acknowledges {row.get('offset', '?')}",
        "start": "starts",
    }.get(kind, kind.replace("_", " "))
    if not head:
        head = "high watermark" if row.get("high_watermark") is not None else "event"
    return head, _told(row, _FIELDS.get(kind, ("high_watermark", "epoch", "offset", "detail")))


def _sample_card(row: Row) -> tuple[str, str]:
    leads = row.get("claims_leadership") or (row.get("leader") is not None and row.get("leader") == row.get("node"))
    head = "answers as leader" if leads else f"says leader {row['leader']}" if row.get("leader") else "answers"
    return head, _told(row, ("epoch", "high_watermark", "error"))


def _stored_state_card(row: Row) -> tuple[str, str]:
    return f"disk: epoch {row.get('epoch', '?')}", _told(row, ("voted_for", "leader", "log_end"))


def _life_card(row: Row) -> tuple[str, str]:
    return str(row.get("kind", "?")), _told(row, ("incarnation", "directory_id"))


def _rpc_card(row: Row) -> tuple[str, str]:
    said = f"{row.get('api') or 'message'} {row.get('kind', '')}".strip()
    if row.get("granted") is not None:
        said = f"{'pre-' if row.get('pre_vote') else ''}{'votes for' if row['granted'] else 'refuses'} {row.get('replica', '?')}"
    return f"{said} → {row.get('dst')}", _told(row, ("epoch", "leader", "offset", "high_watermark", "error", "fate"))


def _fault_card(row: Row) -> tuple[str, str]:
    nodes = row.get("isolated") or row.get("targets") or ()
    return str(row.get("fault", "?")), ", ".join(str(node) for node in nodes)


def _any_card(row: Row) -> tuple[str, str]:
    hidden = ("table", "run_id", "node", "kind")
    shown = tuple(name for name in row if name not in hidden)[:4]
    return str(row.get("kind") or row.get("table") or "row"), _told(row, shown)


_CARDS = {
    "node_events": _event_card,
    "quorum_samples": _sample_card,
    "quorum_states": _stored_state_card,
    "lifecycle": _life_card,
    "rpcs": _rpc_card,
    "faults": _fault_card,
}


def moment_ns(row: Row) -> int | None:
    """When it happened, where the table tells it."""
    for name in ("ts_ns", "invoked_ns", "started_ns"):
        if isinstance(row.get(name), int):
            return int(row[name])
    return None


def end_ns(row: Row) -> int | None:
    """When it was over, for rows that last."""
    for name in ("completed_ns", "ended_ns"):
        if isinstance(row.get(name), int):
            return int(row[name])
    return None


def value(content: Any) -> str:
    """A value of a column as text."""
    if content is None:
        return "–"
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, list | tuple):
        return "[" + ", ".join(value(each) for each in content) + "]"
    return str(content)


def checksum(content: Any) -> str:
    """A checksum in hexadecimal, as people compare them."""
    return f"{content & 0xFFFFFFFF:08x}" if isinstance(content, int) else value(content)


def _values(content: Any) -> str:
    if not isinstance(content, list | tuple) or not content:
        return ""
    shown = ", ".join(str(each) for each in content[:6])
    return shown + (f", … {len(content) - 6} more" if len(content) > 6 else "")


def _told(row: Row, names: tuple[str, ...]) -> str:
    told = []
    for name in names:
        if row.get(name) is not None:
            shown = checksum(row[name]) if name in ("checksum", "digest") else value(row[name])
            told.append(f"{_SHORT.get(name, name)} {shown}")
    return " · ".join(told)
