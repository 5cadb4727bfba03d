"""What a fault is: it fixes its targets, acts, verifies that it took effect, and heals. Healing may be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clusters.links import OPEN, Links
from nemesis.faults.field import Field
from nemesis.faults.schedule import PlannedFault


@dataclass(frozen=True, slots=True)
class Aim:
    """The targets of one fault, fixed before it acts."""

    targets: tuple[str, ...]
    leader: str | None
    leader_epoch: int | None
    links: Links = OPEN
    isolated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """Whether a fault took effect, and what was seen of it."""

    verified: bool
    detail: str = ""


class Fault(Protocol):
    """One kind of fault."""

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """Choose the targets now; a text says why there is none (nobody leads)."""
        ...

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Act, and verify the effect."""
        ...

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Verify, at the end of the hold, that the effect lasted; ``since_ns`` is when :meth:`inject` had returned."""
        ...

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Undo it, and verify that it is undone."""
        ...
