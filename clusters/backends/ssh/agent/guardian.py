"""The guardian: the process that sshd started. It makes the worker, watches over the lease, and removes the rules when the worker is gone.

The worker ends when the controller says so, when its end of the connection is closed (the controller died), when it dies, and
when the guardian has not been told of the controller for the length of the lease (the connection is cut). In each case the kernel
kills all that is in the worker's process namespace, hence the node, before the rules go.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from clusters.backends.companions import shaper
from clusters.backends.local.namespaces import CLONE_NEWNS, CLONE_NEWPID, die_with_parent, mount_proc, unshare
from clusters.backends.ssh.agent.cache import Cache
from clusters.backends.ssh.agent.files import Files
from clusters.backends.ssh.agent.frames import encode
from clusters.backends.ssh.agent.links import Links, LinksError, find_links
from clusters.backends.ssh.agent.probes import AddressError, Probes
from clusters.backends.ssh.agent.processes import Processes
from clusters.backends.ssh.agent.shelf import Shelf
from clusters.backends.ssh.agent.worker import BEAT, REMOVE, Worker

CLEAN, RULES_STAY = 0, 3
"""exit statuses: nothing is left; a rule could not be removed"""
LOCK, RUNS, CACHE, RECORD = "lock", "runs", "cache", "agent.json"

_REMOVE_TRIES = 5
_MS_REC, _MS_PRIVATE = 0x4000, 0x4_0000


@dataclass(frozen=True)
class Options:
    """What the controller asks for."""

    lab: str
    data: str
    address: str
    port: int
    lease_s: float
    busy_patience_s: float
    uid: int
    gid: int

    @property
    def root(self) -> str:
        """The run's directory on this machine."""
        return os.path.join(self.data, RUNS, self.lab)


class Busy(Exception):
    """Another run has this machine."""


def serve(options: Options) -> int:
    """Serve one run; returns the exit status. Refusals are told to the controller as its first message."""
    try:
        lock = take_lock(options.data, options.busy_patience_s)
    except Busy as busy:
        return _refuse("machine-busy", str(busy))
    try:
        links = _prepare(options, lock)
        alive, worker = _fork_worker(options, links)
    except (LinksError, OSError) as error:
        shutil.rmtree(options.root, ignore_errors=True)
        return _refuse("links-not-available" if isinstance(error, LinksError) else "machine-refuses", str(error))
    for descriptor in (0, 1):  # the worker alone holds the connection: it is closed when the worker ends
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(worker, signal.SIGKILL))
    remove = _watch(alive, options.lease_s)
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    if not remove_rules(links) or not remove_routing():
        return RULES_STAY
    if remove:
        shutil.rmtree(options.root, ignore_errors=True)
    return CLEAN


def take_lock(data: str, patience_s: float) -> int:
    """The lock on this machine, held as long as the descriptor is open. Raises Busy, which says who holds it."""
    lock = os.open(os.path.join(data, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            holder = os.pread(lock, 4096, 0).decode(errors="replace")
            os.close(lock)
            raise Busy(holder) from None
        return lock


def holder(data: str) -> dict[str, Any] | None:
    """Who holds the lock, as :func:`serve` wrote it; None when nobody does."""
    try:
        os.close(take_lock(data, 0.0))
    except FileNotFoundError:
        return None
    except Busy as busy:
        try:
            told = json.loads(str(busy))
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}
    return None


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its number, its identity. None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _prepare(options: Options, lock: int) -> Links:
    """Write down who is here before anything is made, then find out how links are cut."""
    os.makedirs(options.root, exist_ok=True)
    os.chown(options.root, options.uid, options.gid)
    told = {"lab": options.lab, "pid": os.getpid(), "ticks": started_ticks(os.getpid()), "address": options.address}
    text = json.dumps(told)
    with open(os.path.join(options.root, RECORD), "w", encoding="utf-8") as record:
        record.write(text)
    os.ftruncate(lock, 0)
    os.pwrite(lock, text.encode(), 0)
    return find_links(options.lab, options.address)


def _fork_worker(options: Options, links: Links) -> tuple[int, int]:
    """The worker as process 1 of a new process namespace: (the end of its pipe, its number)."""
    alive, heart = os.pipe()
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    unshare(CLONE_NEWPID)
    worker = os.fork()
    if worker == 0:
        os.close(alive)
        _live(options, links, heart)
    os.close(heart)
    # From here on children are in this process's own namespace again, which does not end with the worker.
    _enter(ours, CLONE_NEWPID)
    os.close(ours)
    return alive, worker


def _live(options: Options, links: Links, heart: int) -> NoReturn:
    status = 1
    try:
        die_with_parent()
        os.write(heart, BEAT)  # fails when the guardian had died before its death could be watched
        worker = _set_up(options, links, heart)
        if worker is not None:
            worker.run()  # a controller that is gone is an OSError: its run's files are evidence and stay
            status = 0
    except BaseException as error:  # process 1 ends here, whatever it is, and says why
        say(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _set_up(options: Options, links: Links, heart: int) -> Worker | None:
    """The worker; None when the machine refuses something that it needs, which is told, and then nothing of the run stays."""
    try:
        return _become_worker(options, links, heart)
    except (AddressError, OSError) as error:
        _refuse("address-not-there" if isinstance(error, AddressError) else "machine-refuses", str(error))
        os.write(heart, REMOVE)
        return None


def _become_worker(options: Options, links: Links, heart: int) -> Worker:
    unshare(CLONE_NEWNS)
    _mount_privately()
    mount_proc()
    top = os.path.join(options.data, CACHE)
    worker = Worker(
        heart=heart,
        files=Files(options.root, options.uid, options.gid),
        cache=Cache(top),
        shelf=Shelf(top),
        links=links,
        probes=Probes(options.address, options.port),
        processes=Processes(options.uid, options.gid),
    )
    os.write(1, encode({"id": 0, "value": "ready"}))
    return worker


def _watch(alive: int, lease_s: float) -> bool:
    """Return when the worker has ended or the lease is over; whether the files of the run shall go."""
    remove = False
    while select.select([alive], [], [], lease_s)[0]:
        told = os.read(alive, 4096)
        if not told:
            break
        remove = remove or REMOVE in told
    return remove


def remove_rules(links: Links) -> bool:
    """Remove the rules, in several tries; False when they stay."""
    for attempt in range(_REMOVE_TRIES):
        try:
            links.remove()
        except LinksError as error:
            say(str(error))
            time.sleep(0.2 * attempt)
            continue
        return True
    return False


def remove_routing() -> bool:
    """Remove the routing rules of a companion that was killed; False when they stay. The machine must be in nobody's use."""
    try:
        shaper.sweep()
    except OSError as error:
        say(str(error))
        return False
    return True


def say(text: str) -> None:
    """Tell the controller, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(2, f"agent: {text}\n".encode())


def _refuse(slug: str, text: str) -> int:
    with contextlib.suppress(OSError):
        os.write(1, encode({"id": 0, "problem": [slug, text]}))
    return 1


def _mount_privately() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "/")


def _enter(descriptor: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")
