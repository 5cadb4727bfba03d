"""Run a script and hand back what a stored run would hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from clusters.candidates.reference.core.defects import defect
from clusters.candidates.reference.script.play import Play, ScriptError, Stage
from clusters.candidates.reference.script.recorder import Recorded
from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry, PhaseEntry
from workloads.history.operation import Invocation, Phase

Script = Callable[[Play], None]

PROMISES = (
    "check-quorum",
    "pre-vote",
    "directory-identity",
    "linearizable-reads",
    "linearizable-operations",
    "node-trace",
)
EVIDENCE = ("operations", "node_events", "log_entries", "quorum_states", "lifecycle")


def run_script(
    name: str, script: Script, seed: int, defects: Iterable[str] = (), stage: Stage | None = None
) -> Recorded:
    """Let a script play out from a seed, then heal, recover, read every key at every node, and collect the disks.

    The same arguments give the same rows. Raises ScriptError when the script waited in vain, Problem for an unknown defect.
    """
    chosen = tuple(defect(each).name for each in defects)
    play = Play(stage or Stage(), seed, chosen)
    phases = [PhaseEntry(name="load", started_ns=0)]
    script(play)
    phases = _begin(play, phases, "recovery")
    play.phase = Phase.RECOVERY
    _recover(play)
    phases = _begin(play, phases, "final")
    play.phase = Phase.FINAL
    _read_everything(play)
    for machine in play.engine.machines.values():
        if machine.process is not None:
            applied = machine.process.machine
            play.engine.recorder.add(
                "state_digests",
                node=machine.name,
                directory_id=machine.disk.directory_id,
                applied_offset=applied.applied_end,
                digest=applied.digest,
            )
        play.engine.end(machine)
        play.engine.lifecycle(machine, "stop")
        play.engine.collect(machine)
    phases = _begin(play, phases, None)
    manifest = _manifest(name, seed, chosen, play, tuple(phases))
    rows = tuple(asked.row() for asked in play.asked)
    return Recorded(manifest, play.engine.recorder.tables(manifest.run_id, rows, play.faults), rows)


def _begin(play: Play, phases: list[PhaseEntry], name: str | None) -> list[PhaseEntry]:
    now_ns = play.engine.now_ns()
    last = phases[-1]
    ended = [*phases[:-1], PhaseEntry(name=last.name, started_ns=last.started_ns, ended_ns=now_ns)]
    return ended if name is None else [*ended, PhaseEntry(name=name, started_ns=now_ns)]


def _recover(play: Play) -> None:
    """Undo every fault and wait until a leader has committed in its epoch; without one the final reads will tell."""
    for hold in tuple(play.engine.network.holds):
        play.drop(hold)
    play.heal()
    for name, machine in play.engine.machines.items():
        if machine.process is None:
            play.restart(name)
        elif machine.inbox is not None:
            play.resume(name)
    try:
        play.run_until_led()
    except ScriptError:
        return
    play.run_ms(2 * play.stage.timers.fetch_timeout_ms)


def _read_everything(play: Play) -> None:
    keys = sorted({asked.invocation.key for asked in play.asked if asked.invocation.key is not None})
    wrote_log = any(asked.invocation.f == "append" for asked in play.asked)
    for node in play.nodes:
        reads = [Invocation("read", key) for key in keys]
        if wrote_log:
            reads.append(Invocation("poll", None, (0,)))
        for invocation in reads:
            play.run_until_done(play.invoke(node, invocation))


def _manifest(name: str, seed: int, defects: tuple[str, ...], play: Play, phases: tuple[PhaseEntry, ...]) -> Manifest:
    stage = play.stage
    return Manifest(
        run_id=f"script-{name}/{'-'.join(defects) or 'correct'}-{seed}",
        scenario=f"script-{name}",
        scenario_title=f"Script {name}, in virtual time",
        seed=seed,
        argv=(),
        started_at="1970-01-01T00:00:00.000000Z",
        started_monotonic_ns=0,
        tool_version="0.1.0",
        backend="virtual-time",
        candidate=CandidateEntry(
            name="reference",
            version="0.1.0",
            quorum="static",
            promises=PROMISES,
            evidence=EVIDENCE,
            generation="kip-996",
            defects=defects,
        ),
        nodes=tuple(
            NodeEntry(
                name=machine.name,
                node_id=machine.node_id,
                role=machine.role,
                address="virtual",
                port=0,
                host="virtual",
                directory_id=machine.first_directory_id,
            )
            for machine in play.engine.machines.values()
        ),
        timers=stage.timers,
        workload="register",
        rate=0.0,
        concurrency=1,
        duration_s=play.engine.now_ms / 1000,
        phases=phases,
        finished=True,
    )
