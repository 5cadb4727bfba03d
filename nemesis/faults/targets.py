"""Who is meant by a role: from the role, who leads and a number in [0, 1) to nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def chosen(  # noqa: PLR0911 - one return a role reads best
    role: str, leader: str | None, voters: Sequence[str], observers: Sequence[str], draw: float
) -> tuple[str, ...]:
    """The nodes that ``role`` (:data:`nemesis.faults.parameters.ROLES`, or a node's name) means; none where there is no such node.

    Roles that depend on who leads need ``leader``; see :func:`needs_leader`.
    """
    followers = [node for node in voters if node != leader]
    minority = (len(voters) - 1) // 2
    match role:
        case "leader":
            return () if leader is None else (leader,)
        case "follower":
            return tuple(turned(followers, draw)[:1])
        case "followers":
            return tuple(followers)
        case "voter":
            return tuple(turned(voters, draw)[:1])
        case "observer":
            return tuple(turned(observers, draw)[:1])
        case "minority":
            return tuple(sorted(turned(voters, draw)[:minority], key=list(voters).index))
        case "majority":
            return tuple(sorted(turned(voters, draw)[: len(voters) // 2 + 1], key=list(voters).index))
        case "all":
            return (*voters, *observers)
    return (role,) if role in (*voters, *observers) else ()


def needs_leader(role: str) -> bool:
    """Whether the role can be filled only while somebody leads."""
    return role in ("leader", "follower", "followers")


def count_of(role: str, voters: int) -> int:
    """How many voters a role takes at most."""
    return {
        "followers": voters - 1,
        "minority": (voters - 1) // 2,
        "majority": voters // 2 + 1,
        "all": voters,
        "observer": 0,
    }.get(role, 1)


def turned(nodes: Sequence[str], draw: float) -> list[str]:
    """The nodes as a ring, beginning where ``draw`` points."""
    if not nodes:
        return []
    start = int(draw * len(nodes)) % len(nodes)
    return [*nodes[start:], *nodes[:start]]


def shuffled(nodes: Sequence[str], draw: float) -> list[str]:
    """The permutation of the nodes that ``draw`` stands for: every one is as likely as any other."""
    left, order = list(nodes), []
    while left:
        draw *= len(left)
        order.append(left.pop(min(int(draw), len(left) - 1)))
        draw -= int(draw)
    return order
