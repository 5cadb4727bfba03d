"""Tries a described program on one node, step by step, before a whole run: format, start, answer, lead, serve, stop, start again.

Each step ends well or says what it saw, with the last of what the program printed, and what mends it. The first that fails ends the
trial. It uses the parts that a run uses, so what works here works there.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from checker.checks.registry import CHECKS
from checker.gate import gate
from checker.tables import StoredRun
from clusters.backends.registry import find_backend
from clusters.candidates.external.candidate import ExternalCandidate
from clusters.cluster import Cluster
from nemesis import scenario
from nemesis.candidates import client_factory
from nemesis.life.begin import begin_run
from nemesis.life.last_words import last_words
from nemesis.life.nodes import Nodes
from nemesis.life.plan import RunOptions, plan_run
from nemesis.life.progress import Look
from nemesis.life.setting import connector, draw_quorum
from nemesis.machine import Finding
from nemesis.seeds import stream
from nemesis.store.evidence import specification
from workloads.clients.client import Connect
from workloads.history.operation import Completion, Invocation, Phase
from workloads.interpreter import SETUP_PROCESSES, run_to_end
from workloads.problem import Problem
from workloads.quorum_sampler import QuorumSampler
from workloads.recorder import Recorder
from workloads.session import Access

NODE = "n1"
_POLL_S = 0.05
_STOP_PATIENCE_S = 5.0
_EXIT_TELLS_S = 0.3
"""how long a node is watched after it was asked, so that one that ends at once is told as such"""


def try_candidate(options: RunOptions, say: Callable[[Finding], None]) -> bool:
    """Try the program that ``options.candidate`` names and say what came of each step; True when all went well."""
    folder = Path(tempfile.mkdtemp(prefix="nemesis-trial-"))
    well = False
    try:
        trial = _Trial(options, folder, say)
        try:
            well = asyncio.run(trial.all_steps())
        finally:
            trial.end()
    finally:
        if well or not list(folder.glob("*/*/nodes/*/*")):
            shutil.rmtree(folder)
        else:
            say(Finding("files", True, f"what was written and printed is kept in {folder}"))
    return well


class _Quiet:
    """A progress that nobody sees."""

    def phase(self, name: str, text: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def watch(self, look: Callable[[], Look] | None) -> None:
        pass


class _Answers:
    """Keeps how operations ended."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def invoked(
        self, op_id: int, process: int, node: str | None, pinned: bool, invocation: Invocation, **_: Any
    ) -> None:
        pass

    def completed(self, op_id: int, completion: Completion, at_ns: int) -> None:
        del op_id, at_ns
        self.seen[completion.error or completion.status.value] += 1


class _Trial:
    def __init__(self, options: RunOptions, store: Path, say: Callable[[Finding], None]) -> None:
        chosen = RunOptions(
            scenario=replace(scenario.load("none"), nodes=1),
            argv=("doctor",),
            seed=options.seed,
            store=store,
            candidate=options.candidate,
            nodes=1,
            timers=options.timers,
            cluster=options.cluster,
            place=options.place,
        )
        self._plan = plan_run(chosen)
        if not isinstance(self._plan.candidate, ExternalCandidate):
            raise Problem(
                "candidate-not-described",
                f"{options.candidate} is part of the project; only described programs are tried.",
                "Name a file: --candidate FILE.toml.",
                usage=True,
            )
        self._candidate = self._plan.candidate
        self._described = self._candidate.description
        self._say = say
        self._run = begin_run(self._plan, _Quiet())
        self._began_ns = time.monotonic_ns()
        self._cluster: Cluster | None = None
        self._started_ns = 0
        self._rows: list[Mapping[str, Any]] = []

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._began_ns

    def end(self) -> None:
        if self._cluster is not None:
            self._cluster.down()

    async def all_steps(self) -> bool:
        described = self._described
        self._say(
            Finding(
                "description",
                True,
                f"{described.name} {described.version}, {described.quorum} quorum; clients speak the protocol of "
                f"{described.protocol} and do {', '.join(described.workloads)}; promised: {', '.join(described.promises) or 'nothing'}",
            )
        )
        return (
            await self._step("install", self._install)
            and await self._step("place", self._make_place)
            and await self._step("format", self._format)
            and await self._with_sampler()
        )

    async def _step(self, name: str, act: Callable[[], Awaitable[str]], *, needed: bool = True) -> bool:
        began = time.monotonic()
        try:
            told = await act()
        except Problem as problem:
            self._say(Finding(name, False, problem.what, problem.remedy, needed=needed))
            return not needed
        self._say(Finding(name, True, f"{told} ({time.monotonic() - began:.1f} s)"))
        return True

    async def _install(self) -> str:
        entry = await asyncio.to_thread(self._candidate.install, lambda _: None)
        self._run.manifest = msgspec.structs.replace(self._run.manifest, candidate=entry)
        artifacts = [str(path) for path in self._candidate.artifacts()]
        return f"{len(entry.provenance) - 1} files in {', '.join(artifacts)}" if artifacts else "there are no artifacts"

    async def _make_place(self) -> str:
        options, manifest = self._plan.options, self._run.manifest
        backend = find_backend(options.cluster)
        specs = tuple(specification(self._run.folder, node) for node in manifest.nodes)
        self._cluster = backend.make(specs, options.place)
        await asyncio.to_thread(self._cluster.up)
        await asyncio.to_thread(self._cluster.install, self._candidate.artifacts())
        self._nodes = Nodes(
            cluster=self._cluster,
            candidate=self._candidate,
            quorum=draw_quorum(self._cluster, self._plan.kind, manifest.timers, manifest.seed),
            record=lambda *_: None,
            now_ns=self.now_ns,
        )
        self._at = self._cluster.nodes[0]
        return f"--cluster {options.cluster}: {NODE} is at {self._at.address}:{self._at.port}"

    async def _format(self) -> str:
        await asyncio.to_thread(self._nodes.format, NODE, first=True)
        files = ", ".join(_files_of(self._at.data)) or "nothing yet"
        held = f"the disk holds {files}" if self._at.data.is_dir() else "the disk is on the machine"
        directory_id, assigned = self._nodes.identities()[NODE]
        whose = "given by the framework, since the program has none" if assigned else "as described"
        return f"{held}; directory id {directory_id}, {whose}"

    @property
    def _live(self) -> Cluster:
        if self._cluster is None:
            raise RuntimeError("the place is made before anything happens in it")
        return self._cluster

    async def _with_sampler(self) -> bool:
        connect = connector(self._live)
        self._sampler = QuorumSampler(connect, (NODE,), self.now_ns, self._rows.append)
        asking = asyncio.create_task(self._sampler.run())
        try:
            return await self._while_asked(connect)
        finally:
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking

    async def _while_asked(self, connect: Connect) -> bool:
        steps: list[tuple[str, Callable[[], Awaitable[str]]]] = [("start", self._start)]
        if (
            self._described.probe.ready_line and self._plan.options.cluster != "ssh"
        ):  # a machine's output comes at the end
            steps.append(("ready", self._ready))
        steps += [
            ("port", lambda: self._port(connect)),
            ("answer", self._answer),
            ("leader", self._leader),
            ("operations", lambda: self._operations(connect)),
        ]
        for name, act in steps:
            if not await self._step(name, act):
                return False
        stopped = await self._step("stop", self._stop, needed=False)
        again = stopped and await self._step("start again", self._start_again)
        return again and await self._step("evidence", self._evidence) and await self._step("disk", self._whole_disk)

    # Steps that wait for the node

    async def _start(self) -> str:
        self._started_ns = self.now_ns()
        await asyncio.to_thread(self._nodes.start, NODE)
        await asyncio.sleep(_EXIT_TELLS_S)
        await self._expect_alive()
        return f"it runs, as incarnation {self._nodes.incarnation(NODE)}"

    async def _wait(self, what: Callable[[], Awaitable[bool]], why: Callable[[], str], remedy: str, slug: str) -> None:
        """Wait until ``what`` holds; a node that ends meanwhile is told with its last words."""
        patience_s = self._described.probe.patience_s
        until_ns = self._started_ns + int(patience_s * 1e9)
        while not await what():
            await self._expect_alive()
            if self.now_ns() > until_ns:
                raise Problem(slug, f"{why()}, {patience_s:g} s after its start.{await self._last_words()}", remedy)
            await asyncio.sleep(_POLL_S)

    async def _expect_alive(self) -> None:
        if await asyncio.to_thread(self._live.alive, NODE):
            return
        await asyncio.to_thread(self._nodes.note_crash, NODE)
        status = await asyncio.to_thread(self._live.exit_status, NODE)
        after_s = (self.now_ns() - self._started_ns) / 1e9
        raise Problem(
            "node-ended",
            f"It ended by itself {after_s:.1f} s after its start, with exit status {status}. The last of what it printed:"
            f"{last_words(self._at.directory)}",
            f"A [start] command stays in the foreground until it is stopped; it was: {' '.join(self._described.start)}",
        )

    async def _last_words(self) -> str:
        await asyncio.to_thread(self._nodes.kill, NODE)
        return f" The last of what it printed:{last_words(self._at.directory)}"

    async def _ready(self) -> str:
        pattern = re.compile(self._described.probe.ready_line, re.MULTILINE)
        output = self._at.directory / "output" / "1.log"

        async def said() -> bool:
            return output.is_file() and pattern.search(output.read_text(encoding="utf-8", errors="replace")) is not None

        await self._wait(
            said,
            lambda: f"No line matched ready_line = {self._described.probe.ready_line!r}",
            "Mend [probe] ready_line, or raise its patience_s.",
            "not-ready",
        )
        return "it says that it is ready"

    async def _port(self, connect: Connect) -> str:
        async def opened() -> bool:
            try:
                found = await asyncio.wait_for(connect(NODE), 1.0)
            except (OSError, TimeoutError):
                return False
            found.close()
            return True

        await self._wait(
            opened,
            lambda: f"Nobody listens at {self._at.address}:{self._at.port}",
            "A node must listen at {{address}}:{{port}}, not at localhost or at an address and port of its own.",
            "nobody-listens",
        )
        return f"it listens at {self._at.address}:{self._at.port}"

    async def _answer(self) -> str:
        async def answered() -> bool:
            return (self._sampler.last_answer_ns(NODE) or -1) > self._started_ns

        def why() -> str:
            said = self._rows[-1].get("error") if self._rows else None
            return f"It accepts connections, and did not answer ApiVersions and DescribeQuorum ({said or 'no answer'})"

        await self._wait(
            answered,
            why,
            "Nodes are asked ApiVersions (version 0), then DescribeQuorum (version 1 or 2) of __cluster_metadata, partition 0.",
            "no-answer",
        )
        return "it answers ApiVersions and DescribeQuorum"

    async def _leader(self) -> str:
        async def led() -> bool:
            known = self._sampler.current_leader()
            return known is not None and self._rows[-1]["asked_ns"] > self._started_ns

        def why() -> str:
            row = self._rows[-1]
            said = (
                row.get("error") or f"leader {row.get('leader')}, epoch {row.get('epoch')}, voters {row.get('voters')}"
            )
            return f"It does not lead a quorum of which it is the only voter; it answers: {said}"

        await self._wait(
            led,
            why,
            "Does it know that it is a voter ({{voters}}, {{initial_controllers}}, a list of yours), and under {{directory_id}}?",
            "no-leader",
        )
        row = self._rows[-1]
        return f"it leads in epoch {row['epoch']}, and names the voters {', '.join(row['voters'] or ()) or '(none)'}"

    async def _operations(self, connect: Connect) -> str:
        told = []
        for name in self._described.workloads:
            told.append(await self._operate(connect, name))
        return "; ".join(told)

    async def _operate(self, connect: Connect, name: str) -> str:
        from workloads.registry import workload

        work = workload(name)
        options = dict(work.candidate_options.get(self._described.protocol, {}))
        plan = work.make_plan(stream(self._plan.options.seed, "workload", name), options)
        quorum = draw_quorum(self._live, self._plan.kind, self._run.manifest.timers, self._run.manifest.seed)
        access = Access(connect, (NODE,), client_factory(self._described.protocol, name, quorum.cluster_id))
        answers = _Answers()
        recorder = Recorder(answers, self.now_ns)
        done = await run_to_end(
            access,
            {NODE: plan.setup},
            recorder,
            pinned=False,
            phase=Phase.LOAD,
            first_process=SETUP_PROCESSES,
            timeout_s=work.pace[self._described.protocol].timeout_s,
            limit_s=self._described.probe.patience_s / 2,
        )
        final = done[NODE] and await run_to_end(
            access,
            {NODE: plan.final(NODE)},
            recorder,
            pinned=True,
            phase=Phase.FINAL,
            first_process=SETUP_PROCESSES + 1,
            timeout_s=work.pace[self._described.protocol].timeout_s,
            limit_s=self._described.probe.patience_s / 2,
        )
        seen = ", ".join(f"{count} {how}" for how, count in answers.seen.most_common(4))
        if not final or not final[NODE]:
            raise Problem(
                "operations-failed",
                f"The first operations of the workload {name} did not succeed: {seen or 'none was answered'}.{await self._last_words()}",
                "Which requests they are: CANDIDATES.md, 'What clients ask'. A workload that the program cannot serve "
                "is left out of [clients] workloads.",
            )
        return f"{name}: {seen}"

    async def _stop(self) -> str:
        patience_s = self._described.stop_patience_s
        patience_s = _STOP_PATIENCE_S if patience_s is None else patience_s
        if not await asyncio.to_thread(self._nodes.stop, NODE, patience_s):
            raise Problem(
                "not-stopped",
                f"It did not end within {patience_s:g} s of {signal.Signals(self._described.stop_signal).name} and was killed."
                f" The last of what it printed:{last_words(self._at.directory)}",
                "Name the signal that ends it in [stop] signal, or raise its patience_s. Faults that stop nodes kill them otherwise.",
            )
        status = await asyncio.to_thread(self._live.exit_status, NODE)
        return f"{signal.Signals(self._described.stop_signal).name} ends it, with exit status {status}"

    async def _start_again(self) -> str:
        await self._start()
        await self._answer()
        told = await self._leader()
        await asyncio.to_thread(self._nodes.finish)
        return f"on the same disk {told}"

    # What it leaves behind

    async def _evidence(self) -> str:
        manifest = self._run.manifest
        rows: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        problems: list[str] = []
        for name, table in await asyncio.to_thread(lambda: list(self._candidate.evidence(manifest, self._run.folder))):
            rows[name] += table.num_rows
            if name == "node_events":
                kinds.update(table.column("kind").to_pylist())
            wrong = "detail" if name == "node_events" else "problem"
            problems += [
                row[wrong]
                for row in (table.to_pylist() if wrong in table.column_names else ())
                if row[wrong] and (name != "node_events" or row["kind"] == "problem")
            ]
        if problems:
            raise Problem(
                "evidence-not-understood",
                f"What it left is not understood: {problems[0]}",
                "A run of it would be unknown. Mend [evidence] or [disk], or leave out what is not Kafka's format.",
            )
        own = [name for name in self._described.evidence if name not in ("quorum_samples", "lifecycle")]
        if empty := [name for name in own if not rows[name]]:
            kept = ", ".join(self._candidate.keep()) or "nothing"
            held = ", ".join(_files_of(self._at.data)) or "nothing"
            raise Problem(
                "evidence-empty",
                f"It left nothing for {', '.join(empty)}. Kept of its disk: {kept}; it holds {held}.",
                "Mend [disk] and [evidence]; what the program does not leave behind is left out of them, and is not checked then.",
            )
        told = [f"{name}: {rows[name]} rows" for name in own]
        if kinds:
            told.append("events: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
        return "; ".join([*told, self._checks(rows)])

    def _checks(self, rows: Mapping[str, int]) -> str:
        """How many checks a run of it can be judged by, and which not, and why."""
        always = {"operations": 1, "faults": 0, "lifecycle": 1, "quorum_samples": 1, "rpcs": 1}
        stored = StoredRun(self._run.folder, self._run.manifest, {**always, **rows})
        gates = {check.name: gate(check, stored) for check in CHECKS}
        unmade = [
            f"{name} ({each.reason.partition(' does not ')[2] or 'no evidence'})"
            for name, each in gates.items()
            if not each.applies
        ]
        told = f"{len(CHECKS) - len(unmade)} of {len(CHECKS)} checks can be made"
        return told + (f", not: {', '.join(unmade)}" if unmade else "")

    async def _whole_disk(self) -> str:
        if not self._at.data.is_dir():
            return "the files are on the machine, and were not looked at"
        files = _files_of(self._at.data)
        everything = self._described.layout.everything
        missed = [name for name in files if not any(_matches(name, pattern) for pattern in everything)]
        if missed:
            raise Problem(
                "disk-not-covered",
                f"The disk holds files that no pattern of [disk] everything ({', '.join(everything)}) matches: {', '.join(missed[:8])}.",
                "Add patterns, one directory level a part: log/*, log/*/*. Faults that copy disks would leave these files out.",
            )
        return f"all {len(files)} files of the disk are matched by [disk] everything"


def _files_of(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(fnmatch.fnmatchcase(*pair) for pair in zip(parts, wanted, strict=True))
