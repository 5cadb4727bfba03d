"""The fault catalogue as data: what each fault does, its parameters, what a backend must be able to do for it, how it is done and
how it is verified. How each one *acts* is in :mod:`nemesis.faults.registry`, which ``nemesis list`` need not load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nemesis.faults.parameters import Parameter, Value, Values

GROUPS = ("network", "process", "disk", "clock", "membership", "chaos")
"""groups of faults and of scenarios; ``chaos`` is of scenarios only"""


class Capability(StrEnum):
    """What a backend may be able to do."""

    LINKS = "links"
    """cut any link one way, from outside the node, and probe it"""
    PROCESSES = "processes"
    """kill, stop, pause and start a node's processes"""
    DISKS = "disks"
    """read and change the files of a node that is down"""
    CPU = "cpu"
    """take CPU away from a node, and measure for how long it waited"""
    MEMORY = "memory"
    """bound the memory of a running node"""


CAPABILITY_TEXT = {
    Capability.LINKS: "cutting any link in one direction",
    Capability.PROCESSES: "signals to a node's processes",
    Capability.DISKS: "the files of a node that is down",
    Capability.CPU: "taking CPU away from one node",
    Capability.MEMORY: "bounding the memory of one node",
}


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault.

    ``out_of_service`` says that its targets (or those that it isolates) serve nobody while it holds; ``damages`` that what it does to a
    disk is not undone by healing; ``changes_links`` that it does nothing else, so that another one can replace it in one step.
    """

    name: str
    group: str
    text: str
    how: str
    verified: str
    needs: frozenset[Capability]
    parameters: tuple[Parameter, ...] = ()
    out_of_service: bool = True
    damages: bool = False
    changes_links: bool = False
    short_for: tuple[str, Mapping[str, Value]] | None = None

    @property
    def acts_as(self) -> str:
        """The kind that does the work."""
        return self.short_for[0] if self.short_for else self.name

    def values(self, given: Values) -> dict[str, Value]:
        """All parameters: defaults, what this name fixes, and what was given."""
        base = CATALOGUE[self.acts_as]
        fixed = self.short_for[1] if self.short_for else {}
        return {**{each.name: each.default for each in base.parameters}, **fixed, **given}


def _targets(default: str, *, text: str = "who is aimed at", only: tuple[str, ...] = ()) -> Parameter:
    return Parameter("targets", "targets", default, text, choices=only)


_LINKS = frozenset({Capability.LINKS})
_PROCESSES = frozenset({Capability.PROCESSES})
_DISKS = frozenset({Capability.PROCESSES, Capability.DISKS})
_CUT = "drops what the source sends, outside of both nodes, so that neither can notice or undo it"
_PROBED = "a datagram on every link, when it begins and when it ends: the cut ones lose it, all others deliver it"
_ENDED = "the process has ended, and no other one ran until the start"
_LISTED = "the answer (installed, refused or unknown), and the voters that whoever leads then lists"
_CHECKSUMS = "SHA-256 of the file before and after differ, and the size is what was planned"

_ORDER = Parameter(
    "order",
    "choice",
    "shuffled",
    "in which order several nodes are started again",
    choices=("shuffled", "together", "by-id"),
)
_STAGGER = Parameter("stagger_ms", "count", 200, "between two starts", unit="ms", most=60_000)
_PROCEDURE = Parameter(
    "procedure",
    "choice",
    "none",
    "what follows the start: nothing, or the operator's way, remove the old identity and add the new one (KIP-853)",
    choices=("none", "operator"),
)
_FILE = Parameter(
    "file",
    "choice",
    "segment",
    "which file: the newest segment of the log, the stored vote and epoch, the newest snapshot",
    choices=("segment", "quorum-state", "snapshot"),
)


def _shape(name: str, text: str) -> FaultKind:
    return FaultKind(name, "network", text, _CUT, _PROBED, _LINKS, changes_links=True)


def _short(name: str, kind: str, text: str, **fixed: Value) -> FaultKind:
    base = _BASE[kind]
    return FaultKind(
        name,
        base.group,
        text,
        base.how,
        base.verified,
        base.needs,
        tuple(each for each in base.parameters if each.name not in fixed),
        base.out_of_service,
        base.damages,
        base.changes_links,
        (kind, fixed),
    )


_SHAPES = (
    _shape("isolate-leader", "cuts the leader off from everybody, both ways"),
    _shape("isolate-follower", "cuts one follower off from everybody, both ways"),
    _shape("split-leader-in-minority", "two sides, the leader in the smaller one"),
    _shape("split-leader-in-majority", "two sides, the leader in the larger one"),
    _shape("split-leader-and-observers", "the leader keeps the observers and loses every other voter"),
    _shape("majority-ring", "every node sees a majority, no two see the same one (four voters or more)"),
    _shape("bridge", "two halves that only one node in the middle sees, both of them"),
    _shape("leader-unheard", "the leader hears, and nothing that it sends arrives"),
    _shape("leader-deaf", "the leader sends, and hears nothing"),
)

_OTHERS = (
    FaultKind(
        "isolate",
        "network",
        "cuts the targets, together on one side, off from all others",
        _CUT,
        _PROBED,
        _LINKS,
        (
            _targets("follower"),
            Parameter(
                "direction",
                "choice",
                "both",
                "which way: nothing leaves them (out), nothing reaches them (in), or both",
                choices=("both", "in", "out"),
            ),
        ),
        changes_links=True,
    ),
    FaultKind(
        "flapping",
        "network",
        "cuts the targets off and heals again and again, faster than anybody's timers settle",
        _CUT,
        "datagrams on every link after each change; at least three whole cycles",
        _LINKS,
        (
            _targets("leader"),
            Parameter("cut_ms", "count", 400, "how long each cut lasts", unit="ms", least=50, most=60_000),
            Parameter("open_ms", "count", 300, "how long it is open between", unit="ms", least=50, most=60_000),
        ),
    ),
    FaultKind(
        "kill",
        "process",
        "kill -9, all targets at once; at the end they are started again, in an order that is drawn",
        "SIGKILL to every process of the node",
        _ENDED,
        _PROCESSES,
        (_targets("leader"), _ORDER, _STAGGER),
    ),
    FaultKind(
        "pause",
        "process",
        "SIGSTOP, and SIGCONT at the end: the node wakes up and believes that no time has passed",
        "SIGSTOP to every process of the node",
        "every process stands still, and the node answered no question while it was paused",
        _PROCESSES,
        (_targets("leader"),),
    ),
    FaultKind(
        "restart",
        "process",
        "SIGTERM, kill -9 if that is not obeyed; started again at the end",
        "SIGTERM to every process of the node",
        _ENDED,
        _PROCESSES,
        (_targets("leader"), _ORDER, _STAGGER),
    ),
    FaultKind(
        "restart-next",
        "process",
        "stops one node after the other, in order of node id, whoever leads",
        "SIGTERM to every process of the node",
        _ENDED,
        _PROCESSES,
    ),
    FaultKind(
        "crash-loop",
        "process",
        "kill -9 again and again, each time as soon as the node has run for a moment",
        "SIGKILL to every process of the node, and a start on the same disk, in a loop",
        "each process had begun to run and has ended; at least three of them",
        _PROCESSES,
        (
            _targets("follower"),
            Parameter("up_ms", "count", 400, "how long each process runs", unit="ms", least=10, most=60_000),
            Parameter("down_ms", "count", 50, "how long the node is down between", unit="ms", most=60_000),
        ),
    ),
    FaultKind(
        "cpu-pressure",
        "process",
        "makes the node share one CPU with processes that do nothing but compute",
        "CPU affinity of the node's processes and of as many burners as asked for; no cgroup, no root needed",
        "the node's own run-queue delay while it was under pressure",
        frozenset({Capability.CPU}),
        (_targets("leader"), Parameter("burners", "count", 8, "how many compete with the node", least=1, most=64)),
        out_of_service=False,
    ),
    FaultKind(
        "memory-pressure",
        "process",
        "gives the node no more memory than it has, and a little headroom: allocations fail",
        "RLIMIT_AS of the node's processes, set from outside; lifted again at the end, and by a restart",
        "the limit that the kernel shows for the process, and that its size stayed below",
        frozenset({Capability.PROCESSES, Capability.MEMORY}),
        (
            _targets("follower"),
            Parameter("headroom_mib", "count", 8, "what it may still take", unit="MiB", least=0, most=65_536),
        ),
    ),
    FaultKind(
        "wipe",
        "disk",
        "kill -9, the disk is moved aside, an empty one is formatted as an operator would: a new directory id",
        "the data directory is renamed, the candidate's own format makes a new one",
        "the directory id of the new disk is another one",
        _DISKS,
        (_targets("follower"), _ORDER, _STAGGER, _PROCEDURE),
        damages=True,
    ),
    FaultKind(
        "wipe-behind-laggards",
        "disk",
        "a minority is cut off while clients write; then all others are killed, one of them is wiped, and it goes on with that minority",
        "links, kill -9, the candidate's own format: in this order, and the other nodes stay down until the end",
        "datagrams on every link, the processes have ended, the directory id of the new disk is another one",
        _LINKS | _DISKS,
        (
            Parameter(
                "lag_ms", "count", 1500, "for how long the minority misses writes", unit="ms", least=100, most=60_000
            ),
        ),
        damages=True,
    ),
    FaultKind(
        "add-voter",
        "membership",
        "makes an observer a voter; it is an observer again at the end",
        "AddRaftVoter to the leader (KIP-853)",
        _LISTED,
        frozenset(),
        (_targets("observer"),),
        out_of_service=False,
    ),
    FaultKind(
        "remove-voter",
        "membership",
        "takes a voter out of the set; it runs on as an observer, and is a voter again at the end",
        "RemoveRaftVoter to the leader (KIP-853)",
        _LISTED,
        frozenset(),
        (_targets("follower"),),
    ),
    FaultKind(
        "concurrent-changes",
        "membership",
        "asks for the removal of one voter and the addition of an observer at the same moment",
        "RemoveRaftVoter and AddRaftVoter to the leader, neither waiting for the other (KIP-853)",
        _LISTED,
        frozenset(),
        (_targets("follower"),),
    ),
    FaultKind(
        "restore-old-disk",
        "disk",
        "copies the disk of a stopped node, lets the node go on, and later puts the old copy back under the old identity",
        "kill -9, copy, start; at the end kill -9, the disk is moved aside and the copy takes its place",
        "checksums: the disk that is back is the copy, and not the disk that the node had last",
        _DISKS,
        (_targets("follower"),),
        damages=True,
    ),
    FaultKind(
        "truncate-file",
        "disk",
        "cuts the end off a file while the node is down",
        "kill -9, ftruncate, start at the end",
        _CHECKSUMS,
        _DISKS,
        (
            _targets("follower"),
            _FILE,
            Parameter("bytes", "count", 100, "how much is cut off, at most the whole file", unit="bytes", least=1),
        ),
        damages=True,
    ),
    FaultKind(
        "flip-bits",
        "disk",
        "flips bits of a file while the node is down: bit rot",
        "kill -9, bits drawn from the seed are inverted, start at the end",
        _CHECKSUMS,
        _DISKS,
        (
            _targets("follower"),
            _FILE,
            Parameter("bits", "count", 3, "how many, at places drawn from the seed", least=1, most=1_000_000),
        ),
        damages=True,
    ),
)

_BASE = {kind.name: kind for kind in (*_SHAPES, *_OTHERS)}

_SHORTS = (
    _short("kill-leader", "kill", "kill -9 to the leader, started again at the end", targets="leader"),
    _short("kill-follower", "kill", "kill -9 to a follower, started again at the end", targets="follower"),
    _short("remove-leader", "remove-voter", "takes the leader itself out of the set", targets="leader"),
    _short("pause-leader", "pause", "SIGSTOP to the leader, SIGCONT at the end", targets="leader"),
    _short("pause-follower", "pause", "SIGSTOP to a follower, SIGCONT at the end", targets="follower"),
    _short("wipe-leader", "wipe", "the leader comes back on an empty disk", targets="leader"),
    _short("wipe-follower", "wipe", "a follower comes back on an empty disk", targets="follower"),
)

CATALOGUE: dict[str, FaultKind] = {
    kind.name: kind for kind in sorted((*_SHAPES, *_OTHERS, *_SHORTS), key=lambda k: (GROUPS.index(k.group), k.name))
}
"""every fault by its name, by group"""

LINK_CHANGES = frozenset(name for name, kind in CATALOGUE.items() if kind.changes_links)
"""faults that change links only: they can replace each other without healing in between"""


def changes_voters(fault: str, given: Values) -> bool:
    """Whether a fault with these parameters changes the voter set: only some candidates can (KIP-853)."""
    kind = CATALOGUE[fault]
    return kind.group == "membership" or kind.values(given).get("procedure") == "operator"
