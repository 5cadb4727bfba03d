"""The nodes of one run: their incarnations, identities and disks, and the copies of evidence taken at every end of a process.

Files that hold a node's promises (``quorum-state``, ``meta.properties``, checkpoints, logs) are copied at each kill, stop and wipe
*before* the restart: a vote that was forgotten can be seen only so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clusters.backends.shim.preload import Shim, with_shims
from clusters.candidates.candidate import Candidate, DiskFiles, Quorum
from clusters.cluster import Cluster, NodeSpec
from clusters.collect.collection import Collection
from clusters.disks import Disks, PowerCut, no_such_disks
from nemesis.life.last_words import last_line
from nemesis.life.releases import FIRST, OTHER, older
from nemesis.store.evidence import write_collection
from workloads.problem import Problem

Record = Callable[[str, Mapping[str, Any]], None]
"""Writes one row of a table into the journal."""

_KILL_WAIT_S = 5.0


@dataclass(slots=True)
class _Life:
    incarnation: int = 0
    directory_id: str | None = None
    assigned: bool = False
    running: bool = False
    paused: bool = False
    blank: bool = True
    """no process has run on this disk since it was formatted"""
    release: str = FIRST
    wipes: int = 0
    replaced: int = 0
    """how often another disk was put in place of the node's"""
    taken_out: tuple[str | None, bool, str] | None = None
    """directory id, assigned, and the name beside ``data`` of a disk that shall come back"""
    collections: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)


class Nodes:
    """Starts, ends and wipes nodes, and keeps the table ``lifecycle``. Methods block; call them from a worker thread."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        candidate: Candidate,
        quorum: Quorum,
        record: Record,
        now_ns: Callable[[], int],
        shims: Sequence[Shim] = (),
        other: Candidate | None = None,
    ) -> None:
        """``other``: the candidate in another release, under which nodes can be started (:meth:`move`)."""
        self._cluster = cluster
        self._first = candidate
        self._other = other
        self._formatter = older(candidate, other)
        self._quorum = quorum
        self._record = record
        self._now_ns = now_ns
        self._shims = tuple(shims)
        self._specs = {node.name: node for node in quorum.nodes}
        self._lives = {node.name: _Life() for node in quorum.nodes}

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes, in order of node id."""
        return tuple(self._specs)

    @property
    def voters(self) -> tuple[str, ...]:
        """The initial voters."""
        return tuple(node.name for node in self._quorum.voters)

    @property
    def observers(self) -> tuple[str, ...]:
        """The nodes that were set up as observers."""
        return tuple(name for name in self._specs if name not in self.voters)

    def incarnation(self, name: str) -> int:
        """How often the node has been started."""
        return self._lives[name].incarnation

    def identities(self) -> dict[str, tuple[str | None, bool]]:
        """Node → (directory id, assigned)."""
        return {name: (life.directory_id, life.assigned) for name, life in self._lives.items()}

    def specification(self, name: str) -> NodeSpec:
        """Where a node is."""
        return self._specs[name]

    def down(self) -> tuple[str, ...]:
        """Nodes that the framework ended and has not started again."""
        return tuple(name for name, life in self._lives.items() if not life.running)

    def format(self, name: str, *, first: bool) -> None:
        """Format the node's empty disk."""
        spec, life = self._specs[name], self._lives[name]
        spec.data.mkdir(parents=True, exist_ok=True)
        disk = self._formatter.format(self._quorum, spec, first=first)
        self._cluster.place(name)
        life.directory_id, life.assigned, life.blank = disk.directory_id, disk.assigned, True
        self._event(name, "format")

    def start(self, name: str) -> None:
        """Start the node's next incarnation."""
        spec, life = self._specs[name], self._lives[name]
        with life.lock:
            life.incarnation += 1
            (spec.directory / "output").mkdir(exist_ok=True)
            formatted = {name: life.directory_id} if life.directory_id else {}
            launch = self._of(name).launch(replace(self._quorum, formatted=formatted), spec, life.incarnation)
            launch = with_shims(launch, self._shims, spec, life.incarnation, self._quorum.site)
            self._event(name, "start", detail=f"release {self.version(name)}" if self._other is not None else None)
            self._cluster.start(name, launch)
            life.running, life.paused, life.blank = True, False, False

    def kill(self, name: str, reason: str = "kill") -> bool:
        """End the node's process with kill -9 and copy its evidence; False when it had ended by itself before."""
        life = self._lives[name]
        with life.lock:
            was_alive = self._cluster.alive(name)
            if was_alive:
                self._cluster.signal(name, signal.SIGKILL)
            self._ended(name, reason if was_alive else "crash")
        return was_alive

    def stop(self, name: str, patience_s: float) -> bool:
        """Ask the node's process to end, and after the candidate's own patience, else ``patience_s``, kill it; False when it had to be."""
        life = self._lives[name]
        with life.lock:
            if not self._cluster.alive(name):
                self._ended(name, "crash")
                return False
            traits = self._of(name).traits
            self._cluster.signal(name, traits.stop_signal)
            own_s = traits.stop_patience_s
            graceful = self._cluster.wait_exit(name, patience_s if own_s is None else own_s)
            if not graceful:
                self._cluster.signal(name, signal.SIGKILL)
            self._ended(name, "stop" if graceful else "kill")
        return graceful

    def pause(self, name: str) -> None:
        """Stop the node's process with SIGSTOP."""
        life = self._lives[name]
        with life.lock:
            self._cluster.signal(name, signal.SIGSTOP)
            life.paused = True
            self._event(name, "pause")

    def resume(self, name: str) -> None:
        """Let a paused node go on."""
        life = self._lives[name]
        with life.lock:
            if life.paused:
                self._event(name, "resume")
                self._cluster.signal(name, signal.SIGCONT)
                life.paused = False

    def wipe(self, name: str) -> tuple[str | None, str | None]:
        """Move the ended node's disk aside and format an empty one; returns its directory ids (old, new)."""
        life = self._lives[name]
        with life.lock:
            old = life.directory_id
            self._cluster.wipe(name, f"data.wiped-{life.wipes}")
            life.wipes += 1
            self._event(name, "wipe", detail=f"old directory id {old}")
            self.format(name, first=False)
            return old, life.directory_id

    @property
    def disk_files(self) -> DiskFiles:
        """Where things lie on a node's disk."""
        return self._first.traits.disk

    def copy_disk(self, name: str, target: Path) -> None:
        """Copy all files of the disk of a node that is down into the new directory ``target``."""
        with self._lives[name].lock:
            target.mkdir(parents=True)
            self._cluster.fetch(name, self.disk_files.everything, target)

    def put_disk(self, name: str, copy: Path, kind: str, detail: str) -> None:
        """Move the disk of a node that is down aside, and make ``copy``, which is gone then, its disk: same identity, other content.

        ``kind`` says why, in the table ``lifecycle``: ``damage`` or ``restore``.
        """
        spec, life = self._specs[name], self._lives[name]
        with life.lock:
            self._cluster.wipe(name, f"data.aside-{life.replaced}")
            life.replaced += 1
            copy.rename(spec.data)
            self._cluster.place(name)
            self._event(name, kind, detail)

    def cut_power(self, name: str, torn: float | None) -> PowerCut:
        """Take the power from the disk of a node that is down, see :class:`clusters.disks.Disks`; what is left is evidence."""
        life = self._lives[name]
        with life.lock:
            if not isinstance(self._cluster, Disks):
                raise no_such_disks()
            cut = self._cluster.cut_power(name, torn)
            self._event(name, "power-cut", detail=f"lost: {dict(cut.lost)}, torn: {dict(cut.torn)}")
            self._collect(name, "power-cut", final=False)
            return cut

    def swap_disk(self, name: str) -> tuple[str | None, str | None]:
        """Take the disk of a node that is down out and give it an empty, formatted one; returns the directory ids (old, new)."""
        life = self._lives[name]
        with life.lock:
            life.taken_out = (life.directory_id, life.assigned, f"data.taken-out-{life.replaced}")
            life.replaced += 1
            self._cluster.wipe(name, life.taken_out[2])
            self._event(name, "swap", detail=f"directory id {life.directory_id} is taken out")
            self.format(name, first=False)
            return life.taken_out[0], life.directory_id

    def swap_back(self, name: str) -> None:
        """Give a node that is down the disk back that was taken out; the one that it had meanwhile is gone for good."""
        life = self._lives[name]
        with life.lock:
            if life.taken_out is None:
                return
            self._cluster.wipe(name, f"data.wiped-{life.wipes}")
            life.wipes += 1
            self._event(name, "wipe", detail=f"directory id {life.directory_id} was in use while another disk was out")
            life.directory_id, life.assigned, aside = life.taken_out
            life.taken_out, life.blank = None, False
            self._cluster.put_back(name, aside)
            self._event(name, "swap", detail=f"directory id {life.directory_id} is back")

    def release(self, name: str) -> str:
        """Under which release the node is started, :data:`nemesis.life.releases.FIRST` or ``OTHER``."""
        return self._lives[name].release

    def version(self, name: str) -> str:
        """The release under which the node is started, for people."""
        return self._of(name).version

    def move(self, name: str, release: str) -> None:
        """Start the node under this release from its next start on. Raises Problem where the run has one release only."""
        if release == OTHER and self._other is None:
            raise Problem("release-missing", "This run has one release only.", "Add --to-version.", usage=True)
        self._lives[name].release = release

    def _of(self, name: str) -> Candidate:
        return self._first if self._other is None or self._lives[name].release == FIRST else self._other

    def folder(self, name: str) -> Path:
        """Where the run keeps what belongs to a node."""
        return self._specs[name].directory

    def crashed(self) -> tuple[str, ...]:
        """Nodes whose process ended though nobody ended it."""
        return tuple(name for name, life in self._lives.items() if life.running and not self._cluster.alive(name))

    def note_crash(self, name: str) -> bool:
        """Record that a node ended by itself, with its exit status, and copy its evidence; False when it was ended, or runs."""
        life = self._lives[name]
        with life.lock:
            crashed = life.running and not self._cluster.alive(name)
            if crashed:
                self._ended(name, "crash")
            return crashed

    def clock_changed(self, name: str, steady: bool, back_ns: int) -> None:
        """Record that the node's wall clock goes differently from here on, and was set back by ``back_ns``, if that is positive."""
        self._event(name, "clock", f"{'steady' if steady else 'unsteady'}, set back {max(0, back_ns) / 1e9:.3f} s")

    def deprive(self, name: str, detail: str) -> None:
        """Record that a fault is about to withhold what the node's process needs: its disk, its memory. It may end of that."""
        self._event(name, "deprive", detail)

    def starved(self, name: str, share: float, interval_ns: int) -> None:
        """Record that the node was runnable and not run for ``share`` of the last ``interval_ns``."""
        self._event(name, "starved", detail=f"{share:.2f} of {interval_ns} ns")

    def finish(self) -> None:
        """End every node that still runs and take the final copies."""
        for name, life in self._lives.items():
            if life.running and self._cluster.alive(name):
                self._cluster.signal(name, signal.SIGKILL)
        for name, life in self._lives.items():
            with life.lock:
                if life.running:
                    self._ended(name, "end", final=True)
                else:
                    self._collect(name, "end", final=True)

    def _ended(self, name: str, reason: str, *, final: bool = False) -> None:
        if not self._cluster.wait_exit(name, _KILL_WAIT_S):
            raise Problem(
                "node-survives",
                f"Node {name} does not end {_KILL_WAIT_S:.0f} s after kill -9.",
                "`nemesis clean` shows what is left.",
            )
        life = self._lives[name]
        life.running = life.paused = False
        status = self._cluster.exit_status(name)
        ended_ns = self._now_ns()
        self._collect(name, reason, final=final)
        said = last_line(self._specs[name].directory) if reason == "crash" else ""
        told = f"exit status {status}" + (f"; the last that it said: {said}" if said else "")
        self._event(name, "stop" if reason == "end" else reason, told, ts_ns=ended_ns)

    def _collect(self, name: str, reason: str, *, final: bool) -> None:
        life = self._lives[name]
        collection = Collection(
            node=name,
            directory_id=life.directory_id,
            assigned=life.assigned,
            incarnation=life.incarnation + life.blank,
            number=life.collections,
            ts_ns=self._now_ns(),
            final=final,
            reason=reason,
        )
        patterns = self._of(name).keep()
        write_collection(self._specs[name], collection, lambda target: self._cluster.fetch(name, patterns, target))
        life.collections += 1

    def _event(self, name: str, kind: str, detail: str | None = None, *, ts_ns: int | None = None) -> None:
        life = self._lives[name]
        self._record(
            "lifecycle",
            {
                "node": name,
                "directory_id": life.directory_id,
                "assigned": life.assigned,
                "incarnation": life.incarnation,
                "kind": kind,
                "ts_ns": self._now_ns() if ts_ns is None else ts_ns,
                "detail": detail,
            },
        )
