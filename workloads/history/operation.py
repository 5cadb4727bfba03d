"""One client operation: what was asked, what came back, and when (Jepsen's invoke, then ok / fail / info).

Times are nanoseconds of the controller's monotonic clock since the start of the run. An operation that never completed
(``info``) has no ``completed_ns``: it may take effect at any later time. Values are 64-bit integers so that checkers work
on flat arrays; what ``input`` and ``output`` mean depends on ``f``:

======== ======================= =========================================== =======================================
f        input                   output                                      offset / epoch
======== ======================= =========================================== =======================================
read     ``[]``                  ``[value]``, or ``[]`` when unwritten         applied offset of the answer, if told
write    ``[value]``             ``[]``                                      log offset of the record, if told
cas      ``[expected, new]``     ``[]`` (ok = it was swapped)                log offset of the record, if told
append   ``[value]``             ``[]``                                      log offset given to the value
poll     ``[from_offset]``       ``[offset, value, offset, value, …]``       high watermark of the answer (exclusive)
add      ``[delta]``             ``[value before the addition]``             –
register ``[incarnation]``       ``[broker epoch]``                          broker epoch = log offset of the record
======== ======================= =========================================== =======================================

``cas`` with ``expected`` absent is not offered: a register starts unwritten and is written first. A ``cas`` whose answer is
"the value was another" is ``fail``. An offset starts at 0; a high watermark is exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How an operation ended, as Jepsen means it."""

    OK = "ok"
    """it took effect, exactly once, between invocation and completion"""
    FAIL = "fail"
    """it certainly did not and will not take effect"""
    INFO = "info"
    """nobody knows: it may take effect at any time from its invocation on"""


class Consistency(StrEnum):
    """What the candidate promises of an operation's answer."""

    LINEARIZABLE = "linearizable"
    STALE = "stale"
    """committed, a prefix of the log, monotone in one session; never judged for recency"""


class Phase(StrEnum):
    """The part of a run in which an operation was invoked."""

    LOAD = "load"
    RECOVERY = "recovery"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a generator asks a client to do."""

    f: str
    key: int | None = None
    input: tuple[int, ...] = ()
    consistency: Consistency = Consistency.LINEARIZABLE


@dataclass(frozen=True, slots=True)
class Completion:
    """What a client makes of the answer, from the error table alone when it is an error."""

    status: Status
    output: tuple[int, ...] = ()
    error: str | None = None
    offset: int | None = None
    epoch: int | None = None
    node: str | None = None
    """the node that answered, when it is not the one that was asked"""


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table ``operations``."""

    op_id: int
    process: int
    client_node: str | None
    """the node that answered or was asked, e.g. ``n1``"""
    pinned: bool
    """the process is pinned to ``client_node`` and never follows a redirect"""
    f: str
    key: int | None
    input: tuple[int, ...]
    output: tuple[int, ...]
    status: Status
    error: str | None
    invoked_ns: int
    completed_ns: int | None
    consistency: Consistency
    phase: Phase
    offset: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A row of the table ``faults``: one fault from its injection to its healing.

    ``links`` are cut ordered pairs ``"n1>n2"``. ``verified`` is None for a fault that was planned and not reached.
    ``isolated`` names the nodes on the side without a majority, where there is one. ``replaced`` says that the next
    fault came straight after this one, without healing in between.
    """

    fault_id: int
    fault: str
    targets: tuple[str, ...]
    links: tuple[str, ...]
    planned_ns: int
    started_ns: int | None
    ended_ns: int | None
    verified: bool | None
    leader: str | None
    leader_epoch: int | None
    isolated: tuple[str, ...] = ()
    replaced: bool = False
    detail: str = ""
