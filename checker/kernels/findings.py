"""What a kernel found: the kind of contradiction, and the few operations that make it, as row numbers.

Kernels speak in row numbers of the arrays that they were given; ``checker.witness`` turns them into sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""the completion of an operation that did not complete: it may take effect at any later time"""

NOTHING = np.iinfo(np.int64).min
"""no value: the register is unwritten, the answer is not known"""

ABSENT = -1
"""no such row"""


class Broken(IntEnum):
    """Kinds of contradiction, and what the rows of a finding are."""

    BELOW_FLOOR = 1
    """(set the floor, began after that and is below it)"""
    OVERLAP = 2
    """(addition, addition that starts inside what the first one took)"""
    GAP = 3
    """(last known addition before the gap or absent, first one after it): too few unknown additions can fill it"""
    NEVER_WRITTEN = 4
    """(read or swap whose value nobody wrote)"""
    ABORTED = 5
    """(read or swap, the failed operation that would have written its value)"""
    SWAPPED_TWICE = 6
    """(swap, swap): both replaced one value, which was written once"""
    SWAP_CYCLE = 7
    """(swap on the cycle): following expected values backwards returns to it"""
    OUT_OF_ORDER = 8
    """(finished first, began later), though a chain of swaps puts the second before the first"""
    INTERLEAVED = 9
    """(a₁, b₂, b₁, a₂): a₁ ended before b₂ began and b₁ before a₂, yet all of a's block is before b's or after it; an
    absent a₁ stands for the initial value"""
    NO_ORDER = 10
    """(operation whose return no order explains)"""
    OVERFLOW = 11
    """(operation at whose return the budget ran out): not a contradiction, nobody knows"""


class Findings(NamedTuple):
    """Contradictions: ``kind`` has one of :class:`Broken` each, ``rows`` four row numbers each, absent ones −1."""

    kind: NDArray[np.int8]
    rows: Ints

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.kind)


def findings(kind: Broken, *columns: Ints) -> Findings:
    """Make findings of one kind from one to four columns of row numbers."""
    count = len(columns[0])
    rows = np.full((count, 4), ABSENT, dtype=np.int64)
    for number, column in enumerate(columns):
        rows[:, number] = column
    return Findings(np.full(count, int(kind), dtype=np.int8), rows)


def together(parts: Sequence[Findings]) -> Findings:
    """Concatenate findings."""
    if not parts:
        return Findings(np.empty(0, dtype=np.int8), np.empty((0, 4), dtype=np.int64))
    return Findings(np.concatenate([part.kind for part in parts]), np.concatenate([part.rows for part in parts]))


def renumbered(found: Findings, rows: Ints) -> Findings:
    """Translate findings about a selection of rows back to the numbers of the whole: selection row i is ``rows[i]``."""
    translated = np.where(found.rows == ABSENT, ABSENT, rows[found.rows]) if found.total else found.rows
    return Findings(found.kind, translated)
