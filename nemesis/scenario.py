"""A scenario: what is broken in a run, how often, and what a run of it must have seen to be judged.

The shipped ones are TOML files in ``nemesis/scenarios``, each with a comment on top that says what it tries to break; a person's own
are read the same way (:func:`load` takes a name or a file). How a file is read, and its mistakes told: :mod:`nemesis.scenario_file`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from nemesis.faults.catalogue import CATALOGUE, changes_voters
from nemesis.faults.kinds.kind import Capability
from nemesis.faults.parameters import BREAKING, Value
from workloads.problem import Problem

DAMAGE = "disk"
"""the budget of faults whose damage healing does not undo"""


@dataclass(frozen=True, slots=True)
class FaultChoice:
    """One kind of fault of a scenario: its name, how often it is drawn, how long it holds.

    ``hold`` counts check-quorum periods; ``replace_share`` is the share of injections that go straight into the next
    fault without healing in between. Faults of one ``lane`` follow each other; those of different lanes overlap.
    """

    fault: str
    weight: float = 1.0
    replace_share: float = 0.0
    hold: float = 2.6
    lane: str = ""
    parameters: tuple[tuple[str, Value], ...] = ()
    cost: int = 1
    """how many nodes one such fault takes from its budget"""

    @property
    def budget(self) -> str:
        """Which limit of the whole run it draws on, ``""`` for none."""
        return DAMAGE if CATALOGUE[self.fault].damages else ""

    @property
    def targets(self) -> str | None:
        """The role or node that it aims at, where the kind has that parameter."""
        targets = CATALOGUE[self.fault].values(dict(self.parameters)).get("targets")
        return None if targets is None else str(targets)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as read from its file."""

    name: str
    title: str
    text: str
    group: str = ""
    """one of :data:`nemesis.faults.catalogue.GROUPS`, or empty"""
    nodes: int = 3
    """the least number of nodes on which it makes sense, and the default"""
    observers: int = 0
    """the default"""
    warm_up_s: float = 1.0
    gap_s: float = 1.2
    """between the healing of a fault and the next one"""
    request_timeout_ms: int | None = None
    """how long a node waits for a peer's answer; None: as the run's timers say"""
    quorum_preserving: bool = True
    """a majority of the voters is in service at all times, and a majority of the disks is never damaged"""
    expect: str | None = None
    """the verdict that a run of it should have: valid, invalid, unknown"""
    faults: tuple[FaultChoice, ...] = ()
    needs: dict[str, int] = field(default_factory=dict)
    known_hazard: dict[str, str] = field(default_factory=dict)
    """``static``, ``dynamic``, ``any`` → what is known to be bad about it on such a quorum"""
    written: str = ""
    """the text of its file, kept with each run"""

    def hazard(self, quorum: str) -> str:
        """What is known to be bad about it on a ``static`` or ``dynamic`` quorum."""
        return self.known_hazard.get(quorum) or self.known_hazard.get("any", "")

    @property
    def changes_voters(self) -> tuple[str, ...]:
        """Its faults that change the voter set (KIP-853)."""
        changing = (each.fault for each in self.faults if changes_voters(each.fault, dict(each.parameters)))
        return tuple(dict.fromkeys(changing))

    @property
    def changes_release(self) -> tuple[str, ...]:
        """Its faults that start nodes under another release of the candidate."""
        return tuple(dict.fromkeys(each.fault for each in self.faults if CATALOGUE[each.fault].changes_release))

    @property
    def shims(self) -> tuple[str, ...]:
        """Libraries that its faults need preloaded into every node from its start."""
        needed = (CATALOGUE[each.fault].shim for each in self.faults)
        return tuple(sorted({shim for shim in needed if shim}))

    def capabilities(self) -> Mapping[Capability, tuple[str, ...]]:
        """What a backend must be able to do → the faults that need it."""
        needed: dict[Capability, list[str]] = {}
        for choice in self.faults:
            for capability in sorted(CATALOGUE[choice.fault].needs):
                needed.setdefault(capability, []).append(choice.fault)
        return {capability: tuple(dict.fromkeys(faults)) for capability, faults in needed.items()}


def names() -> tuple[str, ...]:
    """The names of the shipped scenarios, sorted."""
    folder = resources.files("nemesis.scenarios")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load(name: str) -> Scenario:
    """Read a shipped scenario, or a person's own file (``FILE.toml``).

    Raises :class:`Problem` (usage) for a name that does not exist and for a file with mistakes, each with its line.
    """
    if name.endswith(".toml"):
        return _load_file(Path(name))
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else ""
        raise Problem(
            "scenario-unknown",
            f"There is no scenario {name!r}.",
            f"{hint} `nemesis list` shows all of them; a file of your own ends in .toml.".strip(),
            usage=True,
        )
    return parse(name, resources.files("nemesis.scenarios").joinpath(f"{name}.toml").read_text())


def parse(name: str, text: str, source: str | None = None) -> Scenario:
    """Read a scenario's TOML. Raises :class:`Problem` (usage) with every mistake, its file and line."""
    from nemesis.scenario_file import read_scenario

    return read_scenario(name, text, source or f"{name}.toml")


def check_nodes(scenario: Scenario, voters: int, observers: int) -> None:
    """Raises Problem (usage) where the scenario aims at nodes that a run of this size does not have."""
    nodes = {f"n{number}" for number in range(1, voters + observers + 1)}
    for choice in scenario.faults:
        targets = choice.targets
        if targets == "observer" and not observers:
            raise Problem(
                "no-observer",
                f"{choice.fault} aims at an observer, and there is none.",
                "Add --observers 1.",
                usage=True,
            )
        if targets is not None and targets.startswith("n") and targets[1:].isdigit() and targets not in nodes:
            raise Problem(
                "node-unknown",
                f"{choice.fault} aims at {targets}, and there are only {', '.join(sorted(nodes))}.",
                "Raise --nodes, or aim at a role.",
                usage=True,
            )


def breaks_quorum(choice: FaultChoice) -> bool:
    """Whether the fault leaves no majority in service, or damages the disks of one."""
    kind = CATALOGUE[choice.fault]
    return (kind.out_of_service or kind.damages) and choice.targets in BREAKING


def loses_voter(choice: FaultChoice) -> bool:
    """Whether a voter is none any more after the fault, where voters are known by their directory ids (KIP-853)."""
    kind = CATALOGUE[choice.fault]
    return kind.acts_as == "wipe" and kind.values(dict(choice.parameters)).get("procedure") == "none"


def _load_file(path: Path) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise Problem(
            "scenario-unreadable",
            f"The scenario {path} cannot be read: {why}.",
            "Name a TOML file; `nemesis init scenario FILE.toml` writes one with comments.",
            usage=True,
        ) from error
    return parse(path.stem, text, str(path))
