"""What the nodes send each other, captured beside each node from before its first process until after its last one.

Captures are additional evidence: where they cannot be made, or lose packets, the run goes on and says so.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from clusters.cluster import Cluster
from clusters.collect.rpcs.follow import Ending, Job, Listener, command
from nemesis.store.layout import CAPTURE, RPCS
from workloads.history.manifest import CaptureEntry
from workloads.problem import Problem

_PROGRAM = "capture"
_INTERVAL_S = 1.0
_STORED_BYTES_MAX = 1 << 30
"""of one node's capture, compressed"""
_DECODE_PATIENCE_S = 60.0
_TAKES_MAX = 10_000


@dataclass(slots=True)
class _Captured:
    """One node's capture."""

    node: str
    file: Path
    packets: int = 0
    lost: int = 0
    stored_bytes: int = 0
    problem: str = ""
    running: bool = False


class Captures:
    """The captures of one run, and the process that reads them as they grow."""

    def __init__(self, cluster: Cluster, folder: Path, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._say = say
        self._captured = [_Captured(node.name, node.directory / CAPTURE) for node in cluster.nodes]
        self._reader: subprocess.Popen[bytes] | None = None

    async def begin(self) -> None:
        """Start all; must come before the nodes' first processes."""
        await asyncio.gather(*(asyncio.to_thread(self._begin, each) for each in self._captured))
        refused = [each for each in self._captured if each.problem]
        if refused:
            self._say(
                f"node-to-node messages are not captured at {', '.join(each.node for each in refused)}: {refused[0].problem}"
            )
        if len(refused) < len(self._captured):
            await asyncio.to_thread(self._start_reader)

    async def run(self) -> None:
        """Fetch what was captured, every second, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            for each in self._captured:
                await asyncio.to_thread(self._take, each)

    async def finish(self) -> tuple[CaptureEntry, ...]:
        """Fetch the rest, after the nodes' last processes, and tell the reader; :meth:`close` waits for it."""
        await asyncio.gather(*(asyncio.to_thread(self._finish, each) for each in self._captured))
        if self._reader is not None and self._reader.stdin is not None:
            lossy = tuple(each.node for each in self._captured if each.lost or each.problem)
            with contextlib.suppress(OSError):  # a reader that has ended is met in close()
                self._reader.stdin.write(msgspec.json.encode(Ending(lossy)))
                self._reader.stdin.close()
        for each in self._captured:
            if each.lost:
                self._say(f"the capture of {each.node} lost {each.lost} packets")
        return tuple(
            CaptureEntry(node=each.node, packets=each.packets, lost=each.lost, problem=each.problem)
            for each in self._captured
        )

    def close(self) -> None:
        """Wait until all that was fetched is read, or end the reader when there was no :meth:`finish`. May be called twice."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        assert reader.stdin is not None
        with contextlib.suppress(OSError):
            reader.stdin.close()  # without a word before, it ends and leaves nothing
        try:
            reader.wait(_DECODE_PATIENCE_S)
        except subprocess.TimeoutExpired:
            reader.kill()
            reader.wait()

    def _begin(self, captured: _Captured) -> None:
        node = next(each for each in self._cluster.nodes if each.name == captured.node)
        addresses = [each.address for each in self._cluster.nodes]
        try:
            self._cluster.accompany(node.name, _PROGRAM, {"port": node.port, "addresses": addresses})
        except Problem as problem:
            captured.problem = problem.what
            return
        captured.file.parent.mkdir(parents=True, exist_ok=True)
        captured.file.touch()
        captured.running = True

    def _start_reader(self) -> None:
        nodes = self._cluster.nodes
        files = {each.node: each.file for each in self._captured}
        job = Job(
            port=nodes[0].port,
            listeners=tuple(Listener(node.name, node.address, str(files[node.name])) for node in nodes),
            target=str(self._folder / RPCS),
        )
        told: Any = command(job)
        # In a session of its own, for Ctrl-C is for the controller.
        self._reader = subprocess.Popen(
            **told, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def _take(self, captured: _Captured, *, last: bool = False) -> None:
        """Append what has come to the node's file."""
        if not captured.running:
            return
        try:
            for _ in range(_TAKES_MAX):
                answer = self._cluster.companion(captured.node, _PROGRAM, "take", last=last)
                data = base64.b64decode(answer["data"])
                captured.packets, captured.lost = answer["packets"], answer["lost"]
                if data:
                    with captured.file.open("ab") as file:
                        file.write(data)
                captured.stored_bytes += len(data)
                if captured.stored_bytes > _STORED_BYTES_MAX:
                    captured.problem = f"it was ended at {_STORED_BYTES_MAX >> 20} MiB"
                    break
                if not answer["left"]:
                    return
        except Problem as problem:
            captured.problem = problem.what
        except OSError as error:
            captured.problem = f"it cannot be stored: {error}"
        captured.running = False

    def _finish(self, captured: _Captured) -> None:
        self._take(captured, last=True)
        with contextlib.suppress(Problem):  # the end of the cluster ends it, too
            self._cluster.dismiss(captured.node, _PROGRAM)
