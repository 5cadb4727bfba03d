"""The life of a run: deploy, start, set up, load and break, heal, recover, read for the last time, stop, collect.

Whatever stops it (a person, a signal, an error), what was recorded is kept and what was started is ended; a controller that is
killed leaves both to the kernel and to the next command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from clusters.backends.registry import find_backend
from clusters.cluster import Cluster, NodeSpec
from clusters.links import OPEN
from nemesis.candidates import client_factory
from nemesis.faults.execute import execute
from nemesis.faults.field import Field
from nemesis.faults.kinds.kind import Capability
from nemesis.faults.packets import begin_shapers, end_shaping
from nemesis.faults.process import start_and_wait
from nemesis.faults.relays import begin_relays
from nemesis.life.captures import Captures
from nemesis.life.last_words import last_words
from nemesis.life.nodes import Nodes
from nemesis.life.progress import Look
from nemesis.life.releases import mixture
from nemesis.life.run import Run
from nemesis.life.setting import connector, draw_quorum
from nemesis.life.shims import make_shims
from nemesis.life.supervisor import supervise
from nemesis.life.vitals import watch_vitals
from nemesis.seeds import stream
from nemesis.store.evidence import read_run_journal, specification, write_tables
from nemesis.store.layout import JOURNAL
from nemesis.store.manifest import write_manifest
from workloads.clients.voter_changes import VoterChanges
from workloads.history.manifest import Manifest, PhaseEntry
from workloads.history.operation import FaultRow, Phase
from workloads.interpreter import FINAL_PROCESSES, SETUP_PROCESSES, Load, LoadOptions, LoadResult, run_to_end
from workloads.journal import Journal
from workloads.problem import Problem
from workloads.quorum_sampler import QuorumSampler
from workloads.recorder import Recorder
from workloads.session import Access
from workloads.workload import LoadPlan

QUORUM_PATIENCE_S = 60.0
_RECOVERY_LIMIT_S = 30.0
_STOPPED_RECOVERY_LIMIT_S = 10.0
_STOP_PATIENCE_S = 5.0
_POLL_S = 0.05


async def control(run: Run) -> Manifest:
    """Live through the run; returns its finished manifest, with all tables written.

    Raises Problem when the framework or the set-up failed; what was recorded until then stays in the folder.
    """
    journal = Journal(run.folder / JOURNAL, run.manifest.run_id)
    cluster: Cluster | None = None
    captures: Captures | None = None
    try:
        async with _phase(run, journal, "deploy", "fetching the candidate and making the network"):
            entry = await asyncio.to_thread(run.plan.candidate.install, run.progress.say)
            if run.plan.other is not None:
                entry = mixture(entry, await asyncio.to_thread(run.plan.other.install, run.progress.say))
            run.manifest = msgspec.structs.replace(run.manifest, candidate=entry)
            options = run.plan.options
            cluster = find_backend(options.cluster).make(_specs(run), options.place)
            await asyncio.to_thread(cluster.up, run.progress.say)
            _note_clocks(run, cluster)
            needed = run.plan.options.scenario.shims
            run.shims = await asyncio.to_thread(make_shims, needed, cluster, run.now_ns, run.progress.say)
            libraries = [shim.library for shim in run.shims.values()]
            await asyncio.to_thread(cluster.install, [*_artifacts(run), *libraries])
            if Capability.RELAY in run.plan.options.scenario.capabilities():
                await asyncio.to_thread(begin_relays, cluster)
            if Capability.PACKETS in run.plan.options.scenario.capabilities():
                mechanism = await asyncio.to_thread(begin_shapers, cluster)
                run.manifest = msgspec.structs.replace(
                    run.manifest, machine={**run.manifest.machine, "packets are shaped": mechanism}
                )
            captures = Captures(cluster, run.folder, run.progress.say)
            await captures.begin()
        await _live(run, journal, cluster, captures)
    finally:
        if cluster is not None:
            await asyncio.to_thread(cluster.down)
        if captures is not None:
            await asyncio.to_thread(captures.close)
        journal.close()
    run.manifest = msgspec.structs.replace(
        run.manifest,
        phases=tuple(run.phases),
        interrupted=run.stopping.is_set(),
        finished=True,
        spark_ready_ns=run.spark_ready_ns,
    )
    await asyncio.to_thread(write_tables, run.folder, run.manifest, run.plan.candidate, read_run_journal(run.folder))
    write_manifest(run.folder, run.manifest)
    return run.manifest


async def _live(run: Run, journal: Journal, cluster: Cluster, captures: Captures) -> None:
    """All that happens while the nodes run."""
    quorum = draw_quorum(cluster, run.plan.kind, run.manifest.timers, run.manifest.seed)
    nodes = Nodes(
        cluster=cluster,
        candidate=run.plan.candidate,
        quorum=quorum,
        record=journal.append,
        now_ns=run.now_ns,
        shims=tuple(run.shims.values()),
        other=run.plan.other,
    )
    connect = connector(cluster)
    sampler = QuorumSampler(connect, nodes.names, run.now_ns, lambda row: journal.append("quorum_samples", row))
    background = [asyncio.create_task(captures.run())]
    try:
        async with _phase(run, journal, "start", f"formatting and starting {len(nodes.names)} nodes"):
            await _format_and_start(run, nodes)
            background.append(asyncio.create_task(watch_vitals(cluster, nodes, run.now_ns, run.progress.say)))
            background.append(asyncio.create_task(sampler.run()))
            await _first_leader(sampler, nodes, run)
        patience = min(_STOP_PATIENCE_S, 3 * run.manifest.timers.check_quorum_ms / 1000)
        listener = run.plan.candidate.voter_listener
        changes = VoterChanges(connect, quorum.cluster_id, listener) if listener is not None else None
        where = Field(cluster, nodes, sampler, run.now_ns, patience, voter_changes=changes, shims=run.shims)
        clients = client_factory(run.plan.candidate.traits.protocol, run.plan.workload.name, quorum.cluster_id)
        await _drive(run, journal, where, Access(connect, nodes.names, clients))
        async with _phase(run, journal, "stop", "stopping the nodes and collecting what they left"):
            await _end(background)
            await asyncio.to_thread(nodes.finish)
            run.manifest = msgspec.structs.replace(run.manifest, captures=await captures.finish())
            _note_clocks(run, cluster)
    finally:
        await _end(background)


async def _drive(run: Run, journal: Journal, where: Field, access: Access) -> None:
    """Set up, load and break, heal, recover, read."""
    plan = run.plan
    work = plan.workload.make_plan(stream(run.manifest.seed, "workload"), plan.workload_options)
    recorder = Recorder(journal, run.now_ns)
    async with _phase(run, journal, "setup", f"first operations of {plan.workload.name}"):
        await _set_up(run, access, work, recorder)
    options = LoadOptions(plan.pace.rate, plan.pace.concurrency, plan.pace.timeout_s)
    load = Load(access, work.load, recorder, stream(run.manifest.seed, "arrivals"), options)
    loading = asyncio.create_task(load.run())
    try:
        async with _phase(run, journal, "load", f"{plan.pace.rate:g} operations a second, {len(plan.schedule)} faults"):
            await _break_things(run, journal, where, load, loading)
        load.phase = Phase.RECOVERY
        limit_s = _STOPPED_RECOVERY_LIMIT_S if run.stopping.is_set() else _RECOVERY_LIMIT_S
        async with _phase(run, journal, "heal", "opening every link, starting every node"):
            await _heal(run, where)
        async with _phase(run, journal, "recovery", "waiting until the quorum serves again"):
            await _recover(run, where, load, limit_s)
    finally:
        run.progress.watch(None)
        load.stop()
        result = await loading
    _note_load(run, journal, result)
    async with _phase(run, journal, "final", "final reads at every node"):
        asked = await _with_process(run, journal, where, access.nodes if work.final_pinned else access.nodes[:1])
        done = await run_to_end(
            access,
            {node: work.final(node) for node in asked},
            recorder,
            pinned=work.final_pinned,
            phase=Phase.FINAL,
            first_process=FINAL_PROCESSES,
            timeout_s=plan.pace.timeout_s,
            limit_s=limit_s,
        )
        for node in (node for node, complete in done.items() if not complete):
            journal.note(run.now_ns(), f"the final reads at {node} did not all succeed within {limit_s:.0f} s")


async def _with_process(run: Run, journal: Journal, where: Field, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the nodes that run: one that refuses its disk would be asked in vain for the whole limit. All, when none does."""
    running = tuple([node for node in asked if await asyncio.to_thread(where.cluster.alive, node)])
    for node in asked:
        if running and node not in running:
            journal.note(run.now_ns(), f"{node} does not run any more: no final reads there")
    return running or asked


async def _break_things(
    run: Run, journal: Journal, where: Field, load: Load, loading: asyncio.Task[LoadResult]
) -> None:
    """Carry out the plan of faults under load, for the planned time and until the last fault has ended."""
    began_ns = run.now_ns()
    duration_s = run.plan.options.duration_s
    run.progress.watch(lambda: _look(run, where, load, began_ns))

    def record(row: FaultRow) -> None:
        journal.fault(row)
        journal.flush()

    def show(row: FaultRow | None) -> None:
        run.fault = row

    breaking = asyncio.create_task(
        execute(
            where,
            run.plan.schedule,
            began_ns=began_ns,
            stopping=run.stopping,
            record=record,
            show=show,
            quorum_preserving=run.plan.options.scenario.quorum_preserving,
        )
    )
    ending = asyncio.Event()
    supervising = asyncio.create_task(supervise(where, run.progress.say, ending=ending))
    try:
        while not run.stopping.is_set() and not loading.done():
            if run.now_ns() - began_ns >= duration_s * 1e9 and breaking.done():
                break
            if breaking.done() and breaking.exception() is not None:
                break
            await asyncio.sleep(_POLL_S)
        await breaking
    finally:
        breaking.cancel()
        ending.set()
        await supervising


async def _heal(run: Run, where: Field) -> None:
    """Undo every fault that may be in force, whoever made it."""
    await asyncio.to_thread(where.cluster.cut, OPEN)
    if Capability.PACKETS in run.plan.options.scenario.capabilities():
        await asyncio.to_thread(end_shaping, where.cluster)
    for node in where.nodes.names:
        await asyncio.to_thread(where.nodes.resume, node)
    await asyncio.gather(*(start_and_wait(where, node) for node in where.nodes.down()))


async def _recover(run: Run, where: Field, load: Load, limit_s: float) -> None:
    """Wait until somebody leads, every node answers and an operation has succeeded; not recovering is for the checker to judge."""
    since_ns = run.now_ns()
    await where.leader(limit_s)
    # An answer may be to a question of before the healing; the one after it is not.
    for _ in range(2):
        left_s = limit_s - (run.now_ns() - since_ns) / 1e9
        asked_ns = run.now_ns()
        await asyncio.gather(*(where.answers(node, asked_ns, left_s) for node in where.nodes.names))
    before = load.counters.ok
    while load.counters.ok <= before and (run.now_ns() - since_ns) / 1e9 < limit_s:
        await asyncio.sleep(_POLL_S)


async def _set_up(run: Run, access: Access, work: LoadPlan, recorder: Recorder) -> None:
    done = await run_to_end(
        access,
        {access.nodes[0]: work.setup},
        recorder,
        pinned=False,
        phase=Phase.LOAD,
        first_process=SETUP_PROCESSES,
        timeout_s=run.plan.pace.timeout_s,
        limit_s=QUORUM_PATIENCE_S,
        stopping=run.stopping.is_set,
    )
    if not all(done.values()) and not run.stopping.is_set():
        raise Problem(
            "setup-failed",
            f"The first operations did not succeed within {QUORUM_PATIENCE_S:.0f} s, before any fault.",
            f"See the nodes' output in {run.folder}/nodes/*/output.",
        )


async def _format_and_start(run: Run, nodes: Nodes) -> None:
    with ThreadPoolExecutor(len(nodes.names)) as pool:
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(pool, partial(nodes.format, name, first=True)) for name in nodes.names)
        )
    identities = nodes.identities()
    entries = [
        msgspec.structs.replace(node, directory_id=identities[node.name][0], assigned=identities[node.name][1])
        for node in run.manifest.nodes
    ]
    run.manifest = msgspec.structs.replace(run.manifest, nodes=tuple(entries))
    write_manifest(run.folder, run.manifest)
    for name in nodes.names:
        await asyncio.to_thread(nodes.start, name)


async def _first_leader(sampler: QuorumSampler, nodes: Nodes, run: Run) -> None:
    """Wait for the first leader; nodes that end instead are a failed set-up and no finding."""
    deadline = run.now_ns() + int(QUORUM_PATIENCE_S * 1e9)
    while sampler.current_leader() is None:
        crashed = await asyncio.to_thread(nodes.crashed)
        if crashed or run.now_ns() > deadline:
            for name in crashed:
                await asyncio.to_thread(nodes.note_crash, name)
            why = (
                f"{', '.join(crashed)} ended by itself" if crashed else f"nobody leads after {QUORUM_PATIENCE_S:.0f} s"
            )
            first = crashed[0] if crashed else nodes.names[0]
            raise Problem(
                "quorum-did-not-start",
                f"The quorum did not start: {why}. The last of what {first} printed:{last_words(nodes.folder(first))}",
                f"See the nodes' output in {run.folder}/nodes/*/output.",
            )
        if run.stopping.is_set():
            raise Problem("stopped-early", "The run was stopped before its quorum had started.", "Nothing to judge.")
        await asyncio.sleep(_POLL_S)


@contextlib.asynccontextmanager
async def _phase(run: Run, journal: Journal, name: str, text: str) -> AsyncIterator[None]:
    started_ns = run.now_ns()
    run.progress.phase(name, text)
    journal.append("phases", {"name": name, "started_ns": started_ns})
    try:
        yield
    finally:
        ended_ns = run.now_ns()
        journal.append("phases", {"name": name, "started_ns": started_ns, "ended_ns": ended_ns})
        run.phases.append(PhaseEntry(name=name, started_ns=started_ns, ended_ns=ended_ns))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()
    for result in results:
        if isinstance(result, Exception):
            raise result


def _look(run: Run, where: Field, load: Load, began_ns: int) -> Look:
    progress = load.progress()
    known = where.watch.current_leader()
    return Look(
        elapsed_s=(run.now_ns() - began_ns) / 1e9,
        duration_s=run.plan.options.duration_s,
        ok=progress.counters.ok,
        fail=progress.counters.fail,
        info=progress.counters.info,
        per_second=progress.per_second,
        leader=known[0] if known else None,
        epoch=known[1] if known else None,
        fault=run.fault,
    )


def _note_load(run: Run, journal: Journal, result: LoadResult) -> None:
    counters = result.counters
    if counters.skipped:
        journal.note(run.now_ns(), f"{counters.skipped} operations were due and not sent: every process was busy")
    run.manifest = msgspec.structs.replace(run.manifest, stalls=result.stalls)
    if result.crashes:
        raise Problem(
            "client-crashed", f"A client raised what it must not: {result.crashes[0]}.", "Report this defect of ours."
        )


def _note_clocks(run: Run, cluster: Cluster) -> None:
    """Keep how far the nodes' clocks are ahead, as well as it is known by now: their traces are shifted by it."""
    clocks = cluster.clocks()
    nodes = [
        msgspec.structs.replace(
            node, clock_ahead_ns=clock.ahead_ns, wall_ahead_ns=clock.wall_ahead_ns, clock_error_ns=clock.error_ns
        )
        if (clock := clocks.get(node.name))
        else node
        for node in run.manifest.nodes
    ]
    run.manifest = msgspec.structs.replace(run.manifest, nodes=tuple(nodes))


def _artifacts(run: Run) -> list[Path]:
    """What nodes read when they run, of every release."""
    releases = filter(None, (run.plan.candidate, run.plan.other))
    return list(dict.fromkeys(path for candidate in releases for path in candidate.artifacts()))


def _specs(run: Run) -> tuple[NodeSpec, ...]:
    return tuple(specification(run.folder, node) for node in run.manifest.nodes)
