"""The Spark session: the one place that knows Spark's options.

A session starts fast (C1 compiler, serial collector, no user interface, no Hive), says nothing, keeps its files out of the
working directory, and ends with this process. It may be started in the background, at low priority, while a run still goes on.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from checker.archive import archive_file
from checker.arrow import map_in_arrow
from checker.gateway import SPAWNED, start_gateway
from checker.java import Java, find_java
from workloads.problem import Problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checker.prepare import Prepared

DEFAULT_MASTER = "local[*]"
_ABANDON_LIMIT_S = 5.0
_SCRATCH_PREFIX = "nemesis-spark-"
_log = logging.getLogger(__name__)
_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")


def start_session(
    master: str | None = None, *, memory: str = "2g", fast_start: bool = True, write_archive: Path | None = None
) -> SparkSession:
    """Start a session, or return the one that runs.

    ``master`` is passed through to Spark (``local[*]`` by default). ``fast_start`` stops at the first compiler, which is right for
    a few runs; a large set of runs is checked faster without it. ``write_archive`` is where the JVM writes its classes when it ends
    (:mod:`checker.archive`). Raises Problem ``java-missing``, ``java-too-old``, ``java-broken`` or
    ``spark-did-not-start``.
    """
    with _starting:
        if _running:
            return _running[0]
        java = find_java()
        scratch = _make_scratch()
        try:
            jvm_options = _jvm_options(memory, fast_start, scratch) + _archive_options(java, write_archive)
            session = _start(java, master or DEFAULT_MASTER, memory, jvm_options, scratch)
        except Problem:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        _running.append(session)
        atexit.register(_leave)
        return session


_starting = threading.Lock()
_running: list[SparkSession] = []
"""the session of this process, if there is one"""


def _leave() -> None:
    with suppress(Exception):  # whatever is wrong, the process ends and its Java with it
        for session in tuple(_running):
            stop_session(session)


@dataclass(frozen=True, slots=True)
class Begun:
    """What :func:`begin_session` has begun."""

    session: Future[SparkSession]
    prepared: Future[Prepared | None]
    """the checks of the run, planned; None where that could not be done, so that they are planned when they are wanted"""

    def wait(self, patience_s: float) -> tuple[SparkSession, Prepared | None]:
        """Wait for both at this process's own priority: somebody waits now. Raises what :func:`start_session` raises, or TimeoutError."""
        session = self.session.result(patience_s)
        _set_priority(session, os.getpriority(os.PRIO_PROCESS, 0))
        return session, self.prepared.result(patience_s)


def begin_session(master: str | None = None, *, run: Path | None = None, niceness: int = 10) -> Begun:
    """Start a session in a thread of its own at low priority; errors are those of :func:`start_session`.

    When it is there the thread goes on to plan the checks of ``run``, a folder with a manifest, and then to rehearse them until
    they are wanted. Linux keeps a priority per thread and a new process inherits it, so neither the controller nor its nodes
    get slower.
    """
    begun = Begun(Future(), Future())

    def work() -> None:
        from checker.prepare import rehearse  # not on the caller's time

        low = max(niceness, os.getpriority(os.PRIO_PROCESS, 0))
        with suppress(OSError):  # a hint: without the permission the session starts at our own priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), low)
        try:
            session = start_session(master)
        except BaseException as error:
            begun.session.set_exception(error)
            begun.prepared.set_result(None)
            return
        _set_priority(session, low)  # it may have been begun long ago, and waited for
        begun.session.set_result(session)
        with suppress(Exception):  # the check itself will meet what is wrong, and tell it
            _start_python(session)
        begun.prepared.set_result(None if run is None else _prepare(session, run))
        with suppress(Exception):
            rehearse(session)

    threading.Thread(target=work, name="spark-start", daemon=True).start()
    return begun


def _prepare(session: SparkSession, run: Path) -> Prepared | None:
    from checker.prepare import prepare

    try:
        return prepare(session, run)
    except Exception as error:  # a short cut only: the check plans by itself, and meets what is wrong
        _log.warning("the checks could not be planned during the run: %s", error)
        return None


def _set_priority(session: SparkSession, niceness: int) -> None:
    """Change the priority of a session that runs, where the system lets us; Linux keeps one for each thread."""
    gateway: Any = session.sparkContext._gateway
    if gateway.proc is None:
        return
    for thread in _threads_of_session(gateway.proc.pid):
        with suppress(OSError):  # it has ended, or we may not: it goes on as it was
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _threads_of_session(leader: int) -> Iterator[int]:
    """The threads of Spark's process and of its Python workers: it leads a process session of its own."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if os.getsid(int(process.name)) == leader:
                    yield from (int(task.name) for task in (process / "task").iterdir())


def warm_up(session: SparkSession) -> None:
    """Load what the first check needs: Python workers, and the classes and compiled methods that all plans share."""
    from checker.prepare import rehearse

    _start_python(session)
    rehearse(session)


def _start_python(session: SparkSession) -> None:
    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    workers = session.sparkContext.defaultParallelism
    map_in_arrow(session.range(0, workers, 1, workers), nothing, "id bigint").collect()


def stop_session(session: SparkSession, *, patience_s: float = 10.0) -> None:
    """Stop the session and its Java process, which may take ``patience_s`` seconds, and remove its files."""
    context = session.sparkContext
    gateway: Any = context._gateway
    scratch = Path(context.getConf().get("spark.local.dir") or "")
    with suppress(ValueError):
        _running.remove(session)
    session.stop()
    _end_process(gateway, patience_s)
    if scratch.name.startswith(_SCRATCH_PREFIX):
        shutil.rmtree(scratch, ignore_errors=True)


def abandon() -> None:
    """End every session of this process at once, ready or not, and remove its files: for a process that leaves without ``atexit``."""
    for scratch, process in SPAWNED.items():
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=_ABANDON_LIMIT_S)
        shutil.rmtree(scratch, ignore_errors=True)


def _start(java: Java, master: str, memory: str, jvm_options: list[str], scratch: Path) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = _options(master, memory, scratch)
    if master.startswith("local"):
        gateway = start_gateway(java, jvm_options, options, scratch)
    else:
        gateway = _start_by_spark_submit(java, jvm_options, options, scratch)
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    context = SparkContext(conf=conf, gateway=gateway)
    return SparkSession(context)


def _options(master: str, memory: str, scratch: Path) -> dict[str, str]:
    options = {
        "spark.master": master,
        "spark.app.name": "nemesis",
        "spark.submit.deployMode": "client",
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        # One action is one job: no jobs of their own for stages (adaptive execution) or broadcasts.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.files.openCostInBytes": "65536",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # The plans are many and small: planning is what they cost, so leave out what pays only on large ones.
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.lightweightPlanChangeValidation": "false",
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.debug.maxToStringFields": "5",
        "spark.sql.ui.retainedExecutions": "2",
        "spark.python.worker.reuse": "true",
        "spark.eventLog.enabled": "false",
    }
    if master.startswith("local"):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return options


def _jvm_options(memory: str, fast_start: bool, scratch: Path) -> list[str]:
    options = [
        f"-Xmx{memory}",
        "-Xms512m",
        "-Xmn320m",
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}",
        "-Xshare:auto",
    ]
    if fast_start:
        options += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    return options


def _archive_options(java: Java, write_archive: Path | None) -> list[str]:
    if write_archive is not None:
        return [f"-XX:ArchiveClassesAtExit={write_archive}"]
    archive = archive_file(java)
    return [f"-XX:SharedArchiveFile={archive}"] if archive is not None and archive.is_file() else []


def _start_by_spark_submit(java: Java, jvm_options: list[str], options: dict[str, str], scratch: Path) -> Any:
    """Start the usual way, which reads the site's spark-env.sh and Hadoop configuration: for masters other than local."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if not java.has_vector_module:
        raise Problem(
            "java-without-vector-module",
            f"{java.home} lacks the module jdk.incubator.vector, so Spark's own launcher cannot start it for {options['spark.master']}.",
            "Use a full Java 17 or newer (`apt-get install openjdk-17-jre-headless`) or --master local[*].",
        )
    os.environ["JAVA_HOME"] = str(java.home)
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    kept = [option for option in jvm_options if not option.startswith("-Xmx")]
    conf.set("spark.driver.extraJavaOptions", " ".join(kept))
    with (scratch / "spark.log").open("ab") as output:
        try:
            return launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            said = (scratch / "spark.log").read_text(errors="replace").strip().splitlines()[-8:]
            raise Problem(
                "spark-did-not-start",
                f"Spark's Java process did not start for master {options['spark.master']}: {' | '.join(said) or error}",
                "Check --master and the site's Spark configuration.",
            ) from error


def _make_scratch() -> Path:
    """Make a directory for Spark's files, and remove those that killed processes left behind."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{_SCRATCH_PREFIX}*"):
        pid = left.name.removeprefix(_SCRATCH_PREFIX).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_SCRATCH_PREFIX}{os.getpid()}-", dir=base))


def _end_process(gateway: Any, patience_s: float) -> None:
    process = gateway.proc
    if process is None or process.poll() is not None:
        return
    with suppress(Exception):  # it may be gone already
        gateway.shutdown()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
