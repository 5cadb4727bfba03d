"""Reads, writes and compare-and-sets on many registers, every value written once (checker.md §2: unique values make
the order of operations readable, so that checking is nearly linear).

The values of a run come from one counter, whatever the key and whoever asks. A compare-and-set expects the last value that
its process saw of the key, or the last that anybody saw: so that a good share of them succeeds, and the others fail for a
reason. Where neither is known yet, a write takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.generators.generator import Stream
from workloads.history.operation import Completion, Consistency, Invocation, Status


@dataclass(frozen=True, slots=True)
class RegisterShares:
    """How often each operation is asked for; what ``read`` and ``cas`` leave over are writes."""

    read: float
    cas: float
    stale_share: float = 0.0
    """of the reads: how many ask for a stale answer"""

    def __post_init__(self) -> None:
        if min(self.read, self.cas, self.stale_share) < 0 or self.read + self.cas > 1 or self.stale_share > 1:
            raise ValueError(f"shares lie between 0 and 1, and read and cas make at most 1 together: {self}")


class UniqueValues:
    """1, 2, 3, …: the one counter of a run."""

    def __init__(self) -> None:
        self._last = 0

    def take(self) -> int:
        """Return a value that nobody had before."""
        self._last += 1
        return self._last


class RegisterMix:
    """The generator of the register workload."""

    def __init__(self, stream: Stream, keys: int, shares: RegisterShares, values: UniqueValues) -> None:
        if keys < 1:
            raise ValueError(f"a register workload needs a key, not {keys}")
        self._stream = stream
        self._keys = keys
        self._shares = shares
        self._values = values
        self._seen: dict[int, dict[int, int]] = {}
        self._latest: dict[int, int] = {}

    def next(self, process: int) -> Invocation:
        """Draw an operation and a key."""
        draw = self._stream.random()
        key = self._stream.randrange(self._keys)
        shares = self._shares
        if draw < shares.read:
            stale = draw < shares.read * shares.stale_share
            return Invocation("read", key, (), Consistency.STALE if stale else Consistency.LINEARIZABLE)
        if draw < shares.read + shares.cas:
            expected = self._expected(process, key)
            if expected is not None:
                return Invocation("cas", key, (expected, self._values.take()))
        return Invocation("write", key, (self._values.take(),))

    def update(self, process: int, invocation: Invocation, completion: Completion) -> None:
        """Remember what the process now knows of the key."""
        if completion.status is Status.INFO:
            self._seen.pop(process, None)
            return
        key = invocation.key
        if completion.status is Status.FAIL or key is None:
            return
        values = completion.output if invocation.f == "read" else invocation.input[-1:]
        if not values:
            return
        self._seen.setdefault(process, {})[key] = values[0]
        self._latest[key] = values[0]

    def _expected(self, process: int, key: int) -> int | None:
        latest = self._latest.get(key)
        seen = self._seen.get(process, {}).get(key)
        if seen is None or seen == latest:
            return latest
        return seen if self._stream.random() < 0.5 else latest
