"""Parameters of faults as data: a type, a default, a unit, bounds; and how a value from a scenario's file is read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Value = str | int | float | bool
Values = Mapping[str, Value]

ROLES = {
    "leader": "whoever leads when the fault is due",
    "follower": "one voter that does not lead, drawn",
    "followers": "all voters that do not lead",
    "voter": "one voter, drawn",
    "observer": "one observer, drawn",
    "minority": "the largest number of voters that is no majority, drawn",
    "majority": "the least number of voters that is one, drawn",
    "all": "every node, observers too",
}
"""who can be aimed at; a node's own name (``n2``) too"""

BREAKING = frozenset({"majority", "followers", "all"})
"""roles that leave no majority when all of them are out of service"""

_NODE = re.compile(r"n[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a fault.

    ``kind`` is ``targets`` (:data:`ROLES` or a node's name), ``choice`` (one of ``choices``), ``number``, ``count`` (a whole number) or
    ``switch`` (true, false). ``least`` and ``most`` bound numbers and counts, both inclusive.
    """

    name: str
    kind: str
    default: Value
    text: str
    unit: str = ""
    least: float = 0.0
    most: float = 1e12
    choices: tuple[str, ...] = ()

    @property
    def type_text(self) -> str:
        """The type in words, for a table and for an error."""
        match self.kind:
            case "targets":
                return f"one of {', '.join(self.choices or ROLES)}, or a node such as n2"
            case "choice":
                return f"one of {', '.join(self.choices)}"
            case "switch":
                return "true or false"
        whole = "a whole number" if self.kind == "count" else "a number"
        return f"{whole} from {self.least:g} to {self.most:g}{' ' + self.unit if self.unit else ''}"

    def read(self, given: object) -> Value:
        """The value, checked. Raises ValueError that says what it must be."""
        wanted = ValueError(f"{self.name} must be {self.type_text}, not {given!r}")
        match self.kind:
            case "targets":
                if isinstance(given, str) and (given in (self.choices or ROLES) or _NODE.fullmatch(given)):
                    return given
            case "choice":
                if isinstance(given, str) and given in self.choices:
                    return given
            case "switch":
                if isinstance(given, bool):
                    return given
            case "count":
                if isinstance(given, int) and not isinstance(given, bool) and self.least <= given <= self.most:
                    return given
            case "number":
                if isinstance(given, int | float) and not isinstance(given, bool) and self.least <= given <= self.most:
                    return float(given)
        raise wanted
