"""Faults of single packets on links that stay open: late, lost, twice, in another order, through a narrow pipe, connections reset."""

from __future__ import annotations

from nemesis.faults.kinds.kind import Capability, FaultKind, targets
from nemesis.faults.parameters import Parameter

_PACKETS = frozenset({Capability.PACKETS})
_HOW = (
    "where the sender's kernel has netem and it can do exactly this, queues of the kernel's own; else a routing rule takes the packets for "
    "those nodes into a TUN device, and a program of ours sends them on as asked"
)
_SEEN = "the count of packets of who shapes them, and round trips measured from the sender while it holds"

_DIRECTION = Parameter(
    "direction",
    "choice",
    "both",
    "which way: what the targets send (out), what is sent to them (in), or both",
    choices=("both", "in", "out"),
)
_DELAY = Parameter("delay_ms", "number", 100.0, "how late each packet is, one way", unit="ms", most=60_000)
_JITTER = Parameter("jitter_ms", "number", 20.0, "how much that varies; the order stays", unit="ms", most=60_000)
_DISTRIBUTION = Parameter(
    "distribution",
    "choice",
    "uniform",
    "how it varies: delay ± jitter; normal with that deviation; pareto: at least the delay, and a heavy tail whose mean is the jitter",
    choices=("uniform", "normal", "pareto"),
)


def _percent(name: str, default: float, text: str, *, least: float = 0.01, most: float = 100) -> Parameter:
    return Parameter(name, "number", default, text, unit="%", least=least, most=most)


def _run(name: str) -> Parameter:
    return Parameter(
        name, "number", 1.0, "how many are lost in a row, on average; 1: each for itself", least=1, most=1000
    )


def _rate(default: float, least: float) -> Parameter:
    return Parameter(
        "rate_kbit", "number", default, "how wide the pipe is, each way", unit="kbit/s", least=least, most=1e7
    )


_QUEUE = Parameter(
    "queue_kib", "number", 64.0, "what may wait for it; more is dropped", unit="KiB", least=2, most=65_536
)


def _kind(name: str, text: str, *parameters: Parameter) -> FaultKind:
    return FaultKind(
        name, "network", text, _HOW, _SEEN, _PACKETS, (targets("leader"), *parameters), out_of_service=False
    )


PACKET_FAULTS = (
    _kind(
        "delay",
        "makes every packet between the targets and the others late",
        _DIRECTION,
        _DELAY,
        _JITTER,
        _DISTRIBUTION,
    ),
    _kind(
        "loss",
        "loses packets between the targets and the others; TCP sends them again",
        _DIRECTION,
        _percent("percent", 10.0, "so many of them, drawn", most=90),
        _run("run"),
    ),
    _kind(
        "duplicate",
        "delivers packets between the targets and the others twice",
        _DIRECTION,
        _percent("percent", 10.0, "so many of them, drawn"),
    ),
    _kind(
        "reorder",
        "holds packets between the targets and the others back, so that later ones overtake them",
        _DIRECTION,
        _percent("percent", 10.0, "so many of them, drawn", most=90),
        Parameter("by_ms", "number", 20.0, "for how long", unit="ms", least=1, most=60_000),
    ),
    _kind("bandwidth", "leaves the targets a narrow pipe to each of the others", _DIRECTION, _rate(256.0, 8), _QUEUE),
    _kind(
        "connection-reset",
        "resets every connection between the targets and the others, at both ends, as a router does that forgot them; again and again",
        Parameter("every_ms", "count", 1000, "from one time to the next", unit="ms", least=50, most=60_000),
    ),
    _kind(
        "degrade",
        "bad lines as they really are: late, with a heavy tail, losing packets in runs, some of them twice or overtaken",
        _DIRECTION,
        Parameter("delay_ms", "number", 40.0, "how late each packet is at least", unit="ms", most=60_000),
        Parameter(
            "jitter_ms", "number", 20.0, "the mean of what the tail adds; the order stays", unit="ms", most=60_000
        ),
        Parameter("distribution", "choice", "pareto", _DISTRIBUTION.text, choices=_DISTRIBUTION.choices),
        _percent("loss_percent", 2.0, "so many are lost", least=0, most=90),
        Parameter("loss_run", "number", 3.0, "how many in a row, on average", least=1, most=1000),
        _percent("duplicate_percent", 1.0, "so many come twice", least=0),
        _percent("reorder_percent", 1.0, "so many are held back", least=0, most=90),
        Parameter("reorder_ms", "number", 20.0, "for how long", unit="ms", least=1, most=60_000),
        _rate(0.0, 0),
        _QUEUE,
    ),
)
