"""What a page says, as plain data. It is composed first and rendered second, so that a template decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; ``marked`` when its value contradicts another row's."""

    text: str
    marked: bool = False
    number: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of texts."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0
    """rows that exist and are not in the page"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its reading aid and the same facts as a table."""

    slug: str
    title: str
    svg: Markup
    caption: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    """(class of the swatch, what it means)"""
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class Banner:
    """The answer."""

    word: str
    """valid, invalid, unknown"""
    sentence: str
    meaning: str
    """the exit code and what it stands for"""
    labels: tuple[tuple[str, str], ...] = ()
    """(kind, text): known hazard, expected verdict, interrupted"""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that a person wants first."""

    value: str
    name: str
    detail: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value, in a list of facts; ``folded`` holds what is too long to be seen at once."""

    name: str
    value: str
    folded: tuple[tuple[str, str], ...] = ()
    code: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly with its witness."""

    number: int
    check: str
    kind: str
    requirement: str
    title: str
    subject: str
    message: str
    figures: tuple[Figure, ...]
    grids: tuple[Grid, ...]
    seconds: tuple[float, float] | None = None
    """the time of the run around the witness"""

    @property
    def anchor(self) -> str:
        """A stable address inside the page."""
        return f"anomaly-{self.number}"


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one check."""

    check: str
    kind: str
    violated: bool
    """a promise was broken; else these are the reasons why something could not be judged"""
    total: int
    """found in all; the store holds the witnesses of some"""
    drawn: tuple[Finding, ...]
    told: tuple[Finding, ...]
    """without a drawing"""
    more: str
    """what is not drawn, in numbers"""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: what it says and how often it could have said otherwise."""

    name: str
    kind: str
    requirement: str
    title: str
    status: str
    """valid, invalid, unknown, not-exercised, not-applicable"""
    evidence_rows: int
    exercised: str
    reason: str
    found: int
    """all anomalies that were found"""
    anchors: tuple[tuple[str, str], ...]
    """(anchor, number) of its findings in this page"""
    metrics: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FaultLine:
    """One fault of the table of faults."""

    number: int
    name: str
    nodes: str
    leader: str
    planned: str
    started: str
    ended: str
    replaced: bool
    """the next fault came straight after it, without healing"""
    lasted: str
    verified: str
    """verified, not verified, not reached, not told"""
    asked: str
    acknowledged: str
    read: str
    new_leader: str
    next_answer: str
    recovery: str
    detail: str
    links: str


@dataclass(frozen=True, slots=True)
class NotChecked:
    """One thing that this run does not prove."""

    status: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report of one run."""

    title: str
    run_id: str
    banner: Banner
    tiles: tuple[Tile, ...]
    tested: tuple[Fact, ...]
    nodes: Grid
    repeat: str
    findings: tuple[Finding, ...]
    groups: tuple[FindingGroup, ...]
    """the same findings, by check"""
    timeline: tuple[Figure, ...]
    faults: tuple[FaultLine, ...]
    messages: tuple[Grid, ...]
    """what the nodes said to each other; none where it was not captured"""
    checks: tuple[CheckLine, ...]
    not_checked: tuple[NotChecked, ...]
    sureness: tuple[str, ...]
    environment: tuple[Fact, ...]
    warnings: tuple[str, ...]

    @property
    def broken(self) -> tuple[FindingGroup, ...]:
        """Groups of findings: a promise was broken."""
        return tuple(group for group in self.groups if group.violated)

    @property
    def doubts(self) -> tuple[FindingGroup, ...]:
        """Groups of reasons why something could not be judged."""
        return tuple(group for group in self.groups if not group.violated)

    @property
    def found(self) -> int:
        """How many findings there are, stored or only counted."""
        return sum(group.total for group in self.broken)
