"""What is in force now, over all lanes: whose links are cut, who is out of service, whose disk was damaged.

Faults of different lanes overlap. The link matrix is the union of what each of them cuts, so that healing one leaves the other exactly
as it was; a node's process belongs to one fault at a time; and a quorum-preserving run lets a fault wait as long as it would take
the majority away together with those that are in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from clusters.links import OPEN, Links, Pair, union


@dataclass(frozen=True, slots=True)
class Claim:
    """What a fault takes while it is in force."""

    processes: frozenset[str] = frozenset()
    """nodes whose process or disk it handles"""
    out_of_service: frozenset[str] = frozenset()
    """nodes that serve nobody: down, paused, or without a majority"""
    damaged: frozenset[str] = frozenset()
    """nodes whose disk is never again what it was"""
    clocks: frozenset[str] = frozenset()
    """nodes whose wall clock is wrong"""


NOTHING = Claim()


@dataclass(slots=True)
class InForce:
    """The faults in force by lane. One event loop; :attr:`matrix` is held over each change of links and its probe."""

    matrix: asyncio.Lock = field(default_factory=asyncio.Lock)
    damaged: set[str] = field(default_factory=set)
    _links: dict[str, Links] = field(default_factory=dict)
    _shaped: dict[str, frozenset[Pair]] = field(default_factory=dict)
    _claims: dict[str, Claim] = field(default_factory=dict)

    def links(self) -> Links:
        """All that is cut."""
        return union(*self._links.values())

    def cut(self, lane: str, links: Links) -> Links:
        """What a lane cuts from now on, instead of what it cut before; returns all that is cut."""
        if links == OPEN:
            self._links.pop(lane, None)
        else:
            self._links[lane] = links
        return self.links()

    def shape(self, lane: str, pairs: frozenset[Pair]) -> None:
        """The links on which a lane delays or loses packets from now on."""
        self._shaped[lane] = pairs

    def shaped(self) -> frozenset[Pair]:
        """Links that are open, and on which a datagram may be lost or late."""
        return frozenset().union(*self._shaped.values())

    def obstacle(self, lane: str, claim: Claim, voters: Sequence[str], *, preserving: bool) -> str | None:
        """Why a fault of ``lane`` must wait, None when it need not. A lane's own fault is the one that it replaces."""
        others = [held for other, held in self._claims.items() if other != lane]
        taken = claim.processes & frozenset().union(*(held.processes for held in others))
        if taken:
            return f"another fault handles {', '.join(sorted(taken))}"
        clocks = claim.clocks & frozenset().union(*(held.clocks for held in others))
        if clocks:
            return f"another fault handles the clock of {', '.join(sorted(clocks))}"
        if not preserving:
            return None
        most = (len(voters) - 1) // 2
        out = claim.out_of_service.union(*(held.out_of_service for held in others)) & set(voters)
        if len(out) > most:
            return f"a majority would be out of service: {', '.join(sorted(out))}"
        damaged = (self.damaged | claim.damaged) & set(voters)
        if claim.damaged and len(damaged) > most:
            return f"a majority of the disks would be damaged: {', '.join(sorted(damaged))}"
        return None

    def overlaps(self, lane: str) -> bool:
        """Whether a fault of another lane is in force."""
        return any(other != lane for other in self._claims)

    def claim(self, lane: str, claim: Claim) -> None:
        """Take what a fault needs, from before it acts."""
        self._claims[lane] = claim
        self.damaged |= claim.damaged

    def release(self, lane: str) -> None:
        """Give it back, after healing."""
        self._claims.pop(lane, None)
