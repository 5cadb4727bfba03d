"""The messages between the nodes as tables of a page, and what a page must say of captures that are not whole."""

from __future__ import annotations

from reports.load import StoredRun
from reports.messages import Return, Traffic, returns, rounds, traffic
from reports.page import Cell, Grid
from reports.plots.latency import seconds
from workloads.history.manifest import Manifest

_ROWS = 120


def message_grids(run: StoredRun, end_ns: int) -> tuple[Grid, ...]:
    """What came of followers that were cut off, and messages by API and pair; nothing without captured messages."""
    rpcs = run.tables["rpcs"]
    if not len(rpcs):
        return ()
    came_back = returns(run.faults, rounds(rpcs), rpcs, end_ns)
    told = (_returns(came_back),) if came_back else ()
    return (*told, _traffic(traffic(rpcs)))


def capture_warnings(manifest: Manifest) -> tuple[str, ...]:
    """Captures that were not made, ended early or lost packets."""
    said = []
    for capture in manifest.captures:
        if capture.problem:
            said.append(f"The messages of {capture.node} were not all captured: {capture.problem}")
        elif capture.lost:
            seen = capture.packets + capture.lost
            said.append(
                f"The capture of {capture.node} lost {capture.lost:,} of {seen:,} packets: messages may be missing."
            )
    return tuple(said)


def _returns(told: tuple[Return, ...]) -> Grid:
    rows = []
    for each in told:
        fault = each.fault
        before = "–" if fault.leader_epoch is None else str(fault.leader_epoch)
        numbers = (before, str(each.pre_votes), str(each.votes), f"+{each.raised}" if each.raised else "0")
        rows.append(
            (
                Cell(f"{fault.fault_id + 1} {fault.fault}"),
                Cell(", ".join(fault.isolated)),
                Cell(f"{seconds(fault.started_ns or 0)} to {seconds(each.until_ns)}"),
                *(Cell(text, number=True) for text in numbers),
                Cell("–" if each.highest_epoch is None else str(each.highest_epoch), number=True),
            )
        )
    columns = (
        "fault", "cut off", "until the next fault", "epoch before", "pre-vote rounds", "vote rounds", "epoch raised by", "epoch then",
    )  # fmt: skip
    return Grid("Followers that were cut off: what they asked for, away and when they were back", columns, tuple(rows))


def _traffic(told: tuple[Traffic, ...]) -> Grid:
    rows = tuple(
        (
            Cell(each.api),
            Cell(f"{each.source} → {each.destination}"),
            Cell(f"{each.requests:,}", number=True),
            Cell(f"{each.lost:,}", number=True),
            Cell(f"{each.unanswered:,}", number=True),
            Cell("–" if each.answer_ms is None else f"{each.answer_ms:.1f} ms", number=True),
            Cell(", ".join(f"{name} {count:,}" for name, count in each.errors) or "–"),
        )
        for each in told
    )
    columns = (
        "request",
        "from → to",
        "requests",
        "messages not delivered",
        "without an answer",
        "answered after (median)",
        "errors answered",
    )
    return Grid("Requests by API and pair of nodes", columns, rows[:_ROWS], max(0, len(rows) - _ROWS))
