"""What a file says of a program: how it is installed, formatted, started, asked and stopped, and where its evidence lies.

The file is TOML and is read by :mod:`nemesis.candidate_file`; CANDIDATES.md explains it to people. Texts hold placeholders
(:mod:`.placeholders`), which the reader has checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ALWAYS, FIRST, REJOIN = "always", "first", "rejoin"
"""when a file is written onto a disk: at each format, on a voter's first disk, or on every other one"""

ASSIGNED, META_PROPERTIES, FROM_FILE, FROM_OUTPUT, NONE = "assigned", "meta.properties", "file", "output", "none"


@dataclass(frozen=True, slots=True)
class Install:
    """A command that runs on the controller before anything else."""

    command: tuple[str, ...]
    once: bool = False
    """run it in an empty directory of the cache, and keep that; else beside the file, each time"""
    files: Mapping[str, str] = field(default_factory=dict)
    """written there first (``once`` only)"""
    patience_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or directory that every node gets."""

    name: str
    path: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that is written for each node, below its directory or onto its disk."""

    path: str
    text: str
    when: str = ALWAYS


@dataclass(frozen=True, slots=True)
class NodeList:
    """A spelling of several nodes, which becomes a placeholder of its own."""

    of: str
    """``voters``, ``nodes`` or ``others`` (all nodes but this one)"""
    each: str
    between: str = ","


@dataclass(frozen=True, slots=True)
class DirectoryId:
    """Where a formatted disk's directory id comes from."""

    source: str = ASSIGNED
    file: str = ""
    match: str = ""
    """a pattern with the group ``directory_id``"""


@dataclass(frozen=True, slots=True)
class Format:
    """How an empty disk is made ready, on the controller."""

    command: tuple[str, ...] = ()
    rejoin_command: tuple[str, ...] | None = None
    """for observers and for disks after a wipe; None: ``command``"""
    files: tuple[TextFile, ...] = ()
    directory_id: DirectoryId = field(default_factory=DirectoryId)
    patience_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """How long a node may take until it answers, and what it says when it is ready (for the trial)."""

    ready_line: str = ""
    patience_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern for lines of the output; what it finds becomes a row of ``node_events`` for each of its kinds."""

    kinds: tuple[str, ...]
    match: str
    constants: Mapping[str, str | int | bool] = field(default_factory=dict)
    carry: tuple[str, ...] = ()
    """columns that, where the line does not tell them, are those of the process's last ``state`` row"""
    refine: bool = False
    """it adds to the row that an earlier rule of its kind made of the line, and makes none itself"""


@dataclass(frozen=True, slots=True)
class OutputRules:
    """How a program's output is read. Of the rules of one kind, the first that matches a line makes its row, and others may refine it."""

    rules: tuple[Rule, ...]
    time_match: str = ""
    """a pattern with the group ``time``"""
    time_format: str = ""
    """as :meth:`datetime.datetime.strptime`, in UTC; or ``epoch_s``, ``epoch_ms``"""
    must_match: str = ""
    """a line with this that no rule matches is told as not understood"""
    words: Mapping[str, str] = field(default_factory=dict)
    """what is found → what is meant; an empty text means: nothing"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie on a disk, relative to it. What is empty is not there, and no check is made of it."""

    everything: tuple[str, ...]
    meta_properties: str = ""
    log: str = ""
    """directory of segments in Kafka's format"""
    quorum_state: str = ""
    snapshots: str = ""
    """directory of ``<offset>-<epoch>.checkpoint`` files"""


@dataclass(frozen=True, slots=True)
class Description:
    """One program in one version."""

    name: str
    version: str
    quorum: str
    protocol: str
    workloads: tuple[str, ...]
    promises: tuple[str, ...]
    start: tuple[str, ...]
    layout: Layout
    home: Path
    """the directory of the file: what relative paths begin at"""
    written: str
    """the file's text"""
    source: str
    """the file, for people"""
    generation: str = ""
    """which table of legal state transitions holds; empty: not every change of state is told"""
    trace: bool = False
    """nodes write ``{{trace}}``"""
    output: OutputRules | None = None
    install: Install | None = None
    artifacts: tuple[Artifact, ...] = ()
    files: tuple[TextFile, ...] = ()
    lists: Mapping[str, NodeList] = field(default_factory=dict)
    format: Format = field(default_factory=Format)
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: int = 15
    stop_patience_s: float | None = None
    probe: Probe = field(default_factory=Probe)
    timers: Mapping[str, int] = field(default_factory=dict)
    voter_listener: str | None = None

    @property
    def evidence(self) -> tuple[str, ...]:
        """The tables that a run of it must fill."""
        there = {
            "log_entries": bool(self.layout.log),
            "node_events": self.trace or self.output is not None,
            "quorum_states": bool(self.layout.quorum_state),
        }
        return (*(name for name, offered in there.items() if offered), "quorum_samples", "lifecycle")

    @property
    def withheld(self) -> tuple[str, ...]:
        """The evidence that it does not offer, so that checks of it are not made."""
        missing = {
            "log_entries": not self.layout.log,
            "node_events": not self.trace and self.output is None,
            "quorum_states": not self.layout.quorum_state,
            "snapshots": not self.layout.snapshots,
            "state_digests": not self.trace,
            "state-changes": not self.generation,
        }
        return tuple(name for name, absent in missing.items() if absent)
