"""The fault catalogue as data: what each fault does, its parameters, what a backend must be able to do for it, how it is done and
how it is verified. How each one *acts* is in :mod:`nemesis.faults.registry`, which ``nemesis list`` need not load.
"""

from __future__ import annotations

from nemesis.faults.kinds.clock import CLOCK_FAULTS
from nemesis.faults.kinds.disk import DISK_FAULTS
from nemesis.faults.kinds.kind import FaultKind
from nemesis.faults.kinds.membership import MEMBERSHIP_FAULTS
from nemesis.faults.kinds.network import LINK_FAULTS
from nemesis.faults.kinds.packets import PACKET_FAULTS
from nemesis.faults.kinds.process import PROCESS_FAULTS
from nemesis.faults.kinds.rpc import RPC_FAULTS
from nemesis.faults.kinds.storage import STORAGE_FAULTS
from nemesis.faults.parameters import Value, Values

GROUPS = ("network", "process", "disk", "clock", "membership", "chaos")
"""groups of faults and of scenarios; ``chaos`` is of scenarios only"""

_BASE = {
    kind.name: kind
    for kind in (
        *LINK_FAULTS,
        *PACKET_FAULTS,
        *RPC_FAULTS,
        *PROCESS_FAULTS,
        *DISK_FAULTS,
        *STORAGE_FAULTS,
        *CLOCK_FAULTS,
        *MEMBERSHIP_FAULTS,
    )
}


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
        shim=base.shim,
    )


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
    kind.name: kind for kind in sorted((*_BASE.values(), *_SHORTS), key=lambda k: (GROUPS.index(k.group), k.name))
}
"""every fault by its name, by group"""

LINK_CHANGES = frozenset(name for name, kind in CATALOGUE.items() if kind.changes_links)
"""faults that change links only: they can replace each other without healing in between"""


def changes_voters(fault: str, given: Values) -> bool:
    """Whether a fault with these parameters changes the voter set: only some candidates can (KIP-853)."""
    kind = CATALOGUE[fault]
    return kind.group == "membership" or kind.values(given).get("procedure") == "operator"
