"""A scenario: what is broken in a run, how often, and what a run of it must have seen to be judged.

The shipped ones are TOML files in ``nemesis/scenarios``, each with a comment on top that says what it tries to break.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from workloads.problem import Problem

_KEYS = {"title", "text", "nodes", "gap_s", "warm_up_s", "faults", "needs", "known_hazard"}
_FAULT_KEYS = {"fault", "weight", "replace_share", "hold"}


@dataclass(frozen=True, slots=True)
class FaultChoice:
    """One kind of fault of a scenario: its name, how often it is drawn, how long it holds.

    ``hold`` counts check-quorum periods; ``replace_share`` is the share of injections that go straight into the next
    fault without healing in between.
    """

    fault: str
    weight: float = 1.0
    replace_share: float = 0.0
    hold: float = 2.6


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as read from its file."""

    name: str
    title: str
    text: str
    nodes: int = 3
    """the least number of nodes on which it makes sense, and the default"""
    warm_up_s: float = 1.0
    gap_s: float = 1.2
    """between the healing of a fault and the next one"""
    faults: tuple[FaultChoice, ...] = ()
    needs: dict[str, int] = field(default_factory=dict)
    known_hazard: dict[str, str] = field(default_factory=dict)
    """``static`` → what is known to be bad about it on a static quorum"""


def names() -> tuple[str, ...]:
    """The names of the shipped scenarios, sorted."""
    folder = resources.files("nemesis.scenarios")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load(name: str) -> Scenario:
    """Read a shipped scenario. Raises :class:`Problem` (usage) for a name that does not exist."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else ""
        raise Problem(
            "scenario-unknown",
            f"There is no scenario {name!r}.",
            f"{hint} `nemesis list` shows all of them.".strip(),
            usage=True,
        )
    return parse(name, resources.files("nemesis.scenarios").joinpath(f"{name}.toml").read_text())


def parse(name: str, text: str) -> Scenario:
    """Read a scenario's TOML. Raises :class:`Problem` that names the key that is wrong."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problem("scenario-malformed", f"Scenario {name}: {error}.", "Mend the file.", usage=True) from error
    _refuse_unknown(name, raw, _KEYS)
    choices = []
    for entry in raw.get("faults", ()):
        _refuse_unknown(name, entry, _FAULT_KEYS)
        choices.append(FaultChoice(**entry))
    return Scenario(
        name=name,
        title=raw["title"],
        text=raw["text"].strip(),
        nodes=raw.get("nodes", 3),
        warm_up_s=raw.get("warm_up_s", 1.0),
        gap_s=raw.get("gap_s", 1.2),
        faults=tuple(choices),
        needs=dict(raw.get("needs", {})),
        known_hazard=dict(raw.get("known_hazard", {})),
    )


def _refuse_unknown(name: str, table: dict[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(sorted(known))}."
            raise Problem("scenario-malformed", f"Scenario {name} has an unknown key {key!r}.", hint, usage=True)
