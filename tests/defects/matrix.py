"""Every defect with what brings it to light: a real run of at most 8 s of load, or a script in virtual time.

A *rule* check looks at one decision and needs no luck; those are what the real runs here are judged by, but for power cuts, whose
outcome is certain. Outcomes that need an order of messages are played by script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nemesis.faults.schedule import NS, PlannedFault


@dataclass(frozen=True, slots=True)
class RealRun:
    """A defect that real processes show at most leader changes."""

    defect: str
    scenario: str
    checks: tuple[str, ...]
    """each of them must say invalid"""
    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scripted:
    """A defect whose outcome a script of ``clusters.candidates.reference.script.scripts`` shows."""

    defect: str
    script: str
    checks: tuple[str, ...]
    seed: int = 1


_ONE_LATE_ANSWER = (PlannedFault(0, "stale-divergence", NS, NS, False, 0.5, parameters=(("lag_ms", 900),)),)
"""one is enough, and two take longer than the load"""

REAL_RUNS: tuple[RealRun, ...] = (
    RealRun("vote-not-persisted", "kill-leader", ("vote-durable",)),
    # By its own trace, and by what it said to others alone.
    RealRun("half-is-a-majority", "partition-leader", ("high-watermark-supported", "high-watermark-fetched")),
    RealRun("epoch-not-persisted", "kill-leader", ("epoch-monotone",)),
    RealRun("wiped-node-keeps-identity", "wipe-follower", ("identity",)),
    RealRun("wiped-node-keeps-identity", "wipe-behind-laggards", ("leader-completeness",)),
    RealRun("leader-resumes-epoch", "kill-leader", ("leader-not-resumed",)),
    RealRun("no-pre-vote", "partition-follower", ("no-disruption",)),
    RealRun("no-check-quorum", "partition-leader", ("leader-resigns",)),
    RealRun("acknowledged-on-append", "partition-leader", ("acknowledged-below-high-watermark",)),
    RealRun("fetch-position-not-validated", "partition-leader", ("log-matching",)),
    RealRun("observers-counted", "partition-leader-observers", ("high-watermark-supported",), options={"observers": 1}),
    RealRun("applied-on-append", "partition-leader", ("applied-below-high-watermark",)),
    # Through the relay: an answer is held and let go, so the order of messages is certain in a real run too.
    RealRun(
        "stale-fetch-answer-obeyed",
        "stale-divergence",
        ("committed-truncation",),
        options={"schedule": _ONE_LATE_ANSWER},
    ),
    # On disks that forget what was not synced: ext4 as root, else a library that makes files durable at sync only.
    RealRun("acknowledged-before-fsync", "power-cut-all", ("acknowledged-lost",)),
    RealRun("quorum-state-not-synced", "power-cut-follower", ("vote-durable",)),
)

SCRIPTED: tuple[Scripted, ...] = (
    Scripted("vote-not-persisted", "vote-forgotten-at-restart", ("vote-durable", "one-vote-per-epoch")),
    Scripted("second-vote-granted", "second-vote-granted", ("one-vote-per-epoch",)),
    Scripted(
        "log-not-compared", "shorter-log-elected", ("vote-up-to-date", "leader-completeness", "acknowledged-lost")
    ),
    Scripted("wiped-node-keeps-identity", "wiped-voter-votes", ("leader-completeness",)),
    Scripted("acknowledged-before-fsync", "power-cut-after-acknowledgement", ("acknowledged-lost",)),
    Scripted("quorum-state-not-synced", "vote-lost-with-power", ("vote-durable",)),
    Scripted("old-epoch-committed-by-count", "figure-eight", ("high-watermark-own-epoch", "committed-divergence")),
    Scripted("unconfirmed-reads", "deposed-leader-is-read", ("linearizable",)),
    Scripted("follower-reads-before-apply", "late-follower-is-read", ("linearizable",)),
    Scripted("truncates-to-own-high-watermark", "lagging-high-watermark", ("committed-truncation",)),
)
