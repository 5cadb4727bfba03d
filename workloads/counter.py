"""Workload ``counter``: one counter with fetch-and-add.

Model. ``add d`` (d > 0) adds d and answers with the value before the addition. No two additions get the same answer, and one that
was answered before another began has the lower answer. An addition with an unknown outcome may have taken effect: the
next answer may then be higher by its delta, a gap that is allowed once for each of them.
Every answer is a position, so that linearizability is decided in one pass without search (checker.md §1).

On Apache Kafka the counter is the allocation of producer-id blocks: each answer is the first id of a block of 1000, and each
allocation is a record in the metadata log; the delta is therefore 1000.

Setup adds once. There is no pure read, and only a leader adds: the final operations are one more addition for each node,
by clients that start at that node and follow the leader; their answers are above all answers before them.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.generators.combinators import UntilOk
from workloads.generators.counting import Additions
from workloads.generators.generator import Generator, Stream
from workloads.history.operation import Invocation
from workloads.workload import LoadPlan, Options, Pace, Workload, read_options


@dataclass(frozen=True, slots=True)
class CounterOptions:
    """Options of the workload."""

    delta: int = 1
    """what one addition adds; a producer-id block of Kafka has 1000"""

    def __post_init__(self) -> None:
        Additions(self.delta)


def make_plan(stream: Stream, options: Options) -> LoadPlan:  # noqa: ARG001 - nothing is drawn
    """Make the generators of one run; raises Problem for an option that does not exist."""
    chosen = read_options("counter", CounterOptions, options)

    def add() -> Invocation:
        return Invocation("add", None, (chosen.delta,))

    def final(node: str) -> Generator:  # noqa: ARG001 - every node is asked the same
        return UntilOk([add])

    return LoadPlan(
        setup=UntilOk([add]),
        load=Additions(chosen.delta),
        final=final,
        final_pinned=False,
        initial_values={"counter": 0},
    )


COUNTER = Workload(
    name="counter",
    title="a counter with fetch-and-add",
    text=__doc__,
    pace={"kafka": Pace(rate=60, concurrency=12, timeout_s=2.0)},
    candidate_options={"kafka": {"delta": 1000}},
    make_plan=make_plan,
)
