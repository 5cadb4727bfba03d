"""The process of one node: a fresh container for each incarnation, in the network namespace of the node's holder.

A node is as alive as its main process: the engine's init is process 1 of the container, and when its child ends the kernel ends
whatever else the node has started. Pausing freezes all of it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, NotFound
from requests import RequestException

from clusters.backends.docker.engine import engine_calls, reason
from clusters.backends.docker.marks import LAB
from clusters.backends.proc import CpuAccount, members_of
from clusters.cluster import CpuUse, Launch
from workloads.problem import Problem

_GONE_PATIENCE_S = 20.0
_POLL_S = 0.01
_OUTPUT_PATIENCE_S = 10.0
_PROCESSES_MAX = 4096
_LOOK_TIMEOUT_S = 30.0
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""of an image that says none: the engine's own default"""
_LOG_LIMIT = {"max-size": "1g", "max-file": "2"}
"""of the engine's own copy of a node's output, which ends with the container"""
_DROPPED = ["NET_RAW", "MKNOD", "SYS_CHROOT", "AUDIT_WRITE"]
"""of the engine's default capabilities: raw sockets would go around the filters"""


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of this machine at the same path in the container."""

    path: Path
    writable: bool = False

    def spec(self) -> dict[str, Any]:
        """As the engine wants it; without the colons of the short form, which paths may hold."""
        place = str(self.path.absolute())
        return {"Type": "bind", "Source": place, "Target": place, "ReadOnly": not self.writable}


@dataclass(slots=True)
class _Process:
    container: str
    descriptor: int
    """a pidfd of the container's process 1: readable once it has ended"""
    namespace: int
    output: threading.Thread
    cpu: CpuAccount = field(default_factory=CpuAccount)


class NodeContainer:
    """Starts, signals and measures one node's containers. Safe to call from any thread."""

    def __init__(self, client: Any, node: str, holder: str, image: str, labels: Mapping[str, str]) -> None:
        self._client = client
        self._node = node
        self._holder = holder
        self._image = image
        self._labels = dict(labels)
        self._lock = threading.RLock()
        self._process: _Process | None = None
        self._programs: set[str] = set()
        self._count = 0
        self._status: int | None = None
        self._paused = False

    def start(self, launch: Launch, mounts: Sequence[Mount]) -> None:
        """Start a new container. Raises Problem ``node-runs`` or ``node-not-started``."""
        with self._lock:
            if self.alive():
                raise Problem(
                    "node-runs", f"Node {self._node} has a running process already.", "End it before a new start."
                )
            self._discard()
            container = self._create(launch, mounts)
            self._status, self._paused = None, False
            try:
                self._find_program(container, launch)
                self._client.api.start(container)
            except APIError as error:
                self._remove(container)
                raise self._not_started(launch, reason(error)) from error
            except (DockerException, RequestException) as error:
                self._remove(container)
                raise self._not_started(launch, str(error)) from error
            self._process = self._watch(container, launch)

    def alive(self) -> bool:
        """Whether the container's process 1 exists (paused ones do)."""
        process = self._process
        return process is not None and not _readable(process.descriptor, 0)

    def status(self) -> int | None:
        """How the last process ended: exit code, or minus the signal; None while it runs.

        The engine tells both as one number: an exit code of 128 + n that the program chose itself is taken for signal n.
        """
        with self._lock:
            if not self.alive():
                self._conclude()
            return self._status

    def signal(self, number: int) -> None:
        """SIGKILL ends and SIGSTOP freezes everything of the node; other signals go to its main process.

        Raises Problem ``engine-refused``.
        """
        with self._lock:
            if not self.alive() or self._process is None:
                return
            container, api = self._process.container, self._client.api
            if number == signal.SIGSTOP:
                self._call(api.pause, container, unless_paused=True)
                self._paused = True
                return
            if number == signal.SIGCONT:
                self._thaw()
                return
            # Process 1 of a namespace can be killed from outside by the kernel alone; what is frozen must be let go to die.
            self._call(api.kill, container, number)
            if number == signal.SIGKILL:
                self._thaw()

    def wait_exit(self, timeout_s: float) -> bool:
        """Wait until the node has no process; its output is whole then."""
        process = self._process
        if process is not None and not _readable(process.descriptor, timeout_s):
            return False
        with self._lock:
            if not self.alive():
                self._conclude()
        return True

    def cpu(self) -> CpuUse | None:
        """CPU use of the node's processes since its start, None when there are none."""
        with self._lock:
            process = self._process
            members = self.members()
            if process is None or not members:
                return None
            running_s, waiting_s = process.cpu.take(members)
            return CpuUse(running_s, waiting_s)

    def members(self) -> list[tuple[int, Path]]:
        """The node's processes, by their numbers on this machine; the engine's init among them."""
        process = self._process
        return members_of("pid", process.namespace) if process is not None and self.alive() else []

    def close(self) -> None:
        """Give back descriptors and threads; the containers are removed by their labels."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.output.join(_OUTPUT_PATIENCE_S)
                os.close(process.descriptor)

    def _create(self, launch: Launch, mounts: Sequence[Mount]) -> str:
        api = self._client.api
        program, *arguments = launch.argv
        self._count += 1
        try:
            made = api.create_container(
                self._image,
                entrypoint=[program],
                command=arguments,
                name=f"{self._labels[LAB]}-{self._node}-{self._count}",
                environment=dict(launch.env),
                working_dir=str(launch.cwd),
                user=f"{os.getuid()}:{os.getgid()}",
                labels=self._labels,
                healthcheck={"Test": ["NONE"]},
                host_config=api.create_host_config(
                    network_mode=f"container:{self._holder}",
                    mounts=[mount.spec() for mount in mounts],
                    init=True,
                    cap_drop=_DROPPED,
                    # The labels of a security module would keep mounts of the run's folder from being read.
                    security_opt=["no-new-privileges", "label=disable"],
                    userns_mode="host",
                    pids_limit=_PROCESSES_MAX,
                    log_config={"Type": "json-file", "Config": _LOG_LIMIT},
                ),
            )
        except APIError as error:
            raise self._not_started(launch, reason(error)) from error
        except (DockerException, RequestException) as error:
            raise self._not_started(launch, str(error)) from error
        return str(made["Id"])

    def _find_program(self, container: str, launch: Launch) -> None:
        """Look for the program in the container, once. Started without, the engine's init would say so to nobody.

        Raises APIError, RequestException or Problem ``node-not-started``.
        """
        program, api = launch.argv[0], self._client.api
        if program in self._programs:
            return
        places = [program]
        if "/" not in program:
            environment = api.inspect_container(container)["Config"].get("Env") or []
            path = next((each.partition("=")[2] for each in environment if each.startswith("PATH=")), _USUAL_PATH)
            places = [f"{directory}/{program}" for directory in path.split(":") if directory]
        url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
        if not any(api.head(url, params={"path": place}, timeout=_LOOK_TIMEOUT_S).ok for place in places):
            self._remove(container)
            raise self._not_started(launch, f"there is no {' or '.join(places)}")
        self._programs.add(program)

    def _watch(self, container: str, launch: Launch) -> _Process:
        with engine_calls(f"look at {self._node}"):
            pid = int(self._client.api.inspect_container(container)["State"]["Pid"])
        try:
            descriptor = os.pidfd_open(pid) if pid else _ended()
            namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino if pid else 0
        except OSError:  # it has ended meanwhile
            descriptor, namespace = _ended(), 0
        launch.output.parent.mkdir(parents=True, exist_ok=True)
        output = threading.Thread(
            target=self._copy_output, args=(container, launch.output), name=f"output {self._node}", daemon=True
        )
        output.start()
        return _Process(container, descriptor, namespace, output)

    def _copy_output(self, container: str, path: Path) -> None:
        """Append what the container prints until it ends. The engine is gone when the stream breaks: the run ends by that itself."""
        with path.open("ab", buffering=0) as file, contextlib.suppress(DockerException, RequestException):
            for chunk in self._client.api.logs(container, stdout=True, stderr=True, stream=True, follow=True):
                file.write(chunk)

    def _conclude(self) -> None:
        """Take the exit status of a process that has ended, once, when its output has been copied."""
        process = self._process
        if process is None or self._status is not None:
            return
        deadline = time.monotonic() + _GONE_PATIENCE_S
        while True:
            with engine_calls(f"look at {self._node}"):
                state = self._client.api.inspect_container(process.container)["State"]
            if not state["Running"] or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        process.output.join(_OUTPUT_PATIENCE_S)
        code = int(state["ExitCode"])
        self._status = 128 - code if 128 < code <= 128 + signal.NSIG else code
        self._paused = False

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.close(process.descriptor)
            self._remove(process.container)

    def _remove(self, container: str) -> None:
        with engine_calls(f"remove the last container of {self._node}"), contextlib.suppress(NotFound):
            self._client.api.remove_container(container, force=True, v=True)

    def _thaw(self) -> None:
        if self._paused and self._process is not None:
            self._call(self._client.api.unpause, self._process.container, unless_paused=True)
            self._paused = False

    def _call(self, call: Any, *arguments: Any, unless_paused: bool = False) -> None:
        """Call the engine about a container that may be ending meanwhile, or be paused already."""
        with engine_calls(f"signal {self._node}"):
            try:
                call(*arguments)
            except APIError as error:
                settled = "is not running" in str(error) or "No such container" in str(error)
                if not settled and not (unless_paused and "paused" in str(error)):
                    raise

    def _not_started(self, launch: Launch, why: str) -> Problem:
        return Problem(
            "node-not-started",
            f"Node {self._node} cannot be started with {launch.argv[0]} in the image {self._image}: {why}.",
            f"Look whether the image has {launch.argv[0]}; see its output: {launch.output}",
        )


def _readable(descriptor: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0.0, timeout_s) * 1000))


def _ended() -> int:
    """A descriptor that is readable, as the pidfd of a process that has ended."""
    readable, writable = os.pipe()
    os.close(writable)
    return readable
