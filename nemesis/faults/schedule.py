"""The plan of faults of one run: pure values, all drawn from the seed before anything starts.

What is drawn here is which fault, when, for how long, whether the next one replaces it without healing, and a number from
which targets are chosen. *Who* leads is asked when the fault is due, and recorded before it acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nemesis.faults.parameters import Value

NS = 1_000_000_000
_FAULTS_MAX = 1000


class Stream(Protocol):
    """The draws that a plan needs; ``random.Random`` is one."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""
        ...


class Choice(Protocol):
    """One kind of fault as a scenario declares it."""

    @property
    def fault(self) -> str: ...  # noqa: D102
    @property
    def weight(self) -> float: ...  # noqa: D102
    @property
    def replace_share(self) -> float: ...  # noqa: D102
    @property
    def hold(self) -> float: ...  # noqa: D102
    @property
    def lane(self) -> str: ...  # noqa: D102
    @property
    def parameters(self) -> tuple[tuple[str, Value], ...]: ...  # noqa: D102
    @property
    def budget(self) -> str: ...  # noqa: D102
    @property
    def cost(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of the plan; times are nanoseconds since the load began."""

    fault_id: int
    fault: str
    at_ns: int
    hold_ns: int
    replaced: bool
    """the next fault comes straight after it, without healing in between"""
    draw: float
    """in [0, 1): which of the possible targets"""
    lane: str = ""
    """faults of one lane follow each other, those of different lanes overlap"""
    parameters: tuple[tuple[str, Value], ...] = ()
    turn: int = 0
    """its number in its lane"""


def draw_lanes(
    choices: Sequence[Choice],
    *,
    duration_ns: int,
    warm_up_ns: int,
    gap_ns: int,
    period_ns: int,
    streams: Callable[[str], Stream],
    replaceable: frozenset[str],
    limits: Mapping[str, int],
) -> tuple[PlannedFault, ...]:
    """Draw every lane from a stream of its own (:func:`draw_schedule`), numbered together by their time.

    Faults that draw on one budget are in one lane, so ``limits`` hold for the whole run.
    """
    planned = [
        fault
        for lane in dict.fromkeys(choice.lane for choice in choices)
        for fault in draw_schedule(
            [choice for choice in choices if choice.lane == lane],
            duration_ns=duration_ns,
            warm_up_ns=warm_up_ns,
            gap_ns=gap_ns,
            period_ns=period_ns,
            stream=streams(lane),
            replaceable=replaceable,
            limits=limits,
        )
    ]
    planned.sort(key=lambda fault: (fault.at_ns, fault.lane))
    return tuple(replace(fault, fault_id=number) for number, fault in enumerate(planned))


def draw_schedule(
    choices: Sequence[Choice],
    *,
    duration_ns: int,
    warm_up_ns: int,
    gap_ns: int,
    period_ns: int,
    stream: Stream,
    replaceable: frozenset[str],
    limits: Mapping[str, int],
) -> tuple[PlannedFault, ...]:
    """Draw the faults that fit into ``duration_ns`` of load.

    ``period_ns`` is the check-quorum period: a hold is a number of them, at least as long as the bound of the liveness
    rule that the fault exercises. Only a fault in ``replaceable`` (a change of links) may be replaced by the next, and only
    when that one is such a change too; never twice in a row, and the last one always heals. ``limits`` says how much of a
    budget there is: each fault that draws on it takes its cost (disks may be damaged on so many nodes of one run).
    """
    picked = _draw_order(choices, stream, limits)
    planned: list[PlannedFault] = []
    at_ns = warm_up_ns
    for index, choice in enumerate(picked):
        hold_ns = int(choice.hold * period_ns * stream.uniform(1.0, 1.08))
        if at_ns + hold_ns > duration_ns:
            break
        replaced = (
            stream.random() < choice.replace_share
            and not (planned and planned[-1].replaced)
            and choice.fault in replaceable
            and index + 1 < len(picked)
            and picked[index + 1].fault in replaceable
        )
        planned.append(
            PlannedFault(
                index, choice.fault, at_ns, hold_ns, replaced, stream.random(), choice.lane, choice.parameters, index
            )
        )
        at_ns += hold_ns + (0 if replaced else int(gap_ns * stream.uniform(1.0, 1.25)))
    if planned and planned[-1].replaced:
        planned[-1] = replace(planned[-1], replaced=False)
    return tuple(planned)


def _draw_order(choices: Sequence[Choice], stream: Stream, limits: Mapping[str, int]) -> list[Choice]:
    left = dict(limits)
    picked: list[Choice] = []
    for _ in range(_FAULTS_MAX):
        possible = [choice for choice in choices if left.get(choice.budget, choice.cost) >= choice.cost]
        if not possible:
            break
        choice = _pick(possible, stream)
        picked.append(choice)
        if choice.budget in left:
            left[choice.budget] -= choice.cost
    return picked


def _pick(choices: Sequence[Choice], stream: Stream) -> Choice:
    total = sum(choice.weight for choice in choices)
    point = stream.random() * total
    for choice in choices:
        point -= choice.weight
        if point < 0:
            return choice
    return choices[-1]
