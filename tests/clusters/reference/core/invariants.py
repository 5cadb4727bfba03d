"""What must hold of every play without defects, judged from its own rows in the plainest way."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.clusters.reference.core.quorum import Op

Row = dict[str, Any]


def violations(events: list[Row], operations: list[Op]) -> list[str]:
    """Every property that was broken, one sentence each; ``events`` of all nodes in the order in which they happened."""
    return [
        *election_safety(events),
        *one_vote(events),
        *epochs_monotone(events),
        *log_safety(events),
        *recency(operations),
    ]


def election_safety(events: list[Row]) -> list[str]:
    leaders = defaultdict(set)
    for row in events:
        if row["kind"] == "state" and row["state"] == "leader":
            leaders[row["epoch"]].add((row["node"], row["directory_id"], row["incarnation"]))
    return [f"epoch {epoch} is led by {sorted(who)}" for epoch, who in leaders.items() if len(who) > 1]


def one_vote(events: list[Row]) -> list[str]:
    votes = defaultdict(set)
    for row in events:
        if row["kind"] == "vote" and row["granted"] and not row["pre_vote"]:
            votes[row["node"], row["directory_id"], row["epoch"]].add((row["peer"], row["peer_directory_id"]))
    return [f"{key} voted for {sorted(peers)}" for key, peers in votes.items() if len(peers) > 1]


def epochs_monotone(events: list[Row]) -> list[str]:
    last: dict[tuple[str, str], int] = {}
    found = []
    for row in events:
        if row["kind"] in ("start", "state"):
            who = (row["node"], row["directory_id"])
            if row["epoch"] < last.get(who, 0):
                found.append(f"{who}: epoch {row['epoch']} after {last[who]}")
            last[who] = row["epoch"]
    return found


def log_safety(events: list[Row]) -> list[str]:
    """Log matching, leader completeness, no committed truncation, high watermarks that never fall."""
    found = []
    logs: dict[tuple[str, str], list[tuple[int, int, int, int]]] = defaultdict(list)  # (base, end, epoch, checksum)
    watermark: dict[tuple[str, str, int], int] = defaultdict(int)
    by_place: dict[tuple[int, int], tuple[int, int]] = {}
    committed: list[tuple[int, int, int, int]] = []
    for row in events:
        who = (row["node"], row["directory_id"])
        log = logs[who]
        match row["kind"]:
            case "start":
                while log and log[-1][1] > row["log_end"]:
                    log.pop()
            case "append":
                entry = (row["offset"], row["end_offset"], row["epoch"], row["checksum"])
                log.append(entry)
                seen = by_place.setdefault((row["offset"], row["epoch"]), (row["end_offset"], row["checksum"]))
                if seen != (row["end_offset"], row["checksum"]):
                    found.append(f"{who} holds other records at offset {row['offset']} of epoch {row['epoch']}")
            case "truncate":
                dropped = [entry for entry in log if entry[1] > row["offset"]]
                del log[len(log) - len(dropped) :]
                lost = [entry for entry in dropped if entry in committed]
                if lost:
                    found.append(f"{who} truncated to {row['offset']} and lost {lost}")
            case "high_watermark":
                key = (*who, row["incarnation"])
                if row["high_watermark"] < watermark[key]:
                    found.append(f"{who}: the high watermark fell to {row['high_watermark']}")
                watermark[key] = row["high_watermark"]
                prefix = [entry for entry in log if entry[1] <= row["high_watermark"]]
                shorter = min(len(prefix), len(committed))
                if prefix[:shorter] != committed[:shorter]:
                    found.append(f"{who} committed other records below {row['high_watermark']}")
                committed = max(committed, prefix, key=len)
            case "state" if row["state"] == "leader":
                if log[: len(committed)] != committed:
                    found.append(f"{who} leads epoch {row['epoch']} without all that was committed")
    return found


def recency(operations: list[Op]) -> list[str]:
    """Every answered operation has a place in the log, and shows what the log says there; none that began after another had
    returned may lie before it."""
    answered = [op for op in operations if op.ok and op.returned is not None]
    found = []
    for read in answered:
        if read.f == "read":
            before = [op for op in operations if op.f == "write" and op.key == read.key and 0 <= op.place < read.place]
            newest = max(before, key=lambda op: op.place, default=None)
            if newest is not None and read.value != newest.value and read.value in {op.value for op in before}:
                found.append(f"a read of key {read.key} shows {read.value} and not {newest.value}")
    for later in answered:
        for earlier in answered:
            if earlier.returned is not None and earlier.returned < later.invoked and earlier.place > later.place:
                found.append(f"{later.f} of key {later.key} does not see {earlier.f} of {earlier.value}")
    return found
