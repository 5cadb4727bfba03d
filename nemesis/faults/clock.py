"""Faults of a node's own wall clock: jump, drift, strobe, and a jump back where the majority needs the node.

The clock is faked for the node's processes alone, by a preloaded library (:mod:`clusters.backends.shim.clock`); the host's clock,
monotonic clocks and waits are left alone. Healing sets the clock right, as an operator or a time service would; for a clock that
was ahead that is itself a jump backward. What proves each fault is what the node was told when it asked for the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from clusters.backends.shim.clock import NAME, Answers, ClockShim
from clusters.collect.wall_clock import TRUE_CLOCK, Setting
from clusters.shared import Sharing
from nemesis.faults.fault import Aim, Effect, Rest
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.process import LEADER_PATIENCE_S, TOGETHER, aim_by_role, kill_all, start_all, stayed_down
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.targets import turned
from workloads.problem import Problem

_MS = 1_000_000
_SEEN_PATIENCE_S = 12.0
"""another lane may have ended or paused the node, which asks again when it is back"""
_POLL_S = 0.02
_LOOK_S = 0.2
_TOLERANCE_NS = 2 * _MS
_DRIFT_LEAST = 0.5
"""of the drift that was asked for must be measured"""
_STROBES_LEAST = 3
"""answers in either phase"""


def _shim(field: Field) -> tuple[ClockShim, Sharing]:
    shim, cluster = field.shims.get(NAME), field.cluster
    if not isinstance(shim, ClockShim) or not isinstance(cluster, Sharing):
        raise Problem("backend-unable", "The nodes of this run have no clock of ours.", usage=True)
    return shim, cluster


async def set_clock(field: Field, node: str, make: Callable[[int], Setting]) -> int:
    """Set a node's clock to what ``make`` says, given its own true wall clock now; returns the setting's generation."""
    shim, cluster = _shim(field)
    spec, incarnation = field.nodes.specification(node), field.nodes.incarnation(node)

    def change() -> int:
        real_ns = shim.wall_ns(node)
        before, after = shim.setting(node)[1], make(real_ns)
        generation = shim.change(cluster, spec, incarnation, after)
        field.nodes.clock_changed(node, after.is_steady, before.latest_ns(real_ns) - after.fake_ns(real_ns))
        return generation

    return await asyncio.to_thread(change)


async def ask_clock(field: Field, node: str) -> Answers:
    """What the node has been told of the time."""
    shim, cluster = _shim(field)
    return await asyncio.to_thread(shim.answers, cluster, field.nodes.specification(node))


async def see_clock(field: Field, node: str, generation: int) -> Answers | str:
    """Wait until the node has asked for the time under a setting; a text says why it did not."""
    deadline = time.monotonic() + _SEEN_PATIENCE_S
    while True:
        answers = await ask_clock(field, node)
        if answers.loaded and answers.generation >= generation and answers.count:
            return answers
        if time.monotonic() > deadline:
            if not answers.loaded:
                return f"the preloaded clock did not take effect in {node}: its program is linked statically, or for another machine"
            return f"{node} did not ask for the time within {_SEEN_PATIENCE_S:.0f} s"
        await asyncio.sleep(_POLL_S)


async def right_clocks(field: Field, nodes: tuple[str, ...]) -> Effect:
    """Set the clocks right, and see that those nodes which run are told the true time."""
    told = []
    for node in nodes:
        generation = await set_clock(field, node, lambda _: TRUE_CLOCK)
        if not await field.alive(node):
            continue
        answers = await see_clock(field, node, generation)
        if isinstance(answers, str):
            told.append(answers)
        elif answers.offset_ns:
            told.append(f"{node} is still told a time that is {answers.offset_ns / 1e9:+.3f} s off")
    return Effect(not told, "; ".join(told) or "the clock is right again")


async def _aim(field: Field, targets: str, draw: float) -> Aim | str:
    aim = await aim_by_role(field, targets, draw, out_of_service=False)
    return aim if isinstance(aim, str) else replace(aim, claim=Claim(clocks=frozenset(aim.targets)))


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The wall clock jumps by ``offset_ms``, and jumps back at the end of the hold."""

    targets: str
    offset_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await _aim(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Jump; that the node was told a time so far off is what proves it."""
        steps = [await jump(field, node, self.offset_ms) for node in aim.targets]
        return Effect(all(each.verified for each in steps), "; ".join(each.detail for each in steps))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The clocks must still be off by as much, in whatever process the node has now."""
        del since_ns
        wrong = []
        for node in aim.targets:
            answers = await ask_clock(field, node)
            if answers.count and abs(answers.offset_ns - self.offset_ms * _MS) > _TOLERANCE_NS:
                wrong.append(f"{node} was told a time {answers.offset_ns / 1e9:+.3f} s off at the end")
        return Effect(not wrong, "; ".join(wrong))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Set the clocks right."""
        return await right_clocks(field, aim.targets)


async def jump(field: Field, node: str, offset_ms: int) -> Effect:
    """Let a node's clock jump, and wait until it has been told so."""
    generation = await set_clock(field, node, lambda real: _ahead(real, offset_ms))
    return await _jumped(field, node, generation, offset_ms)


def _ahead(real_ns: int, offset_ms: int) -> Setting:
    return Setting(base_real_ns=real_ns, base_fake_ns=real_ns + offset_ms * _MS)


async def _jumped(field: Field, node: str, generation: int, offset_ms: int) -> Effect:
    answers = await see_clock(field, node, generation)
    if isinstance(answers, str):
        return Effect(False, answers)
    off_by_ns = answers.offset_ns - offset_ms * _MS
    return Effect(abs(off_by_ns) <= _TOLERANCE_NS, f"{node} was told a time {answers.offset_ns / 1e9:+.3f} s off")


@dataclass(frozen=True, slots=True)
class ClockDrift:
    """The wall clock goes ``rate`` times as fast, from the true time on, until the end of the hold."""

    targets: str
    rate: float

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await _aim(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Let it drift; how far it went is measured over the hold."""
        told = []
        for node in aim.targets:
            generation = await set_clock(
                field, node, lambda real: Setting(base_real_ns=real, base_fake_ns=real, rate=self.rate)
            )
            answers = await see_clock(field, node, generation)
            if isinstance(answers, str):
                told.append(answers)
        return Effect(not told, "; ".join(told))

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Measure from the node's own readings how fast its clock went."""
        first = {node: await ask_clock(field, node) for node in aim.targets}
        last = dict(first)
        while await rest(_LOOK_S):
            for node in aim.targets:
                answers = await ask_clock(field, node)
                if answers.count:
                    last[node] = answers
        told, drifted = [], []
        for node in aim.targets:
            drifted_ns = last[node].offset_ns - first[node].offset_ns
            passed_ns = last[node].fake_ns - first[node].fake_ns - drifted_ns
            rate = 1 + drifted_ns / passed_ns if passed_ns > 0 else 1.0
            drifted.append(abs(rate - 1) >= _DRIFT_LEAST * abs(self.rate - 1))
            told.append(
                f"{node}'s clock went {rate:.3f} times as fast, {last[node].offset_ns / 1e9:+.3f} s off at the end"
            )
        return Effect(all(drifted), "; ".join(told))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """What was measured is all."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Set the clocks right."""
        return await right_clocks(field, aim.targets)


@dataclass(frozen=True, slots=True)
class ClockStrobe:
    """The wall clock jumps by ``offset_ms`` and back again, every ``period_ms``, until the end of the hold."""

    targets: str
    offset_ms: int
    period_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now."""
        return await _aim(field, self.targets, planned.draw)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Begin; what the node is told in either phase is counted over the hold."""
        told = []
        for node in aim.targets:
            generation = await set_clock(field, node, self._setting)
            answers = await see_clock(field, node, generation)
            if isinstance(answers, str):
                told.append(answers)
        return Effect(not told, "; ".join(told))

    def _setting(self, real_ns: int) -> Setting:
        return Setting(
            base_real_ns=real_ns,
            base_fake_ns=real_ns,
            strobe_ns=self.offset_ms * _MS,
            period_ns=self.period_ms * _MS,
        )

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Count the answers of either phase, each process of the node from its own start."""
        right, apart = dict.fromkeys(aim.targets, 0), dict.fromkeys(aim.targets, 0)
        last = {node: await ask_clock(field, node) for node in aim.targets}
        going = True
        while going:
            going = await rest(_LOOK_S)
            for node in aim.targets:
                before, now = last[node], await ask_clock(field, node)
                if now.count >= before.count:
                    apart[node] += now.apart - before.apart
                    right[node] += now.count - now.apart - (before.count - before.apart)
                last[node] = now
        told = [
            f"{node} was told {right[node]} times the true time, {apart[node]} times one {self.offset_ms / 1000:+.3f} s off"
            for node in aim.targets
        ]
        both = all(min(right[node], apart[node]) >= _STROBES_LEAST for node in aim.targets)
        return Effect(both, "; ".join(told))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """What was counted is all."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Set the clocks right."""
        return await right_clocks(field, aim.targets)


@dataclass(frozen=True, slots=True)
class ClockBackWithoutLeader:
    """The clock of a follower jumps back by ``offset_ms``, and leader and others are killed at once, so that every majority needs it.

    The targets of its aim are the follower, then those that are killed.
    """

    offset_ms: int

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The leader, and as many followers as leave a bare majority; the clock is that of one who is left."""
        known = await field.leader(LEADER_PATIENCE_S)
        if known is None:
            return f"nobody led within {LEADER_PATIENCE_S:.0f} s"
        leader, epoch = known
        needed, *others = turned([voter for voter in field.nodes.voters if voter != leader], planned.draw) or [""]
        if not others:
            return f"a quorum of {len(field.nodes.voters)} has no majority without its leader"
        killed = (leader, *others[: (len(field.nodes.voters) - 1) // 2 - 1])
        claim = Claim(frozenset(killed), frozenset(killed), clocks=frozenset({needed}))
        return Aim((needed, *killed), leader, epoch, claim=claim)

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Jump back, kill at once, and see that the node was told the old time."""
        needed, *killed = aim.targets
        generation = await set_clock(field, needed, lambda real: _ahead(real, -self.offset_ms))
        ended = await kill_all(field, tuple(killed))
        seen = await _jumped(field, needed, generation, -self.offset_ms)
        return Effect(ended.verified and seen.verified, f"{seen.detail}; {', '.join(killed)} killed: {ended.detail}")

    async def during(self, field: Field, aim: Aim, rest: Rest) -> Effect:
        """Measure for how long nobody leads."""
        began_ns = field.now_ns()
        while await rest(_POLL_S):
            known = field.watch.current_leader()
            if known is not None and known[0] not in field.nodes.down() and known[1] > (aim.leader_epoch or 0):
                return Effect(True, f"{known[0]} led {(field.now_ns() - began_ns) / 1e9:.1f} s later")
        return Effect(True, f"nobody led for {(field.now_ns() - began_ns) / 1e9:.1f} s, until the end of the fault")

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """The killed nodes must still be down."""
        del since_ns
        return await stayed_down(field, replace(aim, targets=aim.targets[1:]))

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Set the clock right, and start the others."""
        righted = await right_clocks(field, aim.targets[:1])
        started = await start_all(field, replace(aim, targets=aim.targets[1:]), TOGETHER)
        return Effect(righted.verified and started.verified, f"{righted.detail}; {started.detail}")
