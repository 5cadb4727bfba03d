"""Run a script and hand back what a stored run holds, read from the nodes' own files as a real run's are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from clusters.candidates.reference.candidate import EVIDENCE, PROMISES, VERSION, ReferenceCandidate
from clusters.candidates.reference.core.defects import defect
from clusters.candidates.reference.script.play import Play, ScriptError, Stage
from clusters.candidates.reference.script.recorder import Recorded
from workloads.history.manifest import CandidateEntry, Manifest, NodeEntry, PhaseEntry
from workloads.history.operation import Invocation, Phase

Script = Callable[[Play], None]


def run_script(
    name: str,
    script: Script,
    *,
    seed: int,
    defects: Iterable[str] = (),
    stage: Stage | None = None,
    run: Path | None = None,
) -> Recorded:
    """Let a script play out from a seed, then heal, recover, read every key at every node, and collect the disks.

    The same arguments give the same rows. ``run`` is where the run's folder is laid down (``run.json``, nodes' files, tables: a
    stored run as any other), nowhere when it is None. Raises ScriptError when the script waited in vain, Problem for an unknown defect.
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
    _end(play)
    phases = _begin(play, phases, None)
    manifest = _manifest(name, seed, chosen, play, tuple(phases))
    if run is not None:
        return _recorded(play, manifest, run)
    with TemporaryDirectory(prefix="nemesis-script-") as folder:
        return _recorded(play, manifest, Path(folder))


def _recorded(play: Play, manifest: Manifest, run: Path) -> Recorded:
    recorder = play.engine.recorder
    recorder.write_run(run, manifest)
    operations = tuple(asked.row() for asked in play.asked)
    tables = recorder.tables(manifest.run_id, operations, play.faults.rows)
    parts: dict[str, list[pa.Table]] = {}
    for table, rows in ReferenceCandidate(manifest.candidate.defects).evidence(manifest, run):
        parts.setdefault(table, []).append(rows)
    tables |= {table: pa.concat_tables(rows) for table, rows in parts.items()}
    (run / "tables").mkdir(exist_ok=True)
    for table, rows in tables.items():
        pq.write_table(rows, run / "tables" / f"{table}.parquet")
    return Recorded(manifest, tables, operations)


def _begin(play: Play, phases: list[PhaseEntry], name: str | None) -> list[PhaseEntry]:
    now_ns = play.engine.time.now_ns()
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
        play.resume(name)
    try:
        play.run_until_led()
    except ScriptError:
        return
    play.run_ms(2 * play.stage.timers.fetch_timeout_ms)


def _read_everything(play: Play) -> None:
    keys = sorted({asked.invocation.key for asked in play.asked if asked.invocation.key is not None})
    reads = [Invocation("read", key) for key in keys]
    if any(asked.invocation.f == "append" for asked in play.asked):
        reads.append(Invocation("poll", None, (0,)))
    for node in play.nodes:
        for invocation in reads:
            play.run_until_done(play.invoke(node, invocation))


def _end(play: Play) -> None:
    """Stop every node and collect its disk, with what its state machine holds."""
    for name, machine in play.engine.machines.items():
        if machine.process is not None:
            applied = play.node(name).machine
            play.engine.recorder.add(
                "state_digests",
                node=name,
                directory_id=machine.directory_id,
                applied_offset=applied.applied_end,
                digest=applied.digest,
            )
        play.engine.end(machine)
        play.engine.lifecycle(machine, "stop")
        play.engine.collect(machine, "end", final=True)


def _manifest(name: str, seed: int, defects: tuple[str, ...], play: Play, phases: tuple[PhaseEntry, ...]) -> Manifest:
    candidate = CandidateEntry(
        name="reference",
        version=VERSION,
        quorum="dynamic",
        promises=PROMISES,
        evidence=EVIDENCE,
        generation="kip-996",
        defects=defects,
    )
    machines = play.engine.machines.values()
    first = {each.name: each.directory_id for machine in machines for each in machine.config.nodes}
    return Manifest(
        run_id=f"script-{name}/{'-'.join(defects) or 'correct'}-{seed}",
        scenario=f"script-{name}",
        scenario_title=f"Script {name}, in virtual time",
        seed=seed,
        argv=(),
        started_at="1970-01-01T00:00:00.000000Z",
        started_monotonic_ns=0,
        tool_version=VERSION,
        backend="virtual-time",
        candidate=candidate,
        nodes=tuple(
            NodeEntry(
                name=machine.name,
                node_id=machine.config.node_id,
                role=machine.role,
                address=machine.name,
                port=9093,
                host="virtual-time",
                directory_id=first[machine.name],
            )
            for machine in machines
        ),
        timers=play.stage.timers,
        workload="register",
        rate=0.0,
        concurrency=1,
        duration_s=play.engine.time.now_ms / 1000,
        phases=phases,
        finished=True,
    )
