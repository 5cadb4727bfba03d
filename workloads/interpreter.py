"""Drives a workload: open-loop load in real time, and short sequences before and after it.

Open loop means that operations become due at a rate that does not depend on answers. Each is sent once, by a process
that is free; when none is, a bounded number waits, and what is beyond that is *skipped* and counted. Half of the processes are
pinned, spread over all nodes in turn: they reach their node through every partition and go on asking it, so that a leader
that was cut off is asked, too. The other half follows the leader. Due operations go to the two halves alternately.

There is one task for each process and none for an operation; deadlines share one timer.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workloads.clients.deadlines import Deadlines
from workloads.generators.generator import Generator, Stream
from workloads.history.operation import Phase, Status
from workloads.problem import Problem
from workloads.recorder import Recorder
from workloads.session import Access, Session
from workloads.stalls import StallWatch

SETUP_PROCESSES = 1_000_000
FINAL_PROCESSES = 2_000_000
"""Process numbers of the sequences before and after the load: beyond those of the load."""

_RETRY_PAUSE_S = 0.05
_RATE_WINDOW_S = 2.0


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How hard to drive."""

    rate: float
    """operations a second that become due"""
    concurrency: int
    """processes"""
    timeout_s: float
    """of one operation"""
    spacing: str = "poisson"
    """``poisson`` or ``even``"""
    backlog: int | None = None
    """how many due operations may wait in each half; as many as it has processes by default"""

    def __post_init__(self) -> None:
        if self.rate <= 0 or not math.isfinite(self.rate):
            raise _wrong(f"A rate is a number of operations a second above 0, not {self.rate:g}.")
        if self.timeout_s <= 0 or not math.isfinite(self.timeout_s):
            raise _wrong(f"A timeout is a number of seconds above 0, not {self.timeout_s:g}.")
        if self.spacing not in ("poisson", "even"):
            raise _wrong(f"Spacing is poisson or even, not {self.spacing!r}.")


@dataclass(slots=True)
class Counters:
    """What the load has done so far."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    skipped: int = 0
    """were due and never sent, since all processes of their half were busy and as many as may wait did"""
    invoked: int = 0

    @property
    def completed(self) -> int:
        """How many ended, one way or another."""
        return self.ok + self.fail + self.info

    def count(self, status: Status) -> None:
        """Count one end."""
        if status is Status.OK:
            self.ok += 1
        elif status is Status.FAIL:
            self.fail += 1
        else:
            self.info += 1


@dataclass(frozen=True, slots=True)
class Progress:
    """A look at a running load."""

    counters: Counters
    in_flight: int
    waiting: int
    per_second: float
    """ends a second, of the last two seconds, or since the last look where that was longer ago"""
    leader_hint: str | None
    """the node that last acknowledged a following process's change"""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did, once all its operations have ended."""

    counters: Counters
    stalls: tuple[tuple[int, int], ...]
    """(from ns, to ns) in which the controller itself did not run"""
    crashes: tuple[str, ...]
    """what clients raised; each is a fault of the framework"""


@dataclass(slots=True, eq=False)
class _Lane:
    """One half of the processes: those that are pinned, or those that follow."""

    pinned: bool
    backlog: int
    idle: deque[asyncio.Future[bool]] = field(default_factory=deque)
    waiting: int = 0


class Load:
    """One open-loop load. ``phase`` may be set while it runs; ``run`` once."""

    def __init__(
        self,
        access: Access,
        generator: Generator,
        recorder: Recorder,
        stream: Stream,
        options: LoadOptions,
    ) -> None:
        """Raises :class:`Problem` (usage) when there are too few processes to have a pinned one at each node."""
        pinned = options.concurrency // 2
        if pinned < len(access.nodes):
            raise _wrong(
                f"Concurrency {options.concurrency} is too low for {len(access.nodes)} nodes: half of the processes are "
                f"pinned, and each node needs one; at least {2 * len(access.nodes)}."
            )
        self.phase = Phase.LOAD
        self.counters = Counters()
        self._generator = generator
        self._recorder = recorder
        self._stream = stream
        self._options = options
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._next_due_s = 0.0
        self._end_s = math.inf
        self._arrivals = 0
        self._in_flight = 0
        self._leader_hint: str | None = None
        self._recent: deque[tuple[int, int]] = deque()
        self._stalls = StallWatch(recorder.now_ns)
        followers = options.concurrency - pinned
        self._lanes = (
            _Lane(True, pinned if options.backlog is None else options.backlog),
            _Lane(False, followers if options.backlog is None else options.backlog),
        )
        deadlines = Deadlines()
        self._sessions = [
            Session(
                access,
                recorder,
                deadlines,
                pinned=process < pinned,
                node=access.nodes[process % len(access.nodes)] if process < pinned else None,
                process=process,
                stride=options.concurrency,
                timeout_s=options.timeout_s,
            )
            for process in range(options.concurrency)
        ]

    async def run(self, duration_s: float | None = None) -> LoadResult:
        """Load until ``duration_s`` is over, :meth:`stop` is called or the generator has nothing more; then wait until every
        operation in flight has ended, at most its timeout and a second."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._next_due_s = now + self._gap_s()
        self._end_s = math.inf if duration_s is None else now + duration_s
        self._recent.append((self._recorder.now_ns(), 0))
        self._stalls.start()
        pinned = self._options.concurrency // 2
        tasks = [
            loop.create_task(self._process(session, self._lanes[0 if number < pinned else 1]))
            for number, session in enumerate(self._sessions)
        ]
        self._tick(loop)
        try:
            await asyncio.gather(*tasks)
        finally:
            self.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stalls.stop()
            await asyncio.gather(*(session.close() for session in self._sessions))
        crashes = tuple(crash for session in self._sessions for crash in session.crashes)
        return LoadResult(replace(self.counters), tuple(self._stalls.stalls), crashes)

    def stop(self) -> None:
        """Send nothing more; what waits is counted as skipped."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for lane in self._lanes:
            self.counters.skipped += lane.waiting
            lane.waiting = 0
            while lane.idle:
                wake = lane.idle.popleft()
                if not wake.done():
                    wake.set_result(False)

    def progress(self) -> Progress:
        """Look at the load now."""
        now = self._recorder.now_ns()
        self._recent.append((now, self.counters.completed))
        while len(self._recent) > 2 and now - self._recent[1][0] > _RATE_WINDOW_S * 1e9:
            self._recent.popleft()
        since_ns, before = self._recent[0]
        seconds = (now - since_ns) / 1e9
        return Progress(
            counters=replace(self.counters),
            in_flight=self._in_flight,
            waiting=sum(lane.waiting for lane in self._lanes),
            per_second=(self.counters.completed - before) / seconds if seconds > 0 else 0.0,
            leader_hint=self._leader_hint,
        )

    def _gap_s(self) -> float:
        """Seconds between two due operations."""
        if self._options.spacing == "even":
            return 1 / self._options.rate
        return -math.log(1.0 - self._stream.random()) / self._options.rate

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand out what is due and come back when more is."""
        now = loop.time()
        while self._next_due_s <= now and self._next_due_s < self._end_s:
            self._arrive()
            self._next_due_s += self._gap_s()
        if self._stopping:
            return
        if now >= self._end_s:
            self.stop()
            return
        self._timer = loop.call_at(min(self._end_s, max(self._next_due_s, now + 0.001)), self._tick, loop)

    def _arrive(self) -> None:
        lane = self._lanes[self._arrivals & 1]
        self._arrivals += 1
        while lane.idle:
            wake = lane.idle.popleft()
            if not wake.done():
                wake.set_result(True)
                return
        if lane.waiting < lane.backlog:
            lane.waiting += 1
        else:
            self.counters.skipped += 1

    async def _process(self, session: Session, lane: _Lane) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            if lane.waiting:
                lane.waiting -= 1
            else:
                wake = loop.create_future()
                lane.idle.append(wake)
                if not await wake:
                    return
            invocation = self._generator.next(session.process)
            if invocation is None:
                self.stop()
                return
            self.counters.invoked += 1
            self._in_flight += 1
            try:
                completion = await session.perform(self._generator, invocation, self.phase)
            finally:
                self._in_flight -= 1
            self.counters.count(completion.status)
            if not lane.pinned and completion.status is Status.OK and invocation.f != "read":
                self._leader_hint = completion.node or session.node


async def run_to_end(
    access: Access,
    generators: Mapping[str, Generator],
    recorder: Recorder,
    *,
    pinned: bool,
    phase: Phase,
    first_process: int,
    timeout_s: float,
    limit_s: float,
    stopping: Callable[[], bool] = lambda: False,
) -> dict[str, bool]:
    """Do what each node's generator asks, side by side, one process for each node, until it has nothing more.

    Whether an operation is asked again after it failed is the generator's decision; there is a short pause after each that
    was not ok. Returns node → whether its generator came to its end within ``limit_s`` seconds.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_s
    deadlines = Deadlines()

    async def one(number: int, node: str, generator: Generator) -> bool:
        session = Session(
            access,
            recorder,
            deadlines,
            pinned=pinned,
            node=node,
            process=first_process + number,
            stride=len(generators),
            timeout_s=timeout_s,
        )
        try:
            while (invocation := generator.next(session.process)) is not None:
                if loop.time() >= end_s or stopping():
                    return False
                completion = await session.perform(generator, invocation, phase)
                if completion.status is not Status.OK:
                    await asyncio.sleep(_RETRY_PAUSE_S)
        finally:
            await session.close()
        return True

    nodes: Sequence[str] = tuple(generators)
    done = await asyncio.gather(*(one(number, node, generators[node]) for number, node in enumerate(nodes)))
    return dict(zip(nodes, done, strict=True))


def _wrong(what: str) -> Problem:
    return Problem("load-options", what, "See `nemesis run --help` for --rate and --concurrency.", usage=True)
