"""The shapes of partitions: from a fault's name, the leader and the nodes to a link matrix. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.links import OPEN, Links, between, bridge, groups, majority_ring, union
from nemesis.faults.targets import turned


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition with its targets fixed: what is cut, who was aimed at, who has no majority."""

    links: Links
    targets: tuple[str, ...]
    isolated: tuple[str, ...]
    """nodes that cannot hear from a majority of the voters"""


SHAPES = frozenset(
    {
        "isolate-leader",
        "isolate-follower",
        "split-leader-in-minority",
        "split-leader-in-majority",
        "split-leader-and-observers",
        "majority-ring",
        "bridge",
        "leader-unheard",
        "leader-deaf",
    }
)


def shape(  # noqa: PLR0911 - one return a shape reads best
    fault: str, leader: str, voters: Sequence[str], observers: Sequence[str], draw: float
) -> Cut:
    """The partition that ``fault`` means while ``leader`` leads.

    ``leader-deaf``: the leader sends and hears nothing; ``leader-unheard``: it hears and nothing of it arrives.
    Raises KeyError for a name that is no shape.
    """
    nodes = [*voters, *observers]
    others = [node for node in nodes if node != leader]
    followers = [node for node in voters if node != leader]
    minority = (len(voters) - 1) // 2
    around = turned(followers, draw)
    match fault:
        case "isolate-leader":
            return Cut(groups([leader], others), (leader,), (leader,))
        case "isolate-follower":
            target = around[0]
            return Cut(groups([target], [n for n in nodes if n != target]), (target,), (target,))
        case "split-leader-in-minority":
            side = [leader, *around[: minority - 1]]
            return Cut(groups(side, [n for n in nodes if n not in side]), tuple(side), tuple(side))
        case "split-leader-in-majority":
            side = around[:minority]
            return Cut(groups(side, [n for n in nodes if n not in side]), tuple(side), tuple(side))
        case "split-leader-and-observers":
            side = [leader, *observers]
            return Cut(groups(side, [n for n in nodes if n not in side]), tuple(side), tuple(side))
        case "majority-ring":
            ring = turned(list(voters), draw)
            return Cut(majority_ring(ring), tuple(ring), ())
        case "bridge":
            return Cut(
                bridge([leader, *around[: minority - 1]], around[-1], around[minority - 1 : -1]), (around[-1],), ()
            )
        case "leader-unheard":
            return Cut(between([leader], others), (leader,), (leader,))
        case "leader-deaf":
            return Cut(between(others, [leader]), (leader,), (leader,))
    raise KeyError(fault)


def isolation(side: Sequence[str], voters: Sequence[str], observers: Sequence[str], direction: str) -> Cut:
    """``side`` against all others: ``out`` drops what it sends, ``in`` what is sent to it, ``both`` both."""
    others = [node for node in (*voters, *observers) if node not in side]
    links = union(
        between(side, others) if direction in ("both", "out") else OPEN,
        between(others, side) if direction in ("both", "in") else OPEN,
    )
    return Cut(links, tuple(side), _without_majority(links, voters, observers))


def _without_majority(links: Links, voters: Sequence[str], observers: Sequence[str]) -> tuple[str, ...]:
    """Nodes that exchange messages, both ways, with too few voters for a majority (a voter counts itself)."""

    def partners(node: str) -> int:
        return sum(
            voter == node or ((node, voter) not in links.cut and (voter, node) not in links.cut) for voter in voters
        )

    return tuple(node for node in (*voters, *observers) if 2 * partners(node) <= len(voters))
