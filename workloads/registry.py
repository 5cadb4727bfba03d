"""All workloads, in one explicit tuple."""

from __future__ import annotations

import difflib

from workloads.counter import COUNTER
from workloads.log import LOG
from workloads.problem import Problem
from workloads.register import REGISTER
from workloads.workload import Workload

WORKLOADS: tuple[Workload, ...] = (REGISTER, LOG, COUNTER)


def workload(name: str) -> Workload:
    """Return the workload of that name; :class:`Problem` (usage) when there is none."""
    for each in WORKLOADS:
        if each.name == name:
            return each
    names = [each.name for each in WORKLOADS]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}."
    raise Problem("workload-unknown", f"There is no workload {name!r}.", hint, usage=True)
