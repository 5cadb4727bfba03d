"""Faults of processes."""

from __future__ import annotations

from nemesis.faults.kinds.kind import ENDED, ORDER, PROCESSES, STAGGER, Capability, FaultKind, targets
from nemesis.faults.parameters import Parameter

_RELEASED = "SIGTERM to every process of the node, and a start of the other release's program and configuration"
_UNDER = f"{ENDED}; the node answered afterwards"

PROCESS_FAULTS = (
    FaultKind(
        "kill",
        "process",
        "kill -9, all targets at once; at the end they are started again, in an order that is drawn",
        "SIGKILL to every process of the node",
        ENDED,
        PROCESSES,
        (targets("leader"), ORDER, STAGGER),
    ),
    FaultKind(
        "pause",
        "process",
        "SIGSTOP, and SIGCONT at the end: the node wakes up and believes that no time has passed",
        "SIGSTOP to every process of the node",
        "every process stands still, and the node answered no question while it was paused",
        PROCESSES,
        (targets("leader"),),
    ),
    FaultKind(
        "restart",
        "process",
        "SIGTERM, kill -9 if that is not obeyed; started again at the end",
        "SIGTERM to every process of the node",
        ENDED,
        PROCESSES,
        (targets("leader"), ORDER, STAGGER),
    ),
    FaultKind(
        "restart-next",
        "process",
        "stops one node after the other, in order of node id, whoever leads",
        "SIGTERM to every process of the node",
        ENDED,
        PROCESSES,
    ),
    FaultKind(
        "restart-under",
        "process",
        "SIGTERM; at the end started again under the other release of the run (--to-version), or the first one",
        _RELEASED,
        _UNDER,
        PROCESSES,
        (
            targets("follower"),
            Parameter("release", "choice", "other", "which: --to-version is the other one", choices=("other", "first")),
            ORDER,
            STAGGER,
        ),
        changes_release=True,
    ),
    FaultKind(
        "upgrade-next",
        "process",
        "stops one node after the other, in order of node id, and starts it under the other release (--to-version)",
        _RELEASED,
        _UNDER,
        PROCESSES,
        (Parameter("downgrade", "switch", True, "after the last one, one goes back, and up again"),),
        changes_release=True,
    ),
    FaultKind(
        "crash-loop",
        "process",
        "kill -9 again and again, each time as soon as the node has run for a moment; three times at least, however short the hold",
        "SIGKILL to every process of the node, and a start on the same disk, in a loop",
        "each process had begun to run and has ended; at least three of them",
        PROCESSES,
        (
            targets("follower"),
            Parameter("up_ms", "count", 400, "how long each process runs", unit="ms", least=10, most=60_000),
            Parameter("down_ms", "count", 50, "how long the node is down between", unit="ms", most=60_000),
        ),
    ),
    FaultKind(
        "cpu-pressure",
        "process",
        "makes the node share one CPU with processes that do nothing but compute",
        "CPU affinity of the node's processes and of as many burners as asked for; no cgroup, no root needed",
        "the node's own run-queue delay while it was under pressure",
        frozenset({Capability.CPU}),
        (targets("leader"), Parameter("burners", "count", 8, "how many compete with the node", least=1, most=64)),
        out_of_service=False,
    ),
    FaultKind(
        "memory-pressure",
        "process",
        "gives the node no more memory than it has, and a little headroom: allocations fail",
        "RLIMIT_AS of the node's processes, set from outside; lifted again at the end, and by a restart",
        "the limit that the kernel shows for the process, and that its size stayed below",
        frozenset({Capability.PROCESSES, Capability.MEMORY}),
        (
            targets("follower"),
            Parameter("headroom_mib", "count", 8, "what it may still take", unit="MiB", least=0, most=65_536),
        ),
    ),
)
