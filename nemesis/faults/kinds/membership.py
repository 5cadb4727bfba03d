"""Faults that change the voter set (KIP-853)."""

from __future__ import annotations

from nemesis.faults.kinds.kind import Capability, FaultKind, targets

_LISTED = "the answer (installed, refused or unknown), and the voters that whoever leads then lists"

MEMBERSHIP_FAULTS = (
    FaultKind(
        "add-voter",
        "membership",
        "makes an observer a voter; it is an observer again at the end",
        "AddRaftVoter to the leader (KIP-853)",
        _LISTED,
        frozenset(),
        (targets("observer"),),
        out_of_service=False,
    ),
    FaultKind(
        "remove-voter",
        "membership",
        "takes a voter out of the set; it runs on as an observer, and is a voter again at the end",
        "RemoveRaftVoter to the leader (KIP-853)",
        _LISTED,
        frozenset(),
        (targets("follower"),),
    ),
    FaultKind(
        "concurrent-changes",
        "membership",
        "asks for the removal of one voter and the addition of an observer at the same moment",
        "RemoveRaftVoter and AddRaftVoter to the leader, neither waiting for the other (KIP-853)",
        _LISTED,
        frozenset(),
        (targets("follower"),),
    ),
    FaultKind(
        "late-acknowledgement",
        "membership",
        "holds a follower's answer to the leader's BeginQuorumEpoch until the follower is no voter any more",
        "a relay beside each node, which loses the follower's fetches, so that the leader asks it; RemoveRaftVoter to the leader (KIP-853)",
        "the relay's own account of the answer that it held and delivered, and the voters that the leader listed in between",
        frozenset({Capability.RELAY, Capability.PROCESSES}),
    ),
)
