"""The data of one replica. Functions of the modules beside it act on it; nobody outside the core writes to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Replica:
    """One replica."""
