"""A stored run → what its page says: the answer, the numbers, what was tested, and all parts that other modules make."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from checker.verdict import RunVerdict, Verdict
from reports import checklist, findings
from reports.figures import Scene, time_figures
from reports.impact import Impact, bands, impacts, longest_pause_ns
from reports.load import StoredRun
from reports.message_grids import capture_warnings, message_grids
from reports.page import Banner, Cell, Fact, FaultLine, Grid, Page, Tile
from reports.plots.frame import NS_PER_S, Backdrop, TimeAxis
from reports.plots.latency import duration, seconds
from reports.roles import Roles, read_roles
from workloads.history.manifest import Manifest

EXIT_MEANING = {
    Verdict.VALID: "Exit code 0: every check that could be judged found the promises kept.",
    Verdict.INVALID: "Exit code 1: a promise was broken, and a witness shows it.",
    Verdict.UNKNOWN: "Exit code 2: nothing was proven wrong, and something that had to be judged could not be.",
}
_SECRET = ("password", "secret", "token", "credential", "apikey", "api_key")


def compose(run: StoredRun) -> Page:
    """Compose the whole page."""
    warnings = [*run.warnings, *capture_warnings(run.manifest)]
    axis = _axis(run)
    roles = read_roles(run.tables, axis.end_ns)
    measured = impacts(run, roles, axis.end_ns)
    backdrop = Backdrop(
        bands=bands(measured, axis.end_ns),
        phases=tuple(
            (p.name, p.started_ns, axis.end_ns if p.ended_ns is None else p.ended_ns) for p in run.manifest.phases
        ),
        stalls=run.manifest.stalls,
        moments=_moments(run.manifest),
    )
    found = findings.findings(run, backdrop.bands, warnings)
    backdrop = replace(backdrop, flags=findings.flags(run.verdict.checks, found))
    return Page(
        title=run.manifest.scenario_title or run.manifest.scenario,
        run_id=run.manifest.run_id,
        banner=_banner(run),
        tiles=_tiles(run, measured, roles),
        tested=_tested(run.manifest),
        nodes=_nodes(run.manifest),
        repeat=repeat_command(run.manifest),
        findings=found,
        groups=findings.groups(run.verdict.checks, found),
        timeline=time_figures(Scene(run, axis, backdrop, roles, measured, found), warnings),
        faults=tuple(_fault_line(impact) for impact in measured),
        messages=message_grids(run, axis.end_ns),
        checks=checklist.check_lines(run.verdict, found),
        not_checked=checklist.not_checked(run.verdict, run.faults),
        sureness=checklist.sureness(run.verdict),
        environment=_environment(run.manifest, run.verdict.checker or {}),
        warnings=tuple(warnings),
    )


def repeat_command(manifest: Manifest) -> str:
    """The command that repeats the run, with its seed."""
    argv = [argument for argument in manifest.argv if argument != "--json"]
    if argv and (PurePath(argv[0]).name in ("nemesis", "__main__.py", "main.py") or argv[0].endswith("/nemesis")):
        argv = argv[1:]
    if not argv:
        argv = ["run", manifest.scenario]
    if not any(argument == "--seed" or argument.startswith("--seed=") for argument in argv):
        argv += ["--seed", str(manifest.seed)]
    if "--defect" not in argv and not any(argument.startswith("--defect=") for argument in argv):
        argv += [part for defect in manifest.candidate.defects for part in ("--defect", defect)]
    return shlex.join(["bin/nemesis", *argv])


def _axis(run: StoredRun) -> TimeAxis:
    """From the first to the last thing that concerns the cluster; deployment before it is not drawn."""
    operations, manifest = run.operations, run.manifest
    starts = [phase.started_ns for phase in manifest.phases if phase.name not in ("deploy", "install")]
    ends = [
        phase.ended_ns
        for phase in manifest.phases
        if phase.name in ("load", "heal", "recovery", "final") and phase.ended_ns
    ]
    if len(operations):
        starts.append(int(operations.invoked_ns[0]))
        ends.append(int(max(operations.invoked_ns.max(), operations.completed_ns.max())))
    starts += [fault.started_ns for fault in run.faults if fault.started_ns is not None]
    ends += [fault.ended_ns for fault in run.faults if fault.ended_ns is not None]
    samples = run.tables["quorum_samples"]["ts_ns"].drop_null()
    if len(samples) and not ends:
        ends.append(int(np.asarray(samples.to_numpy()).max()))
    start_ns = min(starts, default=0)
    end_ns = max(ends, default=start_ns + int(manifest.duration_s * NS_PER_S))
    margin = int(0.01 * max(1, end_ns - start_ns))
    return TimeAxis(max(0, start_ns - margin), max(end_ns, start_ns + 1) + margin)


def _moments(manifest: Manifest) -> tuple[tuple[int, str], ...]:
    told = ((manifest.spark_started_ns, "Spark starts"), (manifest.spark_ready_ns, "Spark ready"))
    return tuple((at, name) for at, name in told if at is not None)


def _banner(run: StoredRun) -> Banner:
    verdict, manifest = run.verdict, run.manifest
    labels: list[tuple[str, str]] = []
    hazard = verdict.known_hazard or manifest.known_hazard
    if hazard:
        labels.append(("hazard", f"Known hazard: {hazard}"))
    if verdict.expected is not None:
        as_told = "and it is" if verdict.expected is verdict.verdict else f"but it is {verdict.verdict.value}"
        labels.append(("expected", f"The scenario expects {verdict.expected.value}, {as_told}"))
    if manifest.candidate.defects:
        labels.append(("defect", f"Built wrong on purpose: {', '.join(manifest.candidate.defects)}"))
    meaning = EXIT_MEANING[verdict.verdict]
    if manifest.interrupted:
        labels.append(("interrupted", "Stopped before its end: faults not yet due were not reached"))
        if verdict.verdict is not Verdict.INVALID:
            meaning = "Exit code 130: stopped by a person without a finding. " + meaning.split(": ", 1)[1].capitalize()
    elif not manifest.finished:
        labels.append(
            ("interrupted", "The controller ended before the run did: judged is what was recorded until then")
        )
    return Banner(verdict.verdict.value, without_word(verdict), meaning, tuple(labels))


def without_word(verdict: RunVerdict) -> str:
    """The sentence without a leading "Invalid:", since the word stands above it."""
    word, colon, rest = verdict.sentence.partition(":")
    if colon and word.strip().lower() == verdict.verdict.value and rest.strip():
        return rest.strip()[0].upper() + rest.strip()[1:]
    return verdict.sentence


def _tiles(run: StoredRun, measured: tuple[Impact, ...], roles: Roles) -> tuple[Tile, ...]:
    counts = run.verdict.operations
    told = " · ".join(f"{counts.get(word, 0):,} {word}" for word in ("ok", "info", "fail"))
    happened = [impact for impact in measured if impact.happened]
    verified = sum(1 for impact in happened if impact.fault.verified)
    asked = sum(impact.invoked for impact in happened)
    answered = sum(impact.acknowledged + impact.read for impact in happened)
    recoveries = [impact.recovery_ns for impact in happened if impact.recovery_ns is not None]
    pause_ns = longest_pause_ns(run.operations)
    epochs = len({span.epoch for span in roles.leaders})
    return (
        Tile(f"{sum(counts.values()):,}", "operations", told, "" if counts.get("ok") else "warn"),
        Tile(
            f"{verified} of {len(measured)}",
            "faults verified",
            "each seen to act by a probe",
            "" if verified == len(measured) else "warn",
        ),
        Tile(
            f"{run.verdict.leader_changes:,}",
            "leader changes",
            f"{epochs:,} epoch{'' if epochs == 1 else 's'} with a leader seen",
        ),
        Tile(f"{asked:,}", "asked on the cut-off side", f"{answered:,} answered ok there")
        if any(impact.fault.isolated for impact in happened)
        else Tile("–", "asked on the cut-off side", "no fault cut a node off"),
        Tile("–" if pause_ns is None else duration(pause_ns), "longest standstill", "without any acknowledged change"),
        Tile(duration(max(recoveries)) if recoveries else "–", "slowest recovery", "from healing to an answer again"),
    )


def _tested(manifest: Manifest) -> tuple[Fact, ...]:
    candidate, timers = manifest.candidate, manifest.timers
    options = ", ".join(f"{key} = {value}" for key, value in sorted(manifest.workload_options.items()))
    return (
        Fact(
            "Candidate",
            f"{candidate.name} {candidate.version}",
            tuple(sorted(candidate.provenance.items())),
        ),
        Fact("Defect switches", ", ".join(candidate.defects) or "none"),
        Fact("Quorum", f"{sum(n.role == 'voter' for n in manifest.nodes)} voters, "
             f"{sum(n.role != 'voter' for n in manifest.nodes)} observers, {candidate.quorum}, on {manifest.backend}"),
        Fact("Promises", ", ".join(candidate.promises) or "none"),
        Fact("Evidence", ", ".join(candidate.evidence) or "none"),
        Fact("Transitions", candidate.generation),
        Fact(
            "Timers",
            f"election {timers.election_timeout_ms} ms, fetch {timers.fetch_timeout_ms} ms, "
            f"check-quorum {timers.check_quorum_ms} ms, request {timers.request_timeout_ms} ms",
        ),
        Fact("Workload", f"{manifest.workload}{f' ({options})' if options else ''}, {manifest.rate:g} operations a second, "
             f"{manifest.concurrency} processes, {manifest.duration_s:g} s of load"),
        Fact("Scenario", f"{manifest.scenario}: {manifest.scenario_title}"),
        Fact("Seed", str(manifest.seed), code=True),
    )  # fmt: skip


def _nodes(manifest: Manifest) -> Grid:
    rows = tuple(
        tuple(
            Cell(text)
            for text in (
                node.name, node.role, f"{node.address}:{node.port}", node.host,
                (node.directory_id or "none") + (" (assigned by nemesis)" if node.assigned else ""),
            )
        )
        for node in manifest.nodes
    )  # fmt: skip
    return Grid("Nodes as they were set up", ("node", "role", "address", "host", "directory id"), rows)


def _environment(manifest: Manifest, checker: Mapping[str, Any]) -> tuple[Fact, ...]:
    facts = [
        Fact("Run", manifest.run_id, code=True),
        Fact("Started", manifest.started_at),
        Fact("nemesis", manifest.tool_version),
        Fact("Command", shlex.join(manifest.argv), code=True),
    ]
    where = f"{manifest.backend}: "
    facts += [Fact(where + name, _redacted(name, told), code=True) for name, told in sorted(manifest.place.items())]
    facts += [Fact(name, _redacted(name, str(told))) for name, told in sorted(manifest.machine.items())]
    facts += [Fact(f"checker: {name}", _redacted(name, str(told))) for name, told in sorted(checker.items())]
    facts += [Fact("Note", note) for note in manifest.notes]
    total = sum(end - start for start, end in manifest.stalls)
    stalls = tuple((seconds(start), f"for {duration(end - start)}") for start, end in manifest.stalls)
    facts.append(
        Fact("Stalls of the controller", f"{len(stalls)}, {duration(total)} in all" if stalls else "none", stalls)
    )
    return tuple(facts)


def _redacted(name: str, told: str) -> str:
    return "(redacted)" if any(word in name.lower() for word in _SECRET) else told


def _fault_line(impact: Impact) -> FaultLine:
    fault = impact.fault
    verified = (
        "not reached"
        if fault.started_ns is None
        else {True: "verified", False: "not verified", None: "not told"}[fault.verified]
    )
    has_side = bool(fault.isolated) and impact.happened
    lasted = (
        duration(fault.ended_ns - fault.started_ns)
        if fault.started_ns is not None and fault.ended_ns is not None
        else "–"
    )
    leader = (
        "–"
        if fault.leader is None
        else fault.leader + ("" if fault.leader_epoch is None else f", epoch {fault.leader_epoch}")
    )
    return FaultLine(
        number=impact.number,
        name=fault.fault,
        nodes=", ".join(fault.isolated or fault.targets) or "–",
        leader=leader,
        planned=seconds(fault.planned_ns),
        started=seconds(fault.started_ns),
        ended=seconds(fault.ended_ns),
        replaced=fault.replaced,
        lasted=lasted,
        verified=verified,
        asked=f"{impact.invoked:,}" if has_side else "–",
        acknowledged=f"{impact.acknowledged:,}" if has_side else "–",
        read=f"{impact.read:,}" if has_side else "–",
        new_leader=_after(impact.new_leader_ns),
        next_answer=_after(impact.next_answer_ns),
        recovery=_after(impact.recovery_ns),
        detail=fault.detail,
        links=", ".join(link.replace(">", " → ") for link in fault.links),
    )


def _after(ns: int | None) -> str:
    return "–" if ns is None else duration(max(ns, 1))
