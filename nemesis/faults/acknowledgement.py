"""A voter's acknowledgement of the leader arrives when it is no voter any more.

A leader that misses a voter's fetches asks it again whether it knows who leads (BeginQuorumEpoch), and counts who answers. Here the
follower's fetches are lost, one of its answers is held, the follower is taken out of the voter set (KIP-853), and when the leader has told
that it is out, the answer arrives. It is of this very epoch, and from somebody whom the leader does not count: it has to shrug.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.membership import change_voter, restore_voters
from nemesis.faults.process import LEADER_PATIENCE_S, TOGETHER, aim_by_role, start_all
from nemesis.faults.rpc import Event, account, add_rule, ask_all, remove_rules, rule_id
from nemesis.faults.schedule import PlannedFault
from workloads.clients.voter_changes import ChangeResult

_HELD_PATIENCE_S = 8.0
_DELIVERED_PATIENCE_S = 3.0
_WATCHED_S = 1.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class LateAcknowledgement:
    """See the module."""

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """A follower, and who leads; both are handled, since what the leader does when it is told is the question."""
        aim = await aim_by_role(field, "follower", planned.draw)
        known = await field.leader(LEADER_PATIENCE_S)
        if isinstance(aim, str) or known is None:
            return aim if isinstance(aim, str) else f"nobody led within {LEADER_PATIENCE_S:.0f} s"
        handled = frozenset({known[0], *aim.targets})
        return replace(aim, leader=known[0], leader_epoch=known[1], claim=Claim(handled, aim.claim.out_of_service))

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """The whole schedule; every step of it must have been seen."""
        (follower,), leader = aim.targets, aim.leader or ""
        for rule in _rules(aim, follower, leader):
            added = await add_rule(field, rule)
            if not added.verified:
                return added
        if not await _seen(field, aim, "hold", _HELD_PATIENCE_S):
            return Effect(False, f"{leader} did not ask {follower} whether it knows who leads")
        change, listed = await change_voter(field, leader, "remove", field.voter(follower))
        if change.result is not ChangeResult.INSTALLED or not listed:
            return Effect(False, f"{follower} did not leave the voters: {change}")
        await ask_all(field, "release", id=_held(aim))
        released = await _seen(field, aim, "release", _DELIVERED_PATIENCE_S)
        if not released or not released[0]["open"]:
            return Effect(False, f"{leader} had closed the connection when the acknowledgement was released")
        await asyncio.sleep(_WATCHED_S)
        went = "it went on" if await field.alive(leader) else "it ENDED BY ITSELF"
        waited_s = released[0]["waited_ms"] / 1000
        return Effect(
            True, f"{change}; {follower}'s acknowledgement came {waited_s:.1f} s late to {leader}, and {went}"
        )

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """All of it was seen while it went on."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Hold and lose nothing, start a leader that has ended, and bring back the voters."""
        removed = await remove_rules(field, [rule["id"] for rule in _rules(aim, "", "")])
        await asyncio.to_thread(field.nodes.note_crash, aim.leader or "")
        started = await start_all(field, replace(aim, targets=(aim.leader or "",)), TOGETHER)
        restored = await restore_voters(field)
        steps = (removed, started, restored)
        return Effect(all(each.verified for each in steps), "; ".join(each.detail for each in steps if each.detail))


def _held(aim: Aim) -> str:
    return f"{rule_id(aim)}-hold"


def _rules(aim: Aim, follower: str, leader: str) -> list[dict[str, Any]]:
    return [
        {"id": f"{rule_id(aim)}-fetches", "api": "Fetch", "part": "request", "action": "drop", "senders": [follower]},
        {
            "id": _held(aim),
            "api": "BeginQuorumEpoch",
            "part": "response",
            "action": "hold",
            "senders": [follower],
            "receivers": [leader],
            "limit": 1,
        },
    ]


async def _seen(field: Field, aim: Aim, action: str, patience_s: float) -> list[Event]:
    """Wait until a relay has done this to the answer; nothing where none does."""
    deadline_ns = field.now_ns() + int(patience_s * 1e9)
    while field.now_ns() < deadline_ns:
        events = await asyncio.to_thread(account, field, rule_id(aim))
        if isinstance(events, str):
            return []
        if found := [event for event in events if event["action"] == action]:
            return found
        await asyncio.sleep(_POLL_S)
    return []
