"""What a workload is to the controller: a name, a text, and the generators of its three parts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from workloads.generators.generator import Generator, Stream
from workloads.problem import Problem

Options = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The generators of one run. All draw unique values from one counter, so a plan serves one run only."""

    setup: Generator
    """before the load, one process that follows the leader, until nothing is left"""
    load: Generator
    """for any number of processes, endless"""
    final: Callable[[str], Generator]
    """node → what one process of that node does after recovery, until nothing is left"""
    initial_values: Mapping[str, int]
    """for the manifest: key → value before the first write; a key that is absent starts unwritten"""
    final_pinned: bool = True
    """whether the final process stays at its node, or only begins there and follows the leader"""


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard to drive a kind of candidate unless a person says otherwise."""

    rate: float
    """operations a second"""
    concurrency: int
    """processes; half of them pinned"""
    timeout_s: float
    """of one operation; a process whose operation takes longer is retired"""


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load. ``make_plan(stream, options)`` makes the generators of a run."""

    name: str
    title: str
    text: str
    """the model: what the object is, what is asked of it, what the answers must satisfy"""
    pace: Mapping[str, Pace]
    """kind of candidate (``reference``, ``kafka``) → pace; the keys are the kinds that it was written for"""
    candidate_options: Mapping[str, Options]
    """kind of candidate → options that it needs, e.g. ``{"reads": "stale"}``; a person's options go on top"""
    make_plan: Callable[[Stream, Options], LoadPlan]


def read_options(workload: str, into: type[_T], options: Options) -> _T:
    """Make the dataclass ``into`` from options; :class:`Problem` (usage) for an unknown name or an impossible value."""
    known = {field.name for field in fields(into)}  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"It knows {', '.join(sorted(known))}."
            raise Problem("workload-option", f"Workload {workload} has no option {name!r}.", hint, usage=True)
    try:
        return into(**options)
    except (TypeError, ValueError) as error:
        raise Problem("workload-option", f"Workload {workload}: {error}.", "Mend the option.", usage=True) from error
