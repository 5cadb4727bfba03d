"""Faults of links: each is a change of the link matrix."""

from __future__ import annotations

from nemesis.faults.kinds.kind import LINKS, PROBED, FaultKind, targets
from nemesis.faults.parameters import Parameter

_CUT = "drops what the source sends, outside of both nodes, so that neither can notice or undo it"


def _shape(name: str, text: str) -> FaultKind:
    return FaultKind(name, "network", text, _CUT, PROBED, LINKS, changes_links=True)


LINK_FAULTS = (
    _shape("isolate-leader", "cuts the leader off from everybody, both ways"),
    _shape("isolate-follower", "cuts one follower off from everybody, both ways"),
    _shape("split-leader-in-minority", "two sides, the leader in the smaller one"),
    _shape("split-leader-in-majority", "two sides, the leader in the larger one"),
    _shape("split-leader-and-observers", "the leader keeps the observers and loses every other voter"),
    _shape("majority-ring", "every node sees a majority, no two see the same one (four voters or more)"),
    _shape("bridge", "two halves that only one node in the middle sees, both of them"),
    _shape("leader-unheard", "the leader hears, and nothing that it sends arrives"),
    _shape("leader-deaf", "the leader sends, and hears nothing"),
    FaultKind(
        "isolate",
        "network",
        "cuts the targets, together on one side, off from all others",
        _CUT,
        PROBED,
        LINKS,
        (
            targets("follower"),
            Parameter(
                "direction",
                "choice",
                "both",
                "which way: nothing leaves them (out), nothing reaches them (in), or both",
                choices=("both", "in", "out"),
            ),
        ),
        changes_links=True,
    ),
    FaultKind(
        "flapping",
        "network",
        "cuts the targets off and heals again and again, faster than anybody's timers settle",
        _CUT,
        "datagrams on every link after each change; at least three whole cycles",
        LINKS,
        (
            targets("leader"),
            Parameter("cut_ms", "count", 400, "how long each cut lasts", unit="ms", least=50, most=60_000),
            Parameter("open_ms", "count", 300, "how long it is open between", unit="ms", least=50, most=60_000),
        ),
    ),
)
