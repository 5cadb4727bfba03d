"""The shapes of partitions: from a fault's name, the leader and the nodes to a link matrix. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.links import Links, between, bridge, groups, majority_ring


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
    turned = _turned(followers, draw)
    match fault:
        case "isolate-leader":
            return Cut(groups([leader], others), (leader,), (leader,))
        case "isolate-follower":
            target = turned[0]
            return Cut(groups([target], [n for n in nodes if n != target]), (target,), (target,))
        case "split-leader-in-minority":
            side = [leader, *turned[: minority - 1]]
            return Cut(groups(side, [n for n in nodes if n not in side]), tuple(side), tuple(side))
        case "split-leader-in-majority":
            side = turned[:minority]
            return Cut(groups(side, [n for n in nodes if n not in side]), tuple(side), tuple(side))
        case "split-leader-and-observers":
            side = [leader, *observers]
            return Cut(groups(side, [n for n in nodes if n not in side]), tuple(side), tuple(side))
        case "majority-ring":
            ring = _turned(list(voters), draw)
            return Cut(majority_ring(ring), tuple(ring), ())
        case "bridge":
            return Cut(
                bridge([leader, *turned[: minority - 1]], turned[-1], turned[minority - 1 : -1]), (turned[-1],), ()
            )
        case "leader-unheard":
            return Cut(between([leader], others), (leader,), (leader,))
        case "leader-deaf":
            return Cut(between(others, [leader]), (leader,), (leader,))
    raise KeyError(fault)


def _turned(nodes: list[str], draw: float) -> list[str]:
    """The nodes as a ring, beginning where ``draw`` points."""
    start = int(draw * len(nodes)) % len(nodes)
    return nodes[start:] + nodes[:start]
