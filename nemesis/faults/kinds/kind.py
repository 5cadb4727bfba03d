"""What a kind of fault is, as data, and what kinds have in common: what they need of a backend, and parameters by the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nemesis.faults.parameters import Parameter, Value, Values


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
    PACKETS = "packets"
    """delay, lose, repeat and reorder the packets of one directed link, and reset its connections"""
    DISK_FAILURES = "disk-failures"
    """let the disk of a running node fail: on a file system of its own"""
    RELAY = "relay"
    """act on single messages between nodes, by a relay in each node's namespace"""
    PRELOAD = "preload"
    """run a node's processes with a library of ours preloaded, and share a file with them"""


CAPABILITY_TEXT = {
    Capability.LINKS: "cutting any link in one direction",
    Capability.PROCESSES: "signals to a node's processes",
    Capability.DISKS: "the files of a node that is down",
    Capability.CPU: "taking CPU away from one node",
    Capability.MEMORY: "bounding the memory of one node",
    Capability.PACKETS: "shaping the packets of one directed link",
    Capability.DISK_FAILURES: "disks that fail while a node uses them",
    Capability.RELAY: "acting on single messages between nodes",
    Capability.PRELOAD: "preloading a library into a node's processes",
}


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether a backend can do something here: ``ok`` None means that it was not tried, since it depends on other machines."""

    ok: bool | None
    reason: str = ""


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
    changes_release: bool = False
    """nodes are started under another release: ``--to-version`` must say which"""
    shim: str = ""
    """the library that must be preloaded into every node from its start: a source in ``clusters.backends.shim``"""

    @property
    def acts_as(self) -> str:
        """The kind that does the work."""
        return self.short_for[0] if self.short_for else self.name

    def values(self, given: Values) -> dict[str, Value]:
        """All parameters: defaults, what this name fixes, and what was given."""
        fixed = self.short_for[1] if self.short_for else {}
        return {**{each.name: each.default for each in self.parameters}, **fixed, **given}


LINKS = frozenset({Capability.LINKS})
PROCESSES = frozenset({Capability.PROCESSES})
DISKS = frozenset({Capability.PROCESSES, Capability.DISKS})
PROBED = "a datagram on every link, when it begins and when it ends: the cut ones lose it, all others deliver it"
ENDED = "the process has ended, and no other one ran until the start"

ORDER = Parameter(
    "order",
    "choice",
    "shuffled",
    "in which order several nodes are started again",
    choices=("shuffled", "together", "by-id"),
)
STAGGER = Parameter("stagger_ms", "count", 200, "between two starts", unit="ms", most=60_000)


def targets(default: str, *, text: str = "who is aimed at", only: tuple[str, ...] = ()) -> Parameter:
    """The parameter ``targets``: a role or a node."""
    return Parameter("targets", "targets", default, text, choices=only)
