"""Whether a check may judge a run: its promises, and the evidence that is there.

Three answers, from the manifest and the sizes of the tables alone: it may; it is *not applicable* (the candidate does not promise
it, or its description says that it leaves no such evidence); or it would be guessing, because evidence is missing (*unknown*,
R853-x of nothing is no proof).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checker.check import Check
from checker.tables import StoredRun

MAY_BE_EMPTY = frozenset({"faults"})
"""tables that say something by having no rows, as long as the file is there"""


NO_EVIDENCE = "offers no evidence of it"
"""in the reason of a check that is not made for want of evidence, by the candidate's own description"""


@dataclass(frozen=True, slots=True)
class Gate:
    """``applies`` is False outside the promises; ``missing`` says which evidence there is not, if so."""

    applies: bool
    missing: str = ""
    reason: str = ""


def gate(check: Check, run: StoredRun) -> Gate:
    """Decide whether ``check`` may judge ``run``."""
    candidate = run.manifest.candidate
    absent = [promise for promise in check.promises if promise not in candidate.promises]
    if absent:
        return Gate(False, reason=f"{candidate.name} {candidate.version} does not promise {' and '.join(absent)}")
    if withheld := _withheld(check, run):
        return Gate(False, reason=f"{candidate.name} {candidate.version} {NO_EVIDENCE}: {withheld}")
    if check.captured and not is_there("rpcs", run):
        return Gate(False, reason="no messages between the nodes were captured")
    missing = [text for group in check.needs if (text := _missing(group, run))]
    return Gate(True, missing="; ".join(missing))


def _withheld(check: Check, run: StoredRun) -> str:
    """What the check cannot do without and the candidate says that it does not offer; rows that are there count all the same."""
    withheld = run.manifest.candidate.withheld
    lacking = [
        " or ".join(group)
        for group in check.needs
        if all(name in withheld and not is_there(name, run) for name in group)
    ]
    return ", ".join([*lacking, *(name for name in check.withheld_by if name in withheld)])


def _missing(group: Sequence[str], run: StoredRun) -> str:
    promised = [name for name in group if name in run.manifest.candidate.evidence and not is_there(name, run)]
    if promised:
        return f"promised evidence is missing: {', '.join(promised)}"
    if not any(is_there(name, run) for name in group):
        return f"there is no evidence: {' or '.join(group)}"
    return ""


def is_there(table: str, run: StoredRun) -> bool:
    """Whether a run has rows of ``table``, or its file where no rows are an answer."""
    rows = run.rows.get(table)
    return rows is not None and (rows > 0 or table in MAY_BE_EMPTY)
