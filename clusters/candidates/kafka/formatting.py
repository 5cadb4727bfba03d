"""Format a disk as an operator would with ``kafka-storage format``, without a JVM for each node.

What the tool writes is known exactly (a test compares the bytes): ``meta.properties``; ``bootstrap.checkpoint``, which holds the
release's own default features and neither node nor cluster; in a dynamic quorum also the snapshot 0-0 with the voter set,
``--initial-controllers``. So the tool itself runs once per release and its ``bootstrap.checkpoint`` is kept. Newer releases than
those compared are formatted with the tool, node by node.

A wiped disk of a static quorum is formatted like the first one (a known hazard, KAFKA-14077); in a dynamic quorum like
``--no-initial-controllers``: the node comes back as another replica, which is no voter.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import time
from pathlib import Path
from uuid import UUID, uuid5

from clusters.cache import cache_directory, make_directory
from clusters.candidates.candidate import Disk, Quorum
from clusters.candidates.kafka.configuration import LISTENER, java_command, properties_text
from clusters.candidates.kafka.install import ClassPath
from clusters.candidates.kafka.java import Java
from clusters.cluster import NodeSpec
from clusters.evidence.identity import text_to_uuid, uuid_to_text
from clusters.wire.batches import Record, encode_batch
from clusters.wire.control_records import (
    ControlMessage,
    VoterAddress,
    encode_control,
    kraft_version,
    snapshot_footer,
    snapshot_header,
    voters_record,
)
from clusters.wire.metadata_topic import PARTITION_NAME
from workloads.problem import Problem

COMPARED_UNTIL = (4, 3)
"""the newest line whose disks were compared with the tool's"""

_TOOL_TIMEOUT_S = 60.0
_NAMESPACE = UUID("7b1c8a6e-4f1d-4a0a-9d8e-6b1f6f0c2a11")
_RESERVED_BELOW = 100
WARM_UP_CLUSTER_ID = uuid_to_text(_NAMESPACE)
"""of the disks that are formatted only to learn from"""


def directory_id_for(seed: int, node: str, disk: int) -> str:
    """The directory id of a node's disk number ``disk``, drawn from the run's seed.

    Kafka reserves the first hundred ids and gives out none that begins with a dash (its tools would take it for an option).
    """
    for attempt in range(1000):
        made = uuid5(_NAMESPACE, f"{seed}/{node}/{disk}/{attempt}")
        text = uuid_to_text(made)
        if made.int >= _RESERVED_BELOW and not text.startswith("-"):
            return text
    raise AssertionError("a thousand ids began with a dash")


def initial_snapshot(quorum: Quorum, timestamp_ms: int) -> bytes:
    """The snapshot 0-0 of a dynamic quorum: ``kraft.version`` 1 and the initial voters."""
    voters = voters_record(
        VoterAddress(voter.node_id, text_to_uuid(quorum.directory_ids[voter.name]), voter.address, voter.port, LISTENER)
        for voter in quorum.voters
    )
    messages: list[ControlMessage] = [snapshot_header(timestamp_ms), kraft_version(1), voters, snapshot_footer()]
    lines = [Record(offset, timestamp_ms, *encode_control(each)) for offset, each in enumerate(messages)]
    return encode_batch(lines[:-1], epoch=0, control=True) + encode_batch(lines[-1:], epoch=0, control=True)


def _run_tool(java: Java, path: ClassPath, properties: Path, cluster_id: str, options: tuple[str, ...]) -> None:
    main = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties), *options)
    command = java_command(java, path, None, main)
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_TOOL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Problem("kafka-format", f"kafka-storage did not end within {_TOOL_TIMEOUT_S:.0f} s.") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Problem("kafka-format", f"kafka-storage format failed: {' '.join(said[-3:])[:600]}")


def minimal_properties(data: Path, port: int) -> dict[str, str]:
    """The settings of a controller that is its own static quorum, on loopback."""
    return {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": f"{LISTENER}://127.0.0.1:{port}",
        "controller.listener.names": LISTENER,
        "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "log.dirs": str(data),
    }


def bootstrap_checkpoint(java: Java, path: ClassPath, checksums: dict[str, str]) -> Path:
    """The ``bootstrap.checkpoint`` that this release's tool writes, made once and kept in the cache."""
    identity = hashlib.sha256("".join(sorted(checksums.values())).encode()).hexdigest()[:16]
    kept = cache_directory() / "kafka-formats" / f"{path.release.text}-{identity}" / "bootstrap.checkpoint"
    if kept.is_file():
        return kept
    make_directory(kept.parent)
    with tempfile.TemporaryDirectory(prefix=".format-", dir=kept.parent) as scratch:
        work = Path(scratch)
        (work / "server.properties").write_text(properties_text(minimal_properties(work / "data", 9093)))
        _run_tool(java, path, work / "server.properties", WARM_UP_CLUSTER_ID, ())
        (work / "data" / "bootstrap.checkpoint").rename(kept)
    return kept


def format_by_hand(
    path: ClassPath, bootstrap: Path, quorum: Quorum, node: NodeSpec, directory_id: str, *, first: bool
) -> None:
    """Write what the tool would write on the empty ``node.data``."""
    release = path.release
    lines = {"node.id": str(node.node_id)}
    if release.writes_directory_id:
        lines["directory.id"] = directory_id
    lines |= {"version": "1", "cluster.id": quorum.cluster_id}
    node.data.mkdir(parents=True, exist_ok=True)
    (node.data / "meta.properties").write_text(properties_text(lines))
    (node.data / "bootstrap.checkpoint").write_bytes(bootstrap.read_bytes())
    if quorum.kind == "dynamic" and first and node.role == "voter":
        log = node.data / PARTITION_NAME
        log.mkdir()
        snapshot = initial_snapshot(quorum, round(time.time() * 1000))
        (log / "00000000000000000000-0000000000.checkpoint").write_bytes(snapshot)


def format_with_tool(
    java: Java, path: ClassPath, properties: Path, quorum: Quorum, node: NodeSpec, *, first: bool
) -> None:
    """Run ``kafka-storage format`` for one node."""
    options: tuple[str, ...] = ()
    if quorum.kind == "dynamic":
        if first and node.role == "voter":
            voters = ",".join(
                f"{each.node_id}@{each.address}:{each.port}:{quorum.directory_ids[each.name]}" for each in quorum.voters
            )
            options = ("--initial-controllers", voters)
        else:
            options = ("--no-initial-controllers",)
    _run_tool(java, path, properties, quorum.cluster_id, options)


def written_directory_id(data: Path) -> str | None:
    """The directory id in ``meta.properties``, None where the release writes none."""
    for line in (data / "meta.properties").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "directory.id":
            return value
    return None


def formatted(node: NodeSpec, planned: str) -> Disk:
    """What was formatted; ``planned`` is assigned where the release writes no directory id."""
    written = written_directory_id(node.data)
    return Disk(planned, assigned=True) if written is None else Disk(written)
