"""Faults of single messages between nodes: rules for the relays beside them (:mod:`clusters.backends.companions.relay`).

The relays are there from before the nodes' first processes, in runs of scenarios that need them (:mod:`.relays`). A fault puts
one rule in force in every relay, and takes it out at its end; a rule that acted on nothing did not happen. What each relay did to
which frame, and what the frame said, is kept in ``nodes/<node>/relay.jsonl``.

Losing messages isolates nobody for certain, so the rows of these faults name no links and no isolated nodes: no rule of bounded time
convicts a node for them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.process import LEADER_PATIENCE_S, TOGETHER, kill_all, start_all, stayed_down
from nemesis.faults.relays import RELAY
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.targets import chosen, needs_leader
from workloads.problem import Problem

RELAY_FILE = "relay.jsonl"
_TAKES_MAX = 1_000
_ELECTED_PATIENCE_S = 10.0

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RpcFault:
    """Acts on messages of one kind from ``targets`` to ``to`` (roles or nodes)."""

    action: str
    api: str
    part: str
    targets: str
    to: str
    content: str = "any"
    nth: int = 0
    every: int = 1
    percent: float = 100.0
    most: int = 0
    delay_ms: int = 0

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """Who has the roles now; they keep them to the end of the fault, whoever leads then."""
        roles = (self.targets, self.to)
        known = field.watch.current_leader()
        if any(needs_leader(role) for role in roles):
            known = await field.leader(LEADER_PATIENCE_S)
            if known is None:
                return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
        leader, epoch = known or (None, None)
        nodes = field.nodes
        ends = [chosen(role, leader, nodes.voters, nodes.observers, planned.draw) for role in roles]
        for role, found in zip(roles, ends, strict=True):
            if not found:
                return f"there is no {role} here"
        senders, receivers = ends
        claim = Claim(out_of_service=self._silenced(senders, receivers, nodes.voters))
        return Aim(tuple(dict.fromkeys((*senders, *receivers))), leader, epoch, claim=claim)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Put the rule in force everywhere: the relay of the connecting node is the one that meets the frames."""
        return await add_rule(field, self._rule(field, aim))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """On which frames it acted. A delay must have been as long as it was to be."""
        del since_ns
        seen = await asyncio.to_thread(account, field, rule_id(aim))
        if isinstance(seen, str):
            return Effect(False, seen)
        late = [each for each in seen if each.get("waited_ms", 0) < self.delay_ms]
        return Effect(bool(seen) and not late, told(seen, _DONE[self.action]))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Take the rule out; what is being delayed passes when it is due."""
        return await remove_rules(field, [rule_id(aim)])

    def _rule(self, field: Field, aim: Aim) -> dict[str, Any]:
        nodes = field.nodes
        ends = [chosen(role, aim.leader, nodes.voters, nodes.observers, aim.draw) for role in (self.targets, self.to)]
        rule: dict[str, Any] = {
            "id": rule_id(aim),
            "action": self.action,
            "api": self.api,
            "part": self.part,
            "senders": ends[0],
            "receivers": ends[1],
            "every": self.every,
            "percent": self.percent,
            "seed": int(aim.draw * 2**31),
            "delay_ms": self.delay_ms,
        }
        optional = {"nth": self.nth, "limit": self.most, "content": None if self.content == "any" else self.content}
        return {**rule, **{name: value for name, value in optional.items() if value}}

    def _silenced(self, senders: Sequence[str], receivers: Sequence[str], voters: Sequence[str]) -> frozenset[str]:
        """Voters that nothing is replicated to any more, where all messages that do it are lost."""
        partly = self.nth or self.most or self.every > 1 or self.percent < 100 or self.content != "any"
        if self.action not in ("drop", "close") or partly or self.api not in ("any", "Fetch", "FetchSnapshot"):
            return frozenset()
        fetching = receivers if self.part == "response" else senders
        answering = senders if self.part == "response" else receivers
        # A node that is both, and one that nobody else can fetch from, are told by the smaller side.
        smaller = fetching if len(fetching) <= len(answering) else answering
        return frozenset(smaller) & frozenset(voters)


@dataclass(frozen=True, slots=True)
class VotesUnheard:
    """Kill the leader while every answer to a vote is lost."""

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The leader is killed; all voters are out of service with it."""
        del planned
        known = await field.leader(LEADER_PATIENCE_S)
        if known is None:
            return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
        claim = Claim(frozenset({known[0]}), frozenset(field.nodes.voters))
        return Aim((known[0],), *known, claim=claim)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """The rules first, then the kill."""
        rules = [
            {"id": f"{rule_id(aim)}-{api}", "action": "drop", "api": api, "part": "response"}
            for api in ("Vote", "PreVote")
        ]
        for rule in rules:
            added = await add_rule(field, rule)
            if not added.verified:
                return added
        return await kill_all(field, aim.targets)

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Votes were asked for, none was heard, and nobody leads a newer epoch."""
        del since_ns
        down = await stayed_down(field, aim)
        seen = await asyncio.to_thread(account, field, rule_id(aim))
        if isinstance(seen, str):
            return Effect(False, seen)
        known = field.watch.current_leader()
        elected = known is not None and known[0] != aim.leader
        parts = [told(seen, _DONE["drop"]), f"{known[0]} leads all the same" if known and elected else "nobody led"]
        return Effect(down.verified and bool(seen) and not elected, "; ".join(parts))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Let votes be heard, wait until somebody leads, then start the killed node."""
        ids = [f"{rule_id(aim)}-{api}" for api in ("Vote", "PreVote")]
        removed = await remove_rules(field, ids)
        began_ns = field.now_ns()
        known = await field.leader(_ELECTED_PATIENCE_S)
        after = (
            f"{known[0]} led {(field.now_ns() - began_ns) / 1e9:.1f} s after the heal"
            if known
            else "nobody led after it"
        )
        started = await start_all(field, aim, TOGETHER)
        return Effect(removed.verified and started.verified, "; ".join([after, started.detail]))


_DONE = {
    "drop": "lost",
    "delay": "delivered late",
    "duplicate": "delivered twice",
    "close": "answered with a reset",
    "hold": "held",
}


def rule_id(aim: Aim) -> str:
    """The rule of a fault, unique in the run."""
    return f"fault-{aim.number}"


async def add_rule(field: Field, rule: dict[str, Any]) -> Effect:
    """Put a rule in force in every relay."""
    try:
        await ask_all(field, "add", rules=[rule])
    except Problem as problem:
        return Effect(False, problem.what)
    return Effect(True)


async def remove_rules(field: Field, ids: Sequence[str]) -> Effect:
    """Take rules out of force everywhere, and keep what was not kept yet of what the relays did."""
    try:
        await ask_all(field, "remove", ids=list(ids))
        await asyncio.to_thread(keep_events, field)
    except Problem as problem:
        return Effect(False, problem.what)
    return Effect(True)


async def ask_all(field: Field, op: str, **fields: Any) -> dict[str, Any]:
    """Ask every relay. Raises Problem."""
    names = field.nodes.names
    asked = [asyncio.to_thread(field.cluster.companion, node, RELAY, op, **fields) for node in names]
    return dict(zip(names, await asyncio.gather(*asked), strict=True))


def account(field: Field, rule: str) -> list[Event] | str:
    """What relays did by a rule, or by those whose names begin with it; a text says why nobody knows. Blocks."""
    try:
        keep_events(field)
    except Problem as problem:
        return problem.what
    return [each for each in kept_events(field) if each["rule"] == rule or each["rule"].startswith(f"{rule}-")]


def keep_events(field: Field) -> None:
    """Append what the relays did since the last time to the run's files. Blocks. Raises Problem."""
    clocks = field.cluster.clocks()
    began_ns = time.monotonic_ns() - field.now_ns()
    for node in field.nodes.names:
        ahead_ns = clocks[node].ahead_ns if node in clocks else 0
        with (field.nodes.folder(node) / RELAY_FILE).open("a") as file:
            for _ in range(_TAKES_MAX):
                answer = field.cluster.companion(node, RELAY, "events")
                for event in answer["events"]:
                    at_ns = event.pop("at_ns") - ahead_ns - began_ns
                    file.write(json.dumps({"ts_ns": at_ns, **event}) + "\n")
                if not answer["left"]:
                    break


def kept_events(field: Field) -> Iterable[Event]:
    """All that was kept, node by node. Blocks."""
    for node in field.nodes.names:
        path = field.nodes.folder(node) / RELAY_FILE
        if path.exists():
            yield from map(json.loads, path.read_text().splitlines())


def told(events: Sequence[Event], done: str) -> str:
    """What was done to which messages, in a sentence."""
    if not events:
        return f"no message was {done}: none matched"
    kinds = Counter(f"{each['api']} {each['part']}s" for each in events if each["action"] != "release")
    ways = Counter(f"{each['sender']}>{each['receiver']}" for each in events if each["action"] != "release")
    epochs = [each["epoch"] for each in events if isinstance(each.get("epoch"), int)]
    parts = [f"{', '.join(f'{count} {kind}' for kind, count in kinds.items())} {done}"]
    parts.append(f"({', '.join(f'{way} {count}' for way, count in sorted(ways.items()))})")
    if epochs:
        parts.append(f"of epochs {min(epochs)} to {max(epochs)}")
    waits = sorted(each["waited_ms"] for each in events if "waited_ms" in each)
    if waits:
        parts.append(f"by {waits[0]:.0f} to {waits[-1]:.0f} ms")
    return " ".join(parts)
