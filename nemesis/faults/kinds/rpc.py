"""Faults of single messages between nodes: a relay in each node's namespace reads every frame that nodes send each other."""

from __future__ import annotations

from clusters.backends.companions.rpc_rules import CONTENTS
from nemesis.faults.kinds.kind import Capability, FaultKind, targets
from nemesis.faults.parameters import Parameter

APIS = (
    "any",
    "Fetch",
    "FetchSnapshot",
    "Vote",
    "PreVote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "UpdateRaftVoter",
    "ReadOffset",
)
"""of nodes among each other; PreVote is a Vote with that flag (KIP-996), ReadOffset the reference's own"""

_RELAY = frozenset({Capability.RELAY})
_HOW = "a relay beside each node, to which the kernel turns its connections to peers; it connects on from the node's own address"
_SEEN = "the relay's own account of each frame on which it acted; one that met no frame did not happen"

_API = Parameter("api", "choice", "Fetch", "which messages", choices=APIS)
_PART = Parameter("part", "choice", "response", "requests, or the answers to them", choices=("request", "response"))
_TO = Parameter("to", "targets", "all", "who receives them")
_CONTENT = Parameter("content", "choice", "any", "only answers that say so", choices=("any", *CONTENTS))
_NTH = Parameter("nth", "count", 0, "only the n-th that a node sends or is answered, 0: any", most=1_000_000)
_EVERY = Parameter("every", "count", 1, "every k-th", least=1, most=1_000_000)
_PERCENT = Parameter("percent", "number", 100.0, "so many of them, drawn", unit="%", least=0.01, most=100)
_MOST = Parameter("most", "count", 0, "no more than so many at each node, 0: no bound", most=1_000_000)
_WHICH = (_API, _PART, targets("all", text="who sends these messages"), _TO, _CONTENT, _NTH, _EVERY, _PERCENT, _MOST)


def _of_requests(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    return tuple(each for each in parameters if each.name not in ("part", "content"))


def _kind(name: str, text: str, parameters: tuple[Parameter, ...]) -> FaultKind:
    return FaultKind(name, "network", text, _HOW, _SEEN, _RELAY, parameters, out_of_service=False)


RPC_FAULTS = (
    FaultKind(
        "stale-divergence",
        "network",
        "tells a follower to truncate its log, in a leader's answer of long ago, when the follower has gone on under another leader",
        f"{_HOW}; links cut and a leader paused to get there",
        f"{_SEEN}: the answer that was held, what the follower had fetched when it arrived, and from where it fetched then",
        _RELAY | {Capability.LINKS, Capability.PROCESSES},
        (Parameter("lag_ms", "count", 1500, "how long the leader is cut off before", unit="ms", most=60_000),),
    ),
    _kind(
        "drop-rpc", "loses messages of one kind between nodes; everything else on the same connection arrives", _WHICH
    ),
    _kind("close-rpc", "resets the connection instead of delivering a message of one kind", _WHICH),
    _kind(
        "delay-rpc",
        "delivers messages of one kind late; what follows on the same connection waits behind them",
        (*_WHICH, Parameter("delay_ms", "count", 200, "how late", unit="ms", least=1, most=60_000)),
    ),
    _kind(
        "duplicate-rpc",
        "delivers requests of one kind twice; the sender gets the first answer",
        _of_requests(_WHICH),
    ),
    FaultKind(
        "votes-unheard",
        "network",
        "kills the leader and loses every answer to a vote or pre-vote: nobody can be elected until the end of the hold",
        _HOW,
        f"{_SEEN}; and nobody answered as leader of a new epoch before the end",
        _RELAY | {Capability.PROCESSES},
    ),
)
