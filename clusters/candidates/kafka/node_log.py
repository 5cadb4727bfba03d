"""The outputs of a node's processes → rows of ``node_events``.

Each incarnation has a file of its own, ``nodes/<node>/output/<incarnation>.log``; the order of its lines is the order of events.
Times are the JVM's wall clock set against the controller's at the start of the run, and set right where it was faked: for display
and for windows of liveness.

A node's first state is a ``start`` row (what it recovered from disk) and a ``state`` row. Its vote for itself is not logged as a
vote: it is the transition to candidate. Kafka's INFO lines do not tell the voter's own log end, so ``log_end`` of a vote is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from clusters.candidates.kafka.log_lines import (
    CheckQuorumFailed,
    Event,
    Fatal,
    HighWatermark,
    State,
    Transition,
    Truncated,
    Unknown,
    Vote,
    read_line,
)
from clusters.collect.outputs import LineTimes, line_times, outputs, whole_lines
from clusters.evidence.identity import node_name
from clusters.evidence.schema import NODE_EVENTS
from workloads.history.manifest import Manifest

Row = dict[str, Any]
_LINE_CHARACTERS_MAX = 2000
"""how much of a fatal or unknown line is kept"""


@dataclass(slots=True)
class _Process:
    """What is known of one incarnation while its output is read."""

    node: str
    epoch: int | None = None
    state: str | None = None
    unknown: list[str] = field(default_factory=list)


def collect_outputs(run: Path, manifest: Manifest, node: str, directory_ids: dict[int, str | None]) -> pa.Table:
    """Read all outputs of one node; ``directory_ids`` tells the disk of each incarnation.

    Raises Problem ``damaged-output`` for a file that is not named by its incarnation.
    """
    rows: list[Row] = []
    for incarnation, path in outputs(run, node):
        times = line_times(run, manifest, node, incarnation)
        head = {
            "run_id": manifest.run_id,
            "node": node,
            "directory_id": directory_ids.get(incarnation),
            "incarnation": incarnation,
        }
        for seq, (ts_ns, row) in enumerate(_events(path, _Process(node), times)):
            rows.append({**head, "seq": seq, "ts_ns": ts_ns, **row})
    return pa.Table.from_pylist(rows, schema=NODE_EVENTS)


def _events(path: Path, process: _Process, times: LineTimes) -> Iterator[tuple[int | None, Row]]:
    ts_ns: int | None = None
    for at, text in whole_lines(path):
        line = read_line(text)
        if line is None:
            continue
        if line.wall_ms is not None:
            ts_ns = times.ts_ns(at, line.wall_ms * 1_000_000)
        for row in _rows(process, line.event):
            yield ts_ns, row
    if process.unknown:
        told = (
            f"{len(process.unknown)} lines about state transitions are not understood, the first: {process.unknown[0]}"
        )
        yield ts_ns, {"kind": "problem", "detail": told}


def _rows(process: _Process, event: Event) -> Iterator[Row]:
    match event:
        case Transition():
            yield from _transition(process, event)
        case Vote():
            yield {
                "kind": "vote",
                "granted": event.granted,
                "peer": node_name(event.candidate_id),
                "peer_directory_id": event.candidate_directory_id,
                "epoch": event.epoch,
                "pre_vote": event.pre_vote,
                "offset": event.last_offset,
                "entry_epoch": event.last_epoch,
            }
        case HighWatermark():
            yield {
                "kind": "high_watermark",
                "high_watermark": event.offset,
                "previous_high_watermark": event.previous,
                "epoch": process.epoch if event.epoch is None else event.epoch,
                "state": process.state,
            }
        case Truncated():
            yield {
                "kind": "truncate",
                "offset": event.offset,
                "epoch": process.epoch,
                "leader": node_name(event.leader_id),
            }
        case CheckQuorumFailed():
            yield {"kind": "resign", "epoch": process.epoch, "detail": event.detail}
        case Fatal():
            yield {"kind": "fatal", "epoch": process.epoch, "detail": event.line[:_LINE_CHARACTERS_MAX]}
        case Unknown():
            process.unknown.append(event.line[:_LINE_CHARACTERS_MAX])


def _transition(process: _Process, event: Transition) -> Iterator[Row]:
    after = event.after
    process.epoch, process.state = after.epoch, after.name
    known = {
        "state": after.name,
        "epoch": after.epoch,
        "leader": _leader(process.node, after),
        "voted_for": _voted_for(process.node, after),
    }
    if event.before is None:
        yield {"kind": "start", **known}
    yield {"kind": "state", **known, "previous_state": None if event.before is None else event.before.name}
    if after.name == "candidate":
        yield {
            "kind": "vote",
            "granted": True,
            "peer": process.node,
            "peer_directory_id": after.local_directory_id,
            "epoch": after.epoch,
            "pre_vote": False,
        }


def _leader(node: str, state: State) -> str | None:
    """The leader of the epoch as the node knows it; one that resigned knows that it was itself (Kafka's ``ResignedState``)."""
    if state.name in ("leader", "resigned"):
        return node
    return None if state.leader_id is None else node_name(state.leader_id)


def _voted_for(node: str, state: State) -> str | None:
    if state.name == "candidate":
        return node
    return None if state.voted_id is None else node_name(state.voted_id)
