"""Changes of the voter set as faults (KIP-853): add, remove, both at once, and the operator's procedure after a wipe.

Each change is recorded as installed, refused or unknown. An unknown one is looked up, and stays unknown: a leader lists the voters of
the newest record in its log, committed or not. A change that was asked for while a fault of another lane was in force has happened
whatever came of it: what it leaves half done is what such a scenario is for. Healing brings back the set that the run began with,
under the directory ids that the nodes have now.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from nemesis.faults.fault import Aim, Effect
from nemesis.faults.field import Field
from nemesis.faults.in_force import Claim
from nemesis.faults.process import LEADER_PATIENCE_S, aim_by_role
from nemesis.faults.schedule import PlannedFault
from workloads.clients.voter_changes import Change, ChangeResult, Voter, VoterChanges

CHANGE_TIMEOUT_S = 8.0
_SHOWN_PATIENCE_S = 5.0
_RESTORE_PATIENCE_S = 25.0
_PAUSE_S = 0.25
_LEADERS_ASKED = 3
"""at most, for one change: who does not lead, or no longer, decides nothing"""


@dataclass(frozen=True, slots=True)
class ChangeVoters:
    """Change the voter set, and bring back that of the beginning at the end of the hold.

    ``action``: ``add`` makes an observer a voter; ``remove`` takes a voter out, the leader itself if asked to, which goes on as an
    observer; ``both`` asks for one of each at the same moment, of which a leader has at most one in hand (KIP-853).
    """

    action: str
    targets: str

    async def aim(self, field: Field, planned: PlannedFault) -> Aim | str:
        """The nodes that have the role now, and who leads."""
        aim = await _aim(field, self.targets, planned, leaving=self.action != "add")
        if self.action != "both" or isinstance(aim, str):
            return aim
        joining = await _aim(field, "observer", planned, leaving=False)
        return joining if isinstance(joining, str) else replace(aim, targets=(*aim.targets, *joining.targets))

    async def inject(self, field: Field, aim: Aim) -> Effect:
        """Ask the leader; that whoever leads then lists the voters so is what proves it, of both at least one.

        While a fault of another lane is in force, that a leader was asked and decided, or left open, is enough.
        """
        observers = field.nodes.observers
        both = self.action == "both"
        asked = [(("add" if node in observers else "remove") if both else self.action, node) for node in aim.targets]
        return await _ask(field, aim, asked, least=1 if both else len(asked))

    async def still(self, field: Field, aim: Aim, since_ns: int) -> Effect:
        """Nothing but another change can undo it."""
        del field, aim, since_ns
        return Effect(True)

    async def heal(self, field: Field, aim: Aim) -> Effect:
        """Bring back the voters that the run began with."""
        del aim
        return await restore_voters(field)


async def restore_voters(field: Field) -> Effect:
    """The operator's procedure: remove identities that should not vote, then add those that should, one change after the other.

    After a wipe that is: remove the old identity, add the new one. Verified when the leader lists just the voters of the run's
    beginning, under the directory ids that their disks have now.
    """
    done: list[Change] = []
    deadline_ns = field.now_ns() + int(_RESTORE_PATIENCE_S * 1e9)
    wanted = {str(voter): voter for voter in map(field.voter, field.nodes.voters)}
    while field.now_ns() < deadline_ns:
        listed = field.watch.voters()
        if listed == wanted.keys():
            return Effect(True, "; ".join(map(str, done)))
        known = field.watch.current_leader()
        if known is not None and listed:
            change = _next_change(field, listed, wanted)
            done.append((await change_voter(field, known[0], *change))[0])
        await asyncio.sleep(_PAUSE_S)
    listed_text = ", ".join(sorted(field.watch.voters())) or "nobody leads"
    return Effect(False, f"the voters are not those of the beginning ({listed_text}); {'; '.join(map(str, done[-4:]))}")


def _next_change(field: Field, listed: frozenset[str], wanted: dict[str, Voter]) -> tuple[str, Voter]:
    surplus = sorted(listed - wanted.keys())
    if surplus:
        node, _, directory_id = surplus[0].partition("/")
        return "remove", replace(field.voter(node), directory_id=directory_id)
    return "add", wanted[min(wanted.keys() - listed)]


async def _aim(field: Field, role: str, planned: PlannedFault, *, leaving: bool) -> Aim | str:
    aim = await aim_by_role(field, role, planned.draw, out_of_service=leaving)
    known = await field.leader(LEADER_PATIENCE_S)
    if isinstance(aim, str) or known is None:
        return aim if isinstance(aim, str) else f"nobody led within {LEADER_PATIENCE_S:.0f} s"
    return replace(aim, leader=known[0], leader_epoch=known[1], claim=Claim(out_of_service=aim.claim.out_of_service))


async def _ask(field: Field, aim: Aim, asked: list[tuple[str, str]], *, least: int) -> Effect:
    """Ask for all changes at once; verified when the leader listed at least ``least`` of them afterwards."""
    leader = aim.leader or ""
    overlaps = field.in_force.overlaps(aim.lane)
    changes = await asyncio.gather(*(change_voter(field, leader, action, field.voter(node)) for action, node in asked))
    told = "; ".join(str(change) for change, _ in changes)
    happened = sum(listed or (overlaps and change.asked) for change, listed in changes)
    return Effect(happened >= least, f"{told}; another fault was in force" if overlaps else told)


async def change_voter(field: Field, leader: str, action: str, voter: Voter) -> tuple[Change, bool]:
    """Ask for one change; what came of it, and whether a leader lists the voters so."""
    changes = _changes(field)
    ask = changes.add if action == "add" else changes.remove
    change = await ask(leader, voter, CHANGE_TIMEOUT_S)
    for _ in range(_LEADERS_ASKED - 1):
        await asyncio.sleep(0 if change.led else _PAUSE_S)
        known, listed_now = field.watch.current_leader(), field.watch.voters()
        if change.led or known is None or (str(voter) in listed_now) == (action == "add"):
            break
        change = await ask(known[0], voter, CHANGE_TIMEOUT_S)
    if change.result is ChangeResult.REFUSED:
        return change, False
    listed = await _listed(field, str(voter), action == "add")
    if change.result is ChangeResult.UNKNOWN and listed:
        change = replace(change, reason=f"{change.reason}; a leader lists it so, committed or not")
    if change.result is ChangeResult.INSTALLED and not listed:
        change = replace(change, reason="so the answer, yet no leader lists it so")
    return change, listed


async def _listed(field: Field, voter: str, present: bool) -> bool:
    """Wait until a leader lists the voter, or lists voters without it."""
    deadline_ns = field.now_ns() + int(_SHOWN_PATIENCE_S * 1e9)
    while field.now_ns() < deadline_ns:
        listed = field.watch.voters()
        if listed and (voter in listed) == present:
            return True
        await asyncio.sleep(_PAUSE_S)
    return False


def _changes(field: Field) -> VoterChanges:
    if field.voter_changes is None:
        raise ValueError("the plan has changes of voters, and the candidate has none")
    return field.voter_changes
