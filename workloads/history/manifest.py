"""The manifest of a run, ``run.json``: all that a checker, a report or a person must know besides the tables.

It is written when the run begins (so that a killed run can be checked) and again when it ends.
"""

from __future__ import annotations

from typing import Any

import msgspec

MANIFEST_VERSION = 1


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """Timers of the candidate in milliseconds, shortened alike for every candidate."""

    election_timeout_ms: int
    fetch_timeout_ms: int
    check_quorum_ms: int
    """a leader that a majority has not fetched from for so long must resign"""
    request_timeout_ms: int


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One node as it was set up. Later directory ids are rows of ``lifecycle``."""

    name: str
    node_id: int
    role: str
    """``voter`` or ``observer`` when the run began"""
    address: str
    port: int
    host: str
    directory_id: str | None = None
    assigned: bool = False
    clock_ahead_ns: int = 0
    """how far the node's CLOCK_MONOTONIC is ahead of the controller's; not 0 on another machine only"""
    wall_ahead_ns: int = 0
    clock_error_ns: int = 0
    """both are known to within this"""


class CandidateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What was tested and what it promises."""

    name: str
    version: str
    quorum: str
    """``static`` or ``dynamic``"""
    promises: tuple[str, ...]
    """check-quorum, pre-vote, directory-identity, linearizable-reads, linearizable-operations, node-trace, durable-votes"""
    evidence: tuple[str, ...]
    """names of the tables that must not be empty"""
    generation: str
    """which table of legal state transitions holds: ``kip-595``, ``kip-996``, or that either may: ``kip-595 or kip-996``"""
    releases: tuple[str, ...] = ()
    """where nodes are started under two releases: both, first the one that all begin with; ``version`` names both, for people"""
    defects: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    """file name → SHA-256 of everything that was run, plus commit or release"""
    withheld: tuple[str, ...] = ()
    """tables that its description says it has not, and ``state-changes`` where not every one is told: no check is made of them"""


class CaptureEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What was captured of the messages that one node and the others sent each other."""

    node: str
    packets: int = 0
    lost: int = 0
    """packets that found no room: what is in no capture may have been sent all the same"""
    problem: str = ""
    """why there is no capture, or why it ended early"""

    @property
    def whole(self) -> bool:
        """Whether all that the node sent and received is there."""
        return not self.lost and not self.problem


class PhaseEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the run: deploy, start, setup, load, heal, recovery, final, stop, collect."""

    name: str
    started_ns: int
    ended_ns: int | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``."""

    manifest_version: int = MANIFEST_VERSION
    run_id: str
    """``<scenario>/<UTC time>-<seed>``, also the folder below the store"""
    scenario: str
    scenario_title: str
    seed: int
    argv: tuple[str, ...]
    started_at: str
    """UTC, ISO 8601 with microseconds: the wall clock at the same moment"""
    started_monotonic_ns: int
    """``time.monotonic_ns()`` of the controller at the start of the run: what times of a node's own trace count from"""
    tool_version: str
    backend: str
    """where nodes ran: ``local``, ``docker``, ``ssh``"""
    place: dict[str, str] = {}
    """what the backend tells of it: the image and the engine, the inventory"""
    candidate: CandidateEntry
    nodes: tuple[NodeEntry, ...]
    timers: Timers
    workload: str
    workload_options: dict[str, Any] = {}
    initial_values: dict[str, int] = {}
    rate: float
    """operations a second that were asked for"""
    concurrency: int
    duration_s: float
    needs: dict[str, int] = {}
    """what the scenario demands of a run to be judged: ``isolations``, ``leader_changes``, ``cut_off_operations``, ``faults``"""
    recovery_limit_s: float = 30.0
    expected: str | None = None
    known_hazard: str = ""
    voters_change: bool = False
    """faults of the run change the voter set: the voters of ``nodes`` are those of its beginning"""
    phases: tuple[PhaseEntry, ...] = ()
    interrupted: bool = False
    """stopped by a person or a signal: faults not yet due are *not reached*"""
    finished: bool = False
    """all phases ended; false after a kill of the controller"""
    stalls: tuple[tuple[int, int], ...] = ()
    """(from ns, to ns) in which the controller itself did not run"""
    spark_started_ns: int | None = None
    spark_ready_ns: int | None = None
    captures: tuple[CaptureEntry, ...] = ()
    """of each node; none, where it was not tried or the controller did not come to its end"""
    machine: dict[str, str] = {}
    notes: tuple[str, ...] = ()


def encode_manifest(manifest: Manifest) -> bytes:
    """Write a manifest as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Read ``run.json``. Raises msgspec.ValidationError or msgspec.DecodeError for anything else."""
    return msgspec.json.decode(data, type=Manifest)
