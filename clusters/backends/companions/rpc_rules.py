"""Rules of the relay: which frames are acted on, and how. Pure values; no socket, clock or chance.

A rule is data, as it comes from the controller:

=============  ==================================================================================================================
``id``         its name, unique while it holds
``action``     ``drop``; ``delay`` (by ``delay_ms``); ``duplicate`` (requests only: the receiver handles it twice, the sender gets one
               answer); ``hold`` (until it is released or removed); ``close`` (reset the connection instead of passing it on);
               ``note`` (it passes, and is evidence)
``api``        a name of :data:`.raft_frames.API_NAMES`, ``Vote`` or ``PreVote``, or ``any``
``part``       ``request`` or ``response``
``senders``,   nodes that send or receive *this frame* (a response is sent by the node that was asked); missing: all
``receivers``
``epoch``      ``[comparison, number]``, such as ``["<", 7]``; a frame that tells no epoch does not match
``content``    ``granted``, ``refused``, ``diverging``, ``snapshot``, ``records``, ``empty`` or ``error``, of responses
``nth``        only the n-th that matches; ``every``: every k-th; ``percent``, ``seed``: so many, drawn; ``limit``: no more than so many
=============  ==================================================================================================================

Matching frames are counted for each relay, that is for each node that connects.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.backends.companions.raft_frames import Told

ACTIONS = ("drop", "delay", "duplicate", "hold", "close", "note")
PARTS = ("request", "response")
CONTENTS: Mapping[str, Callable[[Told], bool]] = {
    "granted": lambda told: told.get("granted") is True,
    "refused": lambda told: told.get("granted") is False,
    "diverging": lambda told: "diverging_epoch" in told,
    "snapshot": lambda told: "snapshot_end" in told,
    "records": lambda told: bool(told.get("bytes")),
    "empty": lambda told: told.get("bytes") == 0 and "diverging_epoch" not in told and "snapshot_end" not in told,
    "error": lambda told: bool(told.get("error")),
}
"""what a response may contain; one of another kind has none of it"""
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
_DRAWS = 1 << 32


@dataclass(frozen=True, slots=True)
class Frame:
    """What rules look at."""

    api: str
    part: str
    sender: str
    receiver: str
    told: Told = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; see the module."""

    id: str
    action: str
    part: str
    api: str = "any"
    senders: frozenset[str] | None = None
    receivers: frozenset[str] | None = None
    epoch: tuple[str, int] | None = None
    content: str | None = None
    nth: int | None = None
    every: int = 1
    percent: float = 100.0
    seed: int = 0
    limit: int | None = None
    delay_ms: int = 0

    def matches(self, frame: Frame) -> bool:
        """Whether it is about this frame."""
        return (
            frame.part == self.part
            and self.api in ("any", frame.api)
            and (self.senders is None or frame.sender in self.senders)
            and (self.receivers is None or frame.receiver in self.receivers)
            and (self.content is None or CONTENTS[self.content](frame.told))
            and self._of_epoch(frame.told.get("epoch"))
        )

    def selects(self, matched: int, applied: int) -> bool:
        """Whether it acts on the ``matched``-th frame (from 1) that matches, having acted on ``applied`` before."""
        if self.limit is not None and applied >= self.limit:
            return False
        if self.nth is not None:
            return matched == self.nth
        return matched % self.every == 0 and self._drawn(matched)

    def _of_epoch(self, epoch: int | bool | None) -> bool:
        if self.epoch is None:
            return True
        comparison, number = self.epoch
        return epoch is not None and COMPARISONS[comparison](epoch, number)

    def _drawn(self, matched: int) -> bool:
        if self.percent >= 100:
            return True
        draw = hashlib.sha256(f"{self.seed}:{self.id}:{matched}".encode()).digest()
        return int.from_bytes(draw[:4], "big") < self.percent / 100 * _DRAWS


def read_rule(given: Mapping[str, Any]) -> Rule:
    """A rule from data. Raises ValueError that says what is wrong with it."""
    unknown = set(given) - set(Rule.__dataclass_fields__)
    if unknown:
        raise ValueError(f"a rule has no {', '.join(sorted(unknown))}")
    values = dict(given)
    for name in ("senders", "receivers"):
        if values.get(name) is not None:
            values[name] = frozenset(values[name])
    if values.get("epoch") is not None:
        comparison, number = values["epoch"]
        values["epoch"] = (comparison, int(number))
    try:
        rule = Rule(**values)
    except TypeError as error:
        raise ValueError(f"a rule needs id, action and part: {error}") from error
    for name, value, known in (
        ("action", rule.action, ACTIONS),
        ("part", rule.part, PARTS),
        ("content", rule.content, (None, *CONTENTS)),
        ("comparison", rule.epoch and rule.epoch[0], (None, *COMPARISONS)),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(str(each) for each in known if each)}, not {value!r}")
    if rule.action == "duplicate" and rule.part != "request":
        raise ValueError("only requests can be duplicated: a client closes a connection that answers twice")
    if rule.every < 1 or not 0 <= rule.percent <= 100 or rule.delay_ms < 0:
        raise ValueError("every is 1 or more, percent 0 to 100, delay_ms 0 or more")
    return rule


@dataclass(slots=True)
class Count:
    """What became of one rule."""

    matched: int = 0
    applied: int = 0


class Rules:
    """The rules in force, in the order in which they came: the first that selects a frame acts, and all that match it count it."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self.counts: dict[str, Count] = {}
        """kept after a rule is removed"""

    def add(self, rule: Rule) -> None:
        """Put a rule in force. Raises ValueError for an id that was there before: its count would be of two rules."""
        if rule.id in self.counts:
            raise ValueError(f"there was a rule {rule.id} before")
        self._rules[rule.id] = rule
        self.counts[rule.id] = Count()

    def remove(self, name: str) -> None:
        """Take a rule out of force; nothing happens when it is not."""
        self._rules.pop(name, None)

    def in_force(self) -> tuple[str, ...]:
        """The rules' ids."""
        return tuple(self._rules)

    def choose(self, frame: Frame) -> Rule | None:
        """The rule that acts on this frame, counted; None: it passes."""
        chosen = None
        for rule in self._rules.values():
            if not rule.matches(frame):
                continue
            count = self.counts[rule.id]
            count.matched += 1
            if chosen is None and rule.selects(count.matched, count.applied):
                count.applied += 1
                chosen = rule
        return chosen
