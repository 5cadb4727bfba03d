"""The link matrix as a value: which ordered pairs of nodes are cut. Every network fault is a change of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Links:
    """The cut ordered pairs (source, destination); every other link is open. Clients reach every node through all of it."""

    cut: frozenset[Pair] = frozenset()

    def __post_init__(self) -> None:
        for source, destination in self.cut:
            if source == destination:
                raise ValueError(f"a link needs two nodes, not {source} twice")

    def texts(self) -> tuple[str, ...]:
        """The cut pairs as sorted texts, ``"n1>n2"``."""
        return tuple(f"{source}>{destination}" for source, destination in sorted(self.cut))


OPEN = Links()


def between(sources: Iterable[str], destinations: Iterable[str]) -> Links:
    """Cut everything that ``sources`` send to ``destinations``: one way."""
    return Links(frozenset((a, b) for a, b in product(tuple(sources), tuple(destinations)) if a != b))


def groups(*sides: Iterable[str]) -> Links:
    """Cut all links between different sides, both ways: ``groups(["n1"], ["n2", "n3"])`` isolates n1."""
    frozen = [tuple(side) for side in sides]
    cut = {
        (a, b) for i, one in enumerate(frozen) for j, other in enumerate(frozen) if i != j for a in one for b in other
    }
    return Links(frozenset(cut))


def majority_ring(nodes: Sequence[str]) -> Links:
    """Every node sees a majority and no two nodes the same one: each keeps its nearest neighbours on a ring.

    The order of ``nodes`` is the order on the ring. Raises ValueError below four nodes, where everybody is a neighbour.
    """
    count = len(nodes)
    if count < 4 or len(set(nodes)) != count:
        raise ValueError(f"a majority ring needs at least four different nodes, not {', '.join(nodes)}")
    neighbours = count // 2
    reach = (neighbours + 1) // 2
    kept = {(nodes[i], nodes[(i + step) % count]) for i in range(count) for step in range(-reach, reach + 1)}
    return Links(frozenset((a, b) for a, b in product(nodes, nodes) if a != b and (a, b) not in kept))


def bridge(left: Sequence[str], middle: str, right: Sequence[str]) -> Links:
    """Cut the two sides from each other; ``middle`` sees both."""
    if middle in left or middle in right:
        raise ValueError(f"{middle} is the bridge and stands on no side")
    return groups(left, right)


def union(*links: Links) -> Links:
    """Cut whatever any of them cuts."""
    return Links(frozenset().union(*(each.cut for each in links)))
