"""The files and the command line that a controller is started with.

Timers are those of the run, shortened alike for every candidate. Kafka has no setting for check-quorum: a leader resigns after 1.5
fetch timeouts without fetches from a majority (KIP-595, ``LeaderState``), so the run's timers must say the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from clusters.candidates.candidate import Quorum
from clusters.candidates.kafka.install import ClassPath
from clusters.candidates.kafka.java import Java
from clusters.candidates.kafka.releases import Release
from clusters.cluster import HERE, NodeSpec, Site
from workloads.history.manifest import Timers

LISTENER = "CONTROLLER"
CHECK_QUORUM_PER_FETCH_TIMEOUT = 1.5
_HEAP_MB = 128
_SESSION_TIMEOUT_MS = 3_600_000
"""of the brokers that clients register without being any: their registration outlives every partition"""
_APPEND_LINGER_MS = 2

_PATTERN = "[%d{yyyy-MM-dd HH:mm:ss,SSS}] %p %m (%c)%n"
_LEVELS = {
    "org.apache.kafka.raft": "INFO",
    "org.apache.kafka.raft.LeaderState": "DEBUG",
    "kafka.raft": "INFO",
    "kafka.server.KafkaRaftServer": "INFO",
    "org.apache.kafka.controller.QuorumController": "WARN",
    "org.apache.kafka.clients.NetworkClient": "ERROR",
}
"""what evidence is read from (:mod:`.log_lines`): transitions and votes at INFO, a leader's high watermark at DEBUG. Without
NetworkClient's warnings: one for each attempt to reach a node behind a partition."""


def check_timers(timers: Timers) -> None:
    """Raise ValueError when the run would judge check-quorum by another bound than the release has."""
    bound_ms = CHECK_QUORUM_PER_FETCH_TIMEOUT * timers.fetch_timeout_ms
    if timers.check_quorum_ms < bound_ms:
        raise ValueError(
            f"check-quorum of Kafka is {bound_ms:.0f} ms with a fetch timeout of {timers.fetch_timeout_ms} ms; "
            f"the run says {timers.check_quorum_ms} ms"
        )


def config_directory(node: NodeSpec) -> Path:
    """Where a node's configuration lies: beside its disk, so that a wipe leaves it."""
    return node.directory / "config"


def server_properties(release: Release, quorum: Quorum, node: NodeSpec) -> dict[str, str]:
    """The settings of one controller."""
    timers = quorum.timers
    check_timers(timers)
    endpoint = f"{LISTENER}://{node.address}:{node.port}"
    settings = {
        "process.roles": "controller",
        "node.id": str(node.node_id),
        "listeners": endpoint,
        "controller.listener.names": LISTENER,
        "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
        "log.dirs": quorum.site.inside(node.data),
        "num.network.threads": "1",
        "num.io.threads": "2",
        "controller.quorum.election.timeout.ms": str(timers.election_timeout_ms),
        "controller.quorum.fetch.timeout.ms": str(timers.fetch_timeout_ms),
        "controller.quorum.election.backoff.max.ms": str(timers.election_timeout_ms),
        "controller.quorum.request.timeout.ms": str(timers.request_timeout_ms),
        "controller.quorum.append.linger.ms": str(_APPEND_LINGER_MS),
        "broker.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
    }
    if release.controllers_advertise:
        settings["advertised.listeners"] = endpoint
    if quorum.kind == "dynamic":
        servers = ",".join(f"{voter.address}:{voter.port}" for voter in quorum.voters)
        settings["controller.quorum.bootstrap.servers"] = servers
    else:
        voters = ",".join(f"{voter.node_id}@{voter.address}:{voter.port}" for voter in quorum.voters)
        settings["controller.quorum.voters"] = voters
    return settings


def _log4j1() -> str:
    lines = [
        "log4j.rootLogger=WARN, out",
        "log4j.appender.out=org.apache.log4j.ConsoleAppender",
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.out.layout.ConversionPattern={_PATTERN}",
        *(f"log4j.logger.{name}={level}" for name, level in _LEVELS.items()),
    ]
    return "\n".join(lines) + "\n"


def _log4j2() -> str:
    lines = [
        "rootLogger.level=WARN",
        "rootLogger.appenderRef.out.ref=out",
        "appender.out.type=Console",
        "appender.out.name=out",
        "appender.out.layout.type=PatternLayout",
        f"appender.out.layout.pattern={_PATTERN}",
    ]
    for number, (name, level) in enumerate(_LEVELS.items()):
        lines += [f"logger.l{number}.name={name}", f"logger.l{number}.level={level}"]
    return "\n".join(lines) + "\n"


def properties_text(settings: Mapping[str, str]) -> str:
    """Write settings as a Java properties file: Latin-1, with escapes, because Kafka loads it from a stream of bytes."""
    return "".join(f"{name}={escaped(value)}\n" for name, value in settings.items())


def escaped(value: str) -> str:
    """A value as a Java properties file writes it."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)


def write_configuration(release: Release, quorum: Quorum, node: NodeSpec) -> Path:
    """Write the node's configuration anew and return the path of ``server.properties``."""
    directory = config_directory(node)
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory / "server.properties"
    properties.write_text(properties_text(server_properties(release, quorum, node)))
    write_logging(release, directory)
    return properties


def write_logging(release: Release, directory: Path) -> None:
    """Write ``logging.properties`` for the release's logging backend."""
    (directory / "logging.properties").write_text(_log4j2() if release.log4j2 else _log4j1())


def java_command(
    java: Java,
    path: ClassPath,
    logging: Path | None,
    main: tuple[str, ...],
    *,
    archive: Path | None = None,
    archive_at_exit: Path | None = None,
    site: Site = HERE,
) -> tuple[str, ...]:
    """The command line of one JVM. Times in its log are UTC, so that they can be set against the start of the run."""
    switches = [
        "-Xms64m",
        f"-Xmx{_HEAP_MB}m",
        "-Xss512k",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
    ]
    switches += ["-Djava.awt.headless=true", "-Duser.timezone=UTC"]
    if archive is not None:
        switches.append(f"-XX:SharedArchiveFile={site.inside(archive)}")
    if archive_at_exit is not None:
        switches.append(f"-XX:ArchiveClassesAtExit={archive_at_exit}")
    if logging is not None:
        variable = "log4j2.configurationFile" if path.release.log4j2 else "log4j.configuration"
        switches.append(f"-D{variable}=file:{quote(site.inside(logging))}")
    class_path = os.pathsep.join(site.inside(jar) for jar in path.jars)
    return (site.java or str(java.executable), *switches, "-cp", class_path, *main)
