"""Random bad weather for a quorum: partitions of every shape, kills, power cuts, restarts, and clients all the while."""

from __future__ import annotations

from random import Random

from clusters.candidates.reference.core.decisions import CORRECT, Decisions
from tests.clusters.reference.core.quorum import Quorum

PAUSES_MS = (1, 5, 20, 100, 400, 1000)


def storm(seed: int, *, voters: int = 3, observers: int = 0, steps: int = 40, decisions: Decisions = CORRECT) -> Quorum:
    """Let a storm pass over a quorum. Everything about it comes from the seed."""
    random = Random(seed)
    quorum = Quorum(
        seed,
        voters=voters,
        observers=observers,
        decisions=decisions,
        lossy=0.03,
        latency_ms=(1, random.choice([1, 20, 80])),
    )
    for step in range(steps):
        _strike(quorum, random, step)
        quorum.run_ms(random.choice(PAUSES_MS))
    return quorum


def calm(quorum: Quorum) -> None:
    """The storm is over: every link and every node works."""
    quorum.lossy, quorum.cut = 0.0, set()
    for number, place in quorum.places.items():
        if place.process is None:
            quorum.start(number)


def _strike(quorum: Quorum, random: Random, step: int) -> None:
    numbers = list(quorum.places)
    number = random.choice(numbers)
    pairs = [(a, b) for a in numbers for b in numbers if a != b]
    match random.choices(["split", "holes", "heal", "kill", "power", "start", "clients"], [10, 5, 10, 5, 5, 15, 50])[0]:
        case "split":
            side = set(random.sample(numbers, random.randint(0, len(numbers) - 1)))
            quorum.cut = {(a, b) for a, b in pairs if (a in side) != (b in side)}
        case "holes":
            quorum.cut = {pair for pair in pairs if random.random() < 0.3}
        case "heal":
            quorum.cut = set()
        case "kill":
            quorum.stop(number)
        case "power":
            quorum.stop(number, power_cut=True)
        case "start":
            quorum.stop(number)
            quorum.start(number)
        case "clients":
            for turn in range(random.randint(1, 5)):
                asked = random.choice([quorum.leader() or number, random.choice(numbers)])
                if random.random() < 0.5:
                    quorum.write(asked, random.randint(0, 2), 100 * step + turn)
                else:
                    quorum.read(asked, random.randint(0, 2))
