"""What a fault is: it fixes its targets, acts, verifies that it took effect, and heals. Healing may be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from clusters.links import OPEN, Links
from nemesis.faults.field import Field
from nemesis.faults.in_force import NOTHING, Claim
from nemesis.faults.schedule import PlannedFault


@dataclass(frozen=True, slots=True)
class Aim:
    """The targets of one fault, fixed before it acts."""

    targets: tuple[str, ...]
    leader: str | None
    leader_epoch: int | None
    links: Links = OPEN
    """cut for as long as the fault holds"""
    isolated: tuple[str, ...] = ()
    claim: Claim = NOTHING
    lane: str = ""
    number: int = 0
    """the fault's, unique in the run"""
    draw: float = 0.0
    """in [0, 1): what else is left to chance"""


@dataclass(frozen=True, slots=True)
class Effect:
    """Whether a fault took effect, and what was seen of it."""

    verified: bool
    detail: str = ""


class Rest(Protocol):
    """How a fault that goes on acting waits."""

    async def __call__(self, seconds: float, *, beyond_s: float = 0.0) -> bool:
        """Sleep for so many seconds, at most to the end of the hold and ``beyond_s`` more; False when that has come, or the run is
        being stopped."""
        ...


class Fault(Protocol):
    """One kind of fault, with its parameters."""

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


@runtime_checkable
class Acting(Protocol):
    """A fault that goes on acting while it holds."""

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Act between injection and the end of the hold, as long as ``rest`` says True."""
        ...
