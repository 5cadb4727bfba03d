"""A class-data archive for a release: it halves the start of a controller (2.0 s → 1.0 s of one JVM, seen with Java 17).

A controller that is its own quorum is started once, on a loopback port, and stopped; its JVM writes down the classes that it had
loaded. The archive belongs to exactly these jars and this runtime; a JVM that finds otherwise ignores it. A run without an
archive is a slower run and nothing else, so whatever fails here is told and not raised.
"""

from __future__ import annotations

import hashlib
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from clusters.candidates.kafka.configuration import java_command, properties_text, write_logging
from clusters.candidates.kafka.formatting import WARM_UP_CLUSTER_ID, minimal_properties
from clusters.candidates.kafka.install import ClassPath
from clusters.candidates.kafka.java import Java
from clusters.candidates.kafka.maven import Say

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_STARTED = b"Kafka Server started"


def archive_path(java: Java, path: ClassPath, directory: Path) -> Path:
    """Where the archive of this runtime and of the jars in this place lies; ``directory`` belongs to the jars' contents."""
    release = java.home / "release"
    told = release.read_bytes() if release.is_file() else str(java.home).encode()
    tied_to = hashlib.sha256(told + str(path.directory).encode())
    return directory / f"classes-java{java.major}-{tied_to.hexdigest()[:8]}.jsa"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _warm_up(java: Java, path: ClassPath, bootstrap: Path, work: Path, archive: Path) -> bool:
    """Run one controller until it serves, and stop it; True when the JVM wrote the archive."""
    settings = minimal_properties(work / "data", _free_port())
    (work / "server.properties").write_text(properties_text(settings))
    write_logging(path.release, work)
    (work / "data").mkdir()
    identity = {"node.id": "1", "version": "1", "cluster.id": WARM_UP_CLUSTER_ID}
    (work / "data" / "meta.properties").write_text(properties_text(identity))
    (work / "data" / "bootstrap.checkpoint").write_bytes(bootstrap.read_bytes())
    main = ("kafka.Kafka", str(work / "server.properties"))
    command = java_command(java, path, work / "logging.properties", main, archive_at_exit=archive)
    output = work / "output.log"
    with output.open("wb") as out:
        process = subprocess.Popen(command, cwd=work, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _START_TIMEOUT_S
        while _STARTED not in output.read_bytes():
            if process.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.1)
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(_STOP_TIMEOUT_S)
    return archive.is_file()


def class_archive(java: Java, path: ClassPath, bootstrap: Path, say: Say) -> Path | None:
    """The archive for these jars and this runtime, made the first time (about 5 s); None where it could not be made."""
    kept = archive_path(java, path, bootstrap.parent)
    if kept.is_file():
        return kept
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=kept.parent) as scratch:
        made = Path(scratch) / kept.name
        try:
            written = _warm_up(java, path, bootstrap, Path(scratch), made)
        except OSError as error:
            say(f"Apache Kafka {path.release.text}: no class archive ({error}); controllers start slower")
            return None
        if not written:
            say(f"Apache Kafka {path.release.text}: no class archive; controllers start slower")
            return None
        made.rename(kept)
    say(
        f"Apache Kafka {path.release.text}: class archive, {kept.stat().st_size / 1e6:.0f} MB, "
        f"{time.monotonic() - started:.0f} s, so that controllers start faster"
    )
    return kept
