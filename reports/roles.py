"""Who led when: spans of states, claims and absences of each node, from its own events, from samples and from its life cycle.

Nothing here judges: spans are for display and tables. A node's own events are ordered by (incarnation, seq); times only place them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LEADER = "leader"
_DOWN = {"kill": "down", "stop": "down", "crash": "down", "wipe": "down", "format": "down"}


@dataclass(frozen=True, slots=True)
class Span:
    """One node in one state for some time."""

    node: str
    role: str
    """a state of ``node_events``, or ``down`` or ``paused``"""
    epoch: int | None
    start_ns: int
    end_ns: int
    directory_id: str | None = None
    source: str = ""
    """the table it was read from"""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A time in which two nodes were leader at once."""

    start_ns: int
    end_ns: int
    nodes: tuple[str, str]
    epochs: tuple[int | None, int | None]

    @property
    def forbidden(self) -> bool:
        """Two leaders in one epoch are never allowed; an older epoch's leader may not yet know of the newer one."""
        return self.epochs[0] is not None and self.epochs[0] == self.epochs[1]


@dataclass(frozen=True, slots=True)
class Roles:
    """All that the chart of leaders and its table show."""

    states: tuple[Span, ...]
    """from events where a node has them, else from samples"""
    claims: tuple[Span, ...]
    """answers as leader, from the first to the last of an unbroken series of samples"""
    absences: tuple[Span, ...]
    """down or paused"""
    wipes: tuple[Span, ...]
    """moments in which a node got a new disk: ``directory_id`` is the new one"""

    @property
    def leaders(self) -> tuple[Span, ...]:
        """Leader spans from every source."""
        return tuple(s for s in (*self.states, *self.claims) if s.role == LEADER)


def read_roles(tables: dict[str, pa.Table], end_ns: int) -> Roles:
    """Derive all spans; open ones end at ``end_ns``."""
    absences, wipes = _life(_rows(tables["lifecycle"]), end_ns)
    events = _events(tables["node_events"], tables["lifecycle"], end_ns)
    samples = list(_samples(tables["quorum_samples"]))
    told = {span.node for span in events}
    claims = tuple(span for span in samples if span.role == LEADER)
    states = (*events, *(span for span in samples if span.node not in told))
    return Roles(states=tuple(sorted(states, key=_by_time)), claims=claims, absences=absences, wipes=wipes)


def overlaps(roles: Roles) -> tuple[Overlap, ...]:
    """Times in which two nodes were leader at once, same epochs first; each pair and time once."""
    found: dict[tuple[str, str, int | None, int | None], Overlap] = {}
    spans = sorted(roles.leaders, key=_by_time)
    open_spans: list[Span] = []
    for span in spans:
        open_spans = [other for other in open_spans if other.end_ns > span.start_ns]
        for other in open_spans:
            if other.node == span.node:
                continue
            start_ns, end_ns = span.start_ns, min(span.end_ns, other.end_ns)
            pair = (other.node, span.node, other.epoch, span.epoch)
            if pair in found:
                start_ns, end_ns = min(start_ns, found[pair].start_ns), max(end_ns, found[pair].end_ns)
            if end_ns > start_ns:
                found[pair] = Overlap(start_ns, end_ns, (other.node, span.node), (other.epoch, span.epoch))
        open_spans.append(span)
    return tuple(sorted(found.values(), key=lambda overlap: (not overlap.forbidden, overlap.start_ns)))


def reigns(roles: Roles) -> tuple[Span, ...]:
    """The newest leader at each time: leader spans by epoch, each cut off where a newer epoch's begins."""
    merged: dict[tuple[int, str], Span] = {}
    for span in roles.leaders:
        if span.epoch is None:
            continue
        known = merged.get((span.epoch, span.node))
        start = span.start_ns if known is None else min(span.start_ns, known.start_ns)
        end = span.end_ns if known is None else max(span.end_ns, known.end_ns)
        merged[span.epoch, span.node] = Span(span.node, LEADER, span.epoch, start, end, span.directory_id, span.source)
    ordered = [merged[key] for key in sorted(merged)]
    cut = []
    for i, span in enumerate(ordered):
        newer = [other.start_ns for other in ordered[i + 1 :] if other.epoch != span.epoch]
        end = min([span.end_ns, *newer])
        if end > span.start_ns:
            cut.append(Span(span.node, LEADER, span.epoch, span.start_ns, end, span.directory_id, span.source))
    return tuple(sorted(cut, key=_by_time))


def _by_time(span: Span) -> tuple[int, int, str]:
    return span.start_ns, span.end_ns, span.node


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["ts_ns"] is not None]


def _life(rows: list[dict[str, Any]], end_ns: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    absences: list[Span] = []
    wipes: list[Span] = []
    for node in dict.fromkeys(row["node"] for row in rows):
        own = sorted((row for row in rows if row["node"] == node), key=lambda row: row["ts_ns"])
        directory = None
        since: tuple[str, int] | None = None
        for row in own:
            role = {"pause": "paused"}.get(row["kind"], _DOWN.get(row["kind"], ""))
            if role and since is None:
                since = role, row["ts_ns"]
            elif row["kind"] in ("start", "resume") and since is not None:
                absences.append(Span(node, since[0], None, since[1], row["ts_ns"], source="lifecycle"))
                since = None
            if row["directory_id"] and directory and row["directory_id"] != directory:
                wipes.append(Span(node, "wiped", None, row["ts_ns"], row["ts_ns"], row["directory_id"], "lifecycle"))
            directory = row["directory_id"] or directory
        if since is not None:
            absences.append(Span(node, since[0], None, since[1], end_ns, source="lifecycle"))
    return tuple(absences), tuple(wipes)


def _events(events: pa.Table, lifecycle: pa.Table, end_ns: int) -> list[Span]:
    chosen = events.filter(pc.is_in(events["kind"], pa.array(["start", "state", "resign"])))
    stops = sorted((row["node"], row["ts_ns"]) for row in _rows(lifecycle) if row["kind"] in ("kill", "stop", "crash"))
    rows = sorted(_rows(chosen), key=lambda row: (row["node"], row["incarnation"], row["seq"]))
    spans: list[Span] = []
    for row, following in pairwise([*rows, None]):
        assert row is not None
        role = row["state"] or ("resigned" if row["kind"] == "resign" else None)
        if role is None:
            continue
        start = row["ts_ns"]
        if following is not None and (following["node"], following["incarnation"]) == (row["node"], row["incarnation"]):
            end = following["ts_ns"]
        else:
            end = min((ts for node, ts in stops if node == row["node"] and ts >= start), default=end_ns)
        last = spans[-1] if spans else None
        if last and (last.node, last.role, last.epoch, last.end_ns) == (row["node"], role, row["epoch"], start):
            spans[-1] = Span(last.node, role, last.epoch, last.start_ns, end, last.directory_id, "node_events")
        elif end > start:
            spans.append(Span(row["node"], role, row["epoch"], start, end, row["directory_id"], "node_events"))
    return spans


def _samples(samples: pa.Table) -> Iterable[Span]:
    columns = ["ts_ns", "node", "error", "claims_leadership", "leader", "epoch"]
    rows = sorted(_rows(samples.select(columns)), key=lambda row: (row["node"], row["ts_ns"]))
    current: Span | None = None
    for row in rows:
        role = LEADER if row["claims_leadership"] else "follower" if row["leader"] and row["error"] is None else None
        if current and (current.node, current.role, current.epoch) == (row["node"], role, row["epoch"]):
            current = Span(
                current.node, current.role, current.epoch, current.start_ns, row["ts_ns"], None, "quorum_samples"
            )
            continue
        if current:
            yield current
        current = None
        if role:
            current = Span(row["node"], role, row["epoch"], row["ts_ns"], row["ts_ns"] + 1, None, "quorum_samples")
    if current:
        yield current
