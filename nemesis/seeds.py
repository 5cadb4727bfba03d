"""One seed, many named streams of randomness: every component draws from its own, so that none disturbs another."""

from __future__ import annotations

import hashlib
import random
import secrets

SEED_LIMIT = 2**48


def fresh_seed() -> int:
    """A seed nobody chose, printed first and stored with the run."""
    return secrets.randbelow(SEED_LIMIT)


def stream(seed: int, *name: object) -> random.Random:
    """The stream of one component, e.g. ``stream(seed, "faults")``. Equal seed and name give equal draws for ever."""
    text = "/".join([str(seed), *map(str, name)])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
