"""A follower is told to truncate by a leader of long ago: an answer to a fetch that was right when it was written, and arrives too late.

The leader is cut off while clients write to it, so that its log ends in records that nobody else has. When it comes back it fetches from
its successor, which answers with the *diverging epoch*: where their logs part. That answer is held. The successor is paused, a third
node takes office, and the node in question follows it, truncates by *its* answer, and fetches and acknowledges new records. Then the
held answer arrives. It is of an older epoch than the follower's, and says that the log ends where meanwhile committed records lie:
one that obeys it loses them (KAFKA-18991 is this, in the replica fetcher of brokers; KIP-595 demands that a follower never truncates
below its high watermark).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from clusters.links import OPEN, groups
from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.partition import change_links
from nemesis.faults.process import LEADER_PATIENCE_S
from nemesis.faults.rpc import Event, account, add_rule, ask_all, remove_rules, rule_id
from nemesis.faults.schedule import PlannedFault

_ELECTED_PATIENCE_S = 10.0
_HELD_PATIENCE_S = 10.0
_ADVANCED_PATIENCE_S = 10.0
_WATCHED_S = 1.5
_POLL_S = 0.1


class _Missed(Exception):
    """A step of the schedule did not come about."""


@dataclass(frozen=True, slots=True)
class StaleDivergence:
    """See the module. ``lag_ms``: how long the leader is cut off at least."""

    lag_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The leader, which will be the follower with too long a log; it needs two others."""
        del planned
        known = await field.leader(LEADER_PATIENCE_S)
        if known is None:
            return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
        if len(field.nodes.voters) != 3:
            return "it takes three voters: with more, others could lead without the follower"
        everybody = frozenset(field.nodes.voters)
        return Aim((known[0],), *known, claim=Claim(everybody, everybody))

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """The whole schedule; every step of it must have been seen."""
        try:
            return Effect(True, await self._play(field, aim))
        except _Missed as missed:
            return Effect(False, str(missed))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """All of it was seen while it went on."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Open links, let everybody run, and hold nothing."""
        opened = await change_links(field, aim.lane, OPEN)
        removed = await remove_rules(field, [f"{rule_id(aim)}-{name}" for name in ("hold", "fetches")])
        for node in field.nodes.voters:
            await asyncio.to_thread(field.nodes.resume, node)
        return Effect(opened.verified and removed.verified, "" if removed.verified else removed.detail)

    async def _play(self, field: Field, aim: Aim) -> str:
        (follower,) = aim.targets
        await self._part(field, aim, follower)
        held = await _seen(field, aim, lambda e: e["action"] == "hold", _HELD_PATIENCE_S)
        if held is None:
            raise _Missed(f"{follower} came back, and nobody told it that its log diverges")
        end, epoch = int(held["diverging_end"]), int(held["epoch"])
        await asyncio.to_thread(field.nodes.pause, held["sender"])
        newer = await field.leader(_ELECTED_PATIENCE_S, other_than=held["sender"])
        if newer is None:
            raise _Missed(f"{held['sender']} was paused, and nobody else led within {_ELECTED_PATIENCE_S:.0f} s")

        def is_ahead(event: Event) -> bool:
            if event["action"] != "note" or int(event.get("epoch", -1)) <= epoch:
                return False
            # Its own records, which nobody else has, reach beyond the end too; they are of an epoch before.
            return int(event["offset"]) > end and int(event["last_epoch"]) >= epoch

        if await _seen(field, aim, is_ahead, _ADVANCED_PATIENCE_S) is None:
            raise _Missed(f"{follower} did not fetch beyond {end} in an epoch later than {epoch}")
        await asyncio.sleep(_WATCHED_S)
        reached = max(int(e["offset"]) for e in await _events(field, aim) if is_ahead(e))
        await ask_all(field, "release", id=f"{rule_id(aim)}-hold")
        await asyncio.sleep(_WATCHED_S)
        return _told(follower, held, await _events(field, aim), reached)

    async def _part(self, field: Field, aim: Aim, follower: str) -> None:
        """Let the leader write what nobody else has, and come back under a successor."""
        await change_links(field, aim.lane, groups([follower], [n for n in field.nodes.names if n != follower]))
        await asyncio.sleep(self.lag_ms / 1000)
        successor = await field.leader(_ELECTED_PATIENCE_S, other_than=follower)
        if successor is None:
            raise _Missed(f"nobody but {follower} led within {_ELECTED_PATIENCE_S:.0f} s")
        fetches = {"api": "Fetch", "id": rule_id(aim)}
        answers = {"part": "response", "action": "hold", "receivers": [follower], "content": "diverging", "limit": 1}
        for name, rule in (
            ("hold", answers),
            ("fetches", {"part": "request", "action": "note", "senders": [follower]}),
        ):
            added = await add_rule(field, {**fetches, **rule, "id": f"{rule_id(aim)}-{name}"})
            if not added.verified:
                raise _Missed(added.detail)
        await change_links(field, aim.lane, OPEN)


async def _events(field: Field, aim: Aim) -> list[Event]:
    events = await asyncio.to_thread(account, field, rule_id(aim))
    if isinstance(events, str):
        raise _Missed(events)
    return events


async def _seen(field: Field, aim: Aim, wanted: Callable[[Event], bool], patience_s: float) -> Event | None:
    """Wait for an event."""
    deadline = field.now_ns() + int(patience_s * 1e9)
    while field.now_ns() < deadline:
        found = next((event for event in await _events(field, aim) if wanted(event)), None)
        if found is not None:
            return found
        await asyncio.sleep(_POLL_S)
    return None


def _told(follower: str, held: Event, events: list[Event], reached: int) -> str:
    """What became of the answer. Raises _Missed for one that could not be delivered any more."""
    released = next((event for event in events if event["action"] == "release"), None)
    if released is None or not released["open"]:
        raise _Missed(
            f"{follower} had closed the connection when the answer was released: it waits no longer than its request timeout"
        )
    after = [e for e in events if e["action"] == "note" and e["ts_ns"] > held["ts_ns"] + released["waited_ms"] * 1e6]
    told = (
        f"{held['sender']} told {follower} in epoch {held['epoch']} that their logs part at {held['diverging_end']} (epoch "
        f"{held['diverging_epoch']}); it was told so {released['waited_ms'] / 1000:.1f} s later, when it had fetched up to {reached}"
    )
    if not after:
        return f"{told}; it fetched nothing more"
    lowest = min(int(event["offset"]) for event in after)
    went = "went on" if lowest >= reached else f"WENT BACK to {lowest}: it truncated its log"
    return f"{told} in epoch {after[0]['epoch']}, and {went}"
