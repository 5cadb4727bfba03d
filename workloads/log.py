"""Workload ``log``: one append-only log with append and poll.

Model. The log gives each appended value an offset; offsets grow, a value has one offset and an offset one value. ``append v``
answers with the offset of v once it is committed. ``poll from`` answers with (offset, value) pairs from that offset on, in
order and without gaps but for records that are not data, and with the high watermark: all below it is committed and stays.
Every value is appended at most once in a run. The position of each operation is then known, so that linearizability is
decided in one pass without search (checker.md §1), and each answer can be compared with every node's disk.

Where a candidate promises linearizable reads a poll's high watermark covers every append acknowledged before the poll began. Where it
promises only committed, monotone reads (Apache Kafka's metadata log by Fetch), polls are marked ``stale``.

Setup appends once: the candidate serves before the first fault. Final reads poll the log from 0 to its end: at every node, or
at the leader where only that answers polls (``reads = "stale"``).
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.generators.combinators import UntilOk
from workloads.generators.generator import Generator, Stream
from workloads.generators.log_mix import LogMix, LogShares, LogToEnd
from workloads.generators.register_mix import UniqueValues
from workloads.history.operation import Consistency, Invocation
from workloads.workload import LoadPlan, Options, Pace, Workload, read_options


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of the workload."""

    reads: str = "linearizable"
    """``linearizable``, or ``stale`` for a candidate that promises no more"""
    poll_share: float = 0.4
    back_share: float = 0.1
    """of the polls: how many go back a little"""

    def __post_init__(self) -> None:
        if self.reads not in ("linearizable", "stale"):
            raise ValueError(f"reads are linearizable or stale, not {self.reads!r}")
        self.shares()

    def shares(self) -> LogShares:
        """Return what the load draws from. Raises ValueError for impossible shares."""
        return LogShares(self.poll_share, self.back_share, consistency=Consistency(self.reads))


def make_plan(stream: Stream, options: Options) -> LoadPlan:
    """Make the generators of one run; raises Problem for an option that does not exist."""
    chosen = read_options("log", LogOptions, options)
    consistency = Consistency(chosen.reads)
    values = UniqueValues()

    def final(node: str) -> Generator:  # noqa: ARG001 - every node is asked the same
        return LogToEnd(consistency)

    return LoadPlan(
        setup=UntilOk([lambda: Invocation("append", None, (values.take(),))]),
        load=LogMix(stream, chosen.shares(), values),
        final=final,
        final_pinned=chosen.reads == "linearizable",
        initial_values={},
    )


LOG = Workload(
    name="log",
    title="an append-only log with append and poll",
    text=__doc__,
    pace={
        "reference": Pace(rate=400, concurrency=20, timeout_s=1.0),
        "kafka": Pace(rate=60, concurrency=12, timeout_s=2.0),
    },
    candidate_options={"reference": {}, "kafka": {"reads": "stale"}},
    make_plan=make_plan,
)
