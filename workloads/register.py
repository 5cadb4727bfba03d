"""Workload ``register``: many independent registers with read, write and compare-and-set.

Model. Each key holds one 64-bit value and starts unwritten. ``write v`` makes it v. ``cas a → b`` makes it b if it is a; any
other value makes the operation fail without effect. ``read`` answers with the value, or with nothing while it is unwritten.
Every value is written at most once in a run (one counter for all keys), so each read names the operation that it saw, and a
successful compare-and-set names its predecessor: linearizability is then decided in O(n log n) (checker.md §2).

Where a candidate promises linearizable reads (``reads = "linearizable"``) all operations of a key must be linearizable.
Where it promises only committed, monotone reads (``reads = "stale"``: Apache Kafka's default-broker configuration read from any
controller) reads are marked so, there is no compare-and-set, and writes are judged by their position in the log.

Setup writes every register once: the candidate serves before the first fault. Final reads ask every node for every key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workloads.generators.combinators import UntilOk
from workloads.generators.generator import Generator, Stream
from workloads.generators.register_mix import RegisterMix, RegisterShares, UniqueValues
from workloads.history.operation import Consistency, Invocation
from workloads.workload import LoadPlan, Options, Pace, Workload, read_options


@dataclass(frozen=True, slots=True)
class RegisterOptions:
    """Options of the workload."""

    keys: int = 12
    reads: str = "linearizable"
    """``linearizable``, or ``stale`` for a candidate that promises no more"""
    read_share: float = 0.5
    cas_share: float = 0.2
    stale_share: float = 0.0
    """of the reads of a candidate that offers both"""

    def __post_init__(self) -> None:
        if self.reads not in ("linearizable", "stale"):
            raise ValueError(f"reads are linearizable or stale, not {self.reads!r}")
        if not 1 <= self.keys <= 1_000_000:
            raise ValueError(f"keys are 1 to 1000000, not {self.keys}")
        self.shares()

    def shares(self) -> RegisterShares:
        """Return what the load draws from. Raises ValueError for impossible shares."""
        if self.reads == "stale":
            return RegisterShares(self.read_share, 0.0, 1.0)
        return RegisterShares(self.read_share, self.cas_share, self.stale_share)


def make_plan(stream: Stream, options: Options) -> LoadPlan:
    """Make the generators of one run; raises Problem for an option that does not exist."""
    chosen = read_options("register", RegisterOptions, options)
    values = UniqueValues()

    def write(key: int) -> Callable[[], Invocation]:
        return lambda: Invocation("write", key, (values.take(),))

    def read(key: int) -> Callable[[], Invocation]:
        return lambda: Invocation("read", key, (), Consistency(chosen.reads))

    def final(node: str) -> Generator:  # noqa: ARG001 - every node is asked the same
        return UntilOk([read(key) for key in range(chosen.keys)])

    return LoadPlan(
        setup=UntilOk([write(key) for key in range(chosen.keys)]),
        load=RegisterMix(stream, chosen.keys, chosen.shares(), values),
        final=final,
        initial_values={},
    )


REGISTER = Workload(
    name="register",
    title="registers with read, write and compare-and-set",
    text=__doc__,
    pace={
        "reference": Pace(rate=400, concurrency=20, timeout_s=1.0),
        "kafka": Pace(rate=60, concurrency=12, timeout_s=2.0),
    },
    candidate_options={"reference": {}, "kafka": {"reads": "stale", "cas_share": 0.0}},
    make_plan=make_plan,
)
