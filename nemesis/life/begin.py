"""Makes the folder and the first manifest of a run, from its plan."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from clusters.backends.registry import find_backend
from nemesis.life.plan import RunPlan
from nemesis.life.progress import Progress
from nemesis.life.run import Run
from nemesis.machine import describe
from nemesis.store.layout import DESCRIPTION, SCENARIO, new_run, run_id
from nemesis.store.manifest import write_manifest
from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry


def begin_run(plan: RunPlan, progress: Progress) -> Run:
    """Make the run's folder and write ``run.json``, before anything is started."""
    options = plan.options
    now = datetime.now(UTC)
    folder = new_run(options.store, options.scenario.name, options.seed, now)
    planned = find_backend(options.cluster).plan(folder, plan.voters, plan.observers, options.place)
    filesystem = options.place.filesystem
    for node in planned.nodes:
        node.directory.mkdir(parents=True)
    manifest = Manifest(
        run_id=run_id(folder),
        scenario=options.scenario.name,
        scenario_title=options.scenario.title,
        seed=options.seed,
        argv=options.argv,
        started_at=now.isoformat(timespec="microseconds"),
        started_monotonic_ns=time.monotonic_ns(),
        tool_version=_tool_version(),
        backend=options.cluster,
        place={**planned.place, **({"filesystem": filesystem} if filesystem else {})},
        candidate=CandidateEntry(
            name=options.candidate,
            version=options.version or "",
            releases=(plan.candidate.version, plan.other.version) if plan.other is not None else (),
            quorum=plan.kind,
            promises=(),
            evidence=(),
            generation="",
            defects=options.defects,
        ),
        nodes=tuple(
            NodeEntry(
                name=node.name,
                node_id=node.node_id,
                role=node.role,
                address=node.address,
                port=node.port,
                host=node.host,
            )
            for node in planned.nodes
        ),
        timers=options.timers,
        workload=plan.workload.name,
        workload_options=plan.workload_options,
        rate=plan.pace.rate,
        concurrency=plan.pace.concurrency,
        duration_s=options.duration_s,
        needs=plan.needs,
        known_hazard=plan.known_hazard,
        voters_change=bool(options.scenario.changes_voters),
        expected=options.scenario.expect,
        machine=describe(),
    )
    (folder / SCENARIO).write_text(options.scenario.written, encoding="utf-8")
    if described := plan.candidate.traits.description:
        (folder / DESCRIPTION).write_text(described, encoding="utf-8")
    write_manifest(folder, manifest)
    return Run(plan, folder, manifest, progress)


def _tool_version() -> str:
    try:
        return installed_version("nemesis")
    except PackageNotFoundError:
        return "0.1.0"
