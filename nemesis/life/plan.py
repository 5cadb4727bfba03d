"""What a run will do, all of it decided before anything starts: candidate, quorum, workload, timers, faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from clusters.backends.backend import Place
from clusters.candidates.candidate import Candidate, DiskFiles
from nemesis.candidates import make_candidate
from nemesis.faults.capabilities import refuse_unable
from nemesis.faults.catalogue import CATALOGUE, LINK_CHANGES
from nemesis.faults.disk_choice import choose_filesystem
from nemesis.faults.schedule import NS, PlannedFault, draw_lanes
from nemesis.faults.targets import count_of
from nemesis.life.releases import other_release
from nemesis.scenario import DAMAGE, Scenario, check_nodes, loses_voter
from nemesis.seeds import stream
from workloads.history.manifest import Timers
from workloads.problem import Problem
from workloads.registry import workload as find_workload
from workloads.workload import Pace, Workload

TIMERS = Timers(election_timeout_ms=500, fetch_timeout_ms=1000, check_quorum_ms=1500, request_timeout_ms=1000)
"""Far shorter than Kafka's defaults, so that several faults fit into a run; alike for every candidate, and printed."""

SHORT_TIMERS = Timers(election_timeout_ms=200, fetch_timeout_ms=400, check_quorum_ms=600, request_timeout_ms=400)
"""For the reference's own tests, where no JVM needs time to breathe."""


def named_timers(name: str) -> Timers:
    """Timers by the name that a person types. Raises Problem (usage) for another one."""
    known = {"usual": TIMERS, "short": SHORT_TIMERS}
    if name not in known:
        raise Problem("timers-unknown", f"There are no timers {name!r}.", f"There are {', '.join(known)}.", usage=True)
    return known[name]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person asked for; None means: what the scenario, candidate or workload prefers."""

    scenario: Scenario
    argv: tuple[str, ...]
    seed: int
    store: Path
    candidate: str = "reference"
    version: str | None = None
    to_version: str | None = None
    """another release, for faults that start nodes under one"""
    kafka_home: Path | None = None
    quorum: str | None = None
    nodes: int | None = None
    observers: int | None = None
    workload: str | None = None
    duration_s: float = 20.0
    rate: float | None = None
    concurrency: int | None = None
    defects: tuple[str, ...] = ()
    master: str | None = None
    timers: Timers = TIMERS
    cluster: str = "local"
    """the backend's name"""
    place: Place = field(default_factory=Place)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What will be done."""

    options: RunOptions
    candidate: Candidate
    other: Candidate | None
    """the same in another release, where faults start nodes under one"""
    kind: str
    """static or dynamic"""
    voters: int
    observers: int
    workload: Workload
    workload_options: dict[str, Any]
    pace: Pace
    schedule: tuple[PlannedFault, ...]
    needs: dict[str, int]
    known_hazard: str


def plan_run(options: RunOptions) -> RunPlan:
    """Decide everything. Raises Problem (usage) for what does not fit together."""
    candidate, kind = make_candidate(
        options.candidate,
        version=options.version,
        kafka_home=options.kafka_home,
        quorum=options.quorum,
        defects=options.defects,
    )
    other = _other(options, kind)
    traits = candidate.traits
    asked = {} if (patience := options.scenario.request_timeout_ms) is None else {"request_timeout_ms": patience}
    options = replace(options, timers=msgspec.structs.replace(options.timers, **{**asked, **traits.timers}))
    voters = options.nodes or options.scenario.nodes
    observers = options.scenario.observers if options.observers is None else options.observers
    refuse_unable(options.scenario, options.cluster)
    filesystem = choose_filesystem(options.scenario, options.cluster, options.place.filesystem)
    options = replace(options, place=replace(options.place, filesystem=filesystem))
    _refuse_voter_changes(options, candidate)
    _refuse_damage(options.scenario, traits.disk)
    _check_sizes(options, voters, observers)
    _refuse_observers(options.scenario, observers, candidate)
    work = find_workload(options.workload or candidate.workloads[0])
    if work.name not in candidate.workloads:
        raise Problem(
            "workload-not-offered",
            f"The candidate {options.candidate} does not serve the workload {work.name!r}.",
            f"It serves {', '.join(candidate.workloads)}.",
            usage=True,
        )
    pace = work.pace[traits.protocol]
    pace = Pace(
        options.rate or pace.rate,
        options.concurrency or max(pace.concurrency, 2 * (voters + observers)),
        pace.timeout_s,
    )
    schedule = _schedule(options, kind, voters)
    return RunPlan(
        options=options,
        candidate=candidate,
        other=other,
        kind=kind,
        voters=voters,
        observers=observers,
        workload=work,
        workload_options=dict(work.candidate_options.get(traits.protocol, {})),
        pace=pace,
        schedule=schedule,
        needs=_needs(options.scenario, schedule),
        known_hazard=options.scenario.hazard(kind),
    )


def _other(options: RunOptions, kind: str) -> Candidate | None:
    changing, to_version = options.scenario.changes_release, options.to_version
    if changing and to_version is None:
        raise Problem(
            "release-missing",
            f"Scenario {options.scenario.name} starts nodes under another release ({', '.join(changing)}).",
            "Say which one: --candidate kafka --version 3.9.2 --to-version 4.3.1.",
            usage=True,
        )
    if to_version is None:
        return None
    if not changing:
        raise Problem(
            "release-unused",
            f"Scenario {options.scenario.name} starts no node under another release than its first.",
            "Leave out --to-version, or run rolling-upgrade.",
            usage=True,
        )
    return other_release(options.candidate, options.version, to_version, kind)


def _refuse_voter_changes(options: RunOptions, candidate: Candidate) -> None:
    changing = options.scenario.changes_voters
    if changing and candidate.voter_listener is None:
        raise Problem(
            "voters-fixed",
            f"Scenario {options.scenario.name} changes the voters ({', '.join(changing)}), and this candidate cannot.",
            "Voters change on Apache Kafka 3.9 or newer with a dynamic quorum: --candidate kafka.",
            usage=True,
        )


def _refuse_observers(scenario: Scenario, observers: int, candidate: Candidate) -> None:
    if observers and not candidate.traits.observers:
        raise Problem(
            "observers-impossible",
            f"Scenario {scenario.name} would run with {observers} observer(s), and in a static quorum every controller is a voter.",
            "Give --quorum dynamic (Kafka 3.9 or newer), or --observers 0.",
            usage=True,
        )


def _refuse_damage(scenario: Scenario, disk: DiskFiles) -> None:
    for choice in scenario.faults:
        kind = CATALOGUE[choice.fault].values(dict(choice.parameters)).get("file")
        if isinstance(kind, str) and kind not in disk.kinds:
            raise Problem(
                "file-kind-unknown",
                f"{choice.fault} damages a {kind}, and nobody has said where this candidate keeps one.",
                f"Say it in [disk] of its description ({kind.replace('-', '_')}), or aim at {' or '.join(disk.kinds) or 'no file'}.",
                usage=True,
            )


def _check_sizes(options: RunOptions, voters: int, observers: int) -> None:
    name = options.scenario.name
    if voters < options.scenario.nodes:
        raise Problem(
            "too-few-nodes",
            f"Scenario {name} needs at least {options.scenario.nodes} nodes.",
            "Raise --nodes.",
            usage=True,
        )
    if not 1 <= voters <= 9 or not 0 <= observers <= 9:
        raise Problem(
            "nodes-out-of-range", "A quorum has 1 to 9 voters and 0 to 9 observers.", "Mend --nodes.", usage=True
        )
    if not 1 <= options.duration_s <= 86_400:
        raise Problem("duration-out-of-range", "The load lasts 1 to 86400 seconds.", "Mend --duration.", usage=True)
    check_nodes(options.scenario, voters, observers)


def _schedule(options: RunOptions, kind: str, voters: int) -> tuple[PlannedFault, ...]:
    scenario = options.scenario
    limits = {DAMAGE: _damage_limit(scenario, kind, voters)} if scenario.quorum_preserving else {}
    schedule = draw_lanes(
        [replace(choice, cost=count_of(choice.targets or "", voters)) for choice in scenario.faults],
        duration_ns=int(options.duration_s * NS),
        warm_up_ns=int(scenario.warm_up_s * NS),
        gap_ns=int(scenario.gap_s * NS),
        period_ns=options.timers.check_quorum_ms * 1_000_000,
        streams=lambda lane: stream(options.seed, *filter(None, ("faults", lane))),
        replaceable=LINK_CHANGES,
        limits=limits,
    )
    if scenario.faults and not schedule:
        raise Problem(
            "duration-too-short",
            f"Not one fault of {scenario.name} fits into {options.duration_s:g} s of load.",
            "Raise --duration.",
            usage=True,
        )
    return schedule


def _damage_limit(scenario: Scenario, kind: str, voters: int) -> int:
    """How many nodes' disks may be damaged in one run that preserves its quorum."""
    if scenario.group == "chaos" and kind == "static":
        return 0  # a wiped voter is counted as the one it was (KAFKA-14077): no fault to mix in unlabelled
    spare = (voters - 1) // 2
    lost_for_good = any(loses_voter(choice) for choice in scenario.faults)
    others = any(CATALOGUE[choice.fault].out_of_service and not loses_voter(choice) for choice in scenario.faults)
    # Where a wiped voter stays an observer, one more node out of service must still leave a majority.
    return max(spare - 1, 0) if kind == "dynamic" and lost_for_good and others else spare


def _needs(scenario: Scenario, schedule: tuple[PlannedFault, ...]) -> dict[str, int]:
    """What the scenario demands, no more than what was planned: a short run is judged by what it could do."""
    return {name: min(count, len(schedule)) for name, count in scenario.needs.items()}
