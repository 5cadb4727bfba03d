"""Make the history that the search convicted smaller without making a legal one illegal.

Only deletions that keep every legal order legal are tried: what was called after the failing return; a read, for it changes
nothing; all operations on one value that is written once, for nothing else depends on it. Deleting a lone write would not be sound: a legal
history may become illegal by it. What is left is still contradictory. Each deletion that is tried costs one search: both are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checker.kernels.findings import NEVER, Bools, Broken, Ints
from checker.kernels.objects import Sought
from checker.kernels.search import ADDS, READS, WRITES, Budget, Steps, search_all

OPERATIONS_MAX = 2000
TRIES_MAX = 300
_BUDGET = Budget(width=256, memo=1 << 14)


def shrink(case: Sought, failing: int) -> Ints:
    """Row numbers that contradict each other, the failing row among them; all that are left when nothing can be deleted."""
    target = int(np.flatnonzero(case.rows == failing)[0])
    end = case.completed[target]
    completed = np.where(case.completed > end, NEVER, case.completed)
    kept = case.invoked <= end
    kept &= (completed != NEVER) | (case.steps.kind != READS)
    if kept.sum() > OPERATIONS_MAX or not _contradict(case, completed, kept):
        return np.compress(kept, case.rows)
    tries = 0
    for group in _groups(case.steps, kept, target):
        smaller = kept.copy()
        smaller[group] = False
        if tries == TRIES_MAX:
            break
        if (smaller == kept).all():
            continue
        tries += 1
        if _contradict(case, completed, smaller):
            kept = smaller
    return np.compress(kept, case.rows)


def _groups(steps: Steps, kept: Bools, target: int) -> Iterator[Ints]:
    """What may be deleted together: halves of the reads, ever smaller, then values that are written once."""
    reads = np.flatnonzero(kept & (steps.kind == READS))
    reads = reads[reads != target]
    size = len(reads)
    while size:
        for start in range(0, len(reads), size):
            yield reads[start : start + size]
        size = 0 if size == 1 else (size + 1) // 2
    if bool(np.any(steps.kind == ADDS)):
        return
    changes = np.flatnonzero(kept & (steps.kind != READS))
    values, counts = np.unique(steps.writes[changes], return_counts=True)
    for value in values[counts == 1]:
        about = (steps.kind != READS) & (steps.writes == value) | (steps.kind != WRITES) & (steps.asserts == value)
        links = (steps.kind != READS) & (steps.kind != WRITES) & about & kept
        if not about[target] and not links.any():
            yield np.flatnonzero(about & kept)


def _contradict(case: Sought, completed: Ints, kept: Bools) -> bool:
    steps = Steps(case.steps.kind[kept], case.steps.asserts[kept], case.steps.writes[kept])
    outcome = search_all(steps, case.invoked[kept], completed[kept], case.initial, _BUDGET)
    return outcome.broken is Broken.NO_ORDER
