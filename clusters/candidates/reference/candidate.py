"""The project's own KRaft node as a candidate: formatted and launched here, judged like any other."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

import msgspec
import pyarrow as pa

from clusters.cache import cache_directory
from clusters.candidates.candidate import Disk, Quorum, Traits
from clusters.candidates.reference.core.decisions import Decisions
from clusters.candidates.reference.core.defects import decisions, defect
from clusters.candidates.reference.server.configuration import NodeAddress, ServerConfig
from clusters.cluster import Launch, NodeSpec, Site
from clusters.collect import leader_epochs, meta_properties, quorum_state
from clusters.collect.disk import collect_disk
from clusters.collect.meta_properties import MetaProperties
from clusters.collect.trace import collect_traces
from clusters.evidence.identity import uuid_to_text
from clusters.wire.metadata_topic import PARTITION_NAME
from clusters.wire.reference_records import decode_command
from workloads.history.manifest import CandidateEntry, Manifest
from workloads.problem import Problem

VERSION = "0.1.0"
PROMISES = (
    "check-quorum",
    "pre-vote",
    "directory-identity",
    "linearizable-reads",
    "linearizable-operations",
    "node-trace",
    "durable-votes",
)
EVIDENCE = ("log_entries", "node_events", "quorum_states", "lifecycle", "quorum_samples")
_PROJECT = Path(__file__).parents[3]
_PACKAGES = ("clusters/candidates/reference", "clusters/collect", "clusters/evidence", "clusters/wire")
_RUN_PACKAGES = ("clusters", "workloads")
_MODULE = "clusters.candidates.reference.server"


class ReferenceCandidate:
    """The reference, with or without defects (names or M-numbers).

    ``candidate_entry`` is what the manifest tells of it. Raises Problem for an unknown defect and for two that exclude each other.
    """

    def __init__(self, defects: Sequence[str] = ()) -> None:
        self._defects = tuple(defect(each).name for each in defects)
        self._decisions: Decisions = decisions(self._defects)

    @property
    def traits(self) -> Traits:
        """Its disk is laid out like Kafka's, its clients are its own."""
        return Traits("reference")

    @property
    def version(self) -> str:
        """The reference's own."""
        return VERSION

    @property
    def workloads(self) -> Sequence[str]:
        """What it serves, the default first."""
        return ("register", "log")

    @property
    def voter_listener(self) -> str | None:
        """The reference's voters are those that it was formatted with."""
        return None

    def install(self, say: Callable[[str], None]) -> CandidateEntry:
        """Nothing is fetched: its own source files are what runs, and their checksums say which."""
        provenance = source_checksums()
        say(f"reference {VERSION}: {len(provenance)} source files of this project")
        return CandidateEntry(
            name="reference",
            version=VERSION,
            quorum="dynamic",
            promises=PROMISES,
            evidence=EVIDENCE,
            generation="kip-996",
            defects=self._defects,
            provenance=provenance,
        )

    def artifacts(self) -> Sequence[Path]:
        """The packages of this project that a server imports."""
        return tuple(_PROJECT / name for name in _RUN_PACKAGES)

    def format(self, quorum: Quorum, node: NodeSpec, *, first: bool) -> Disk:
        """Write ``meta.properties``: with the planned directory id on a node's first disk, with a fresh one after a wipe (R853-30)."""
        node.data.mkdir(parents=True, exist_ok=True)
        if any(node.data.iterdir()):
            raise Problem(
                "disk-not-empty", f"{node.data} is to be formatted and is not empty.", "Move it aside before."
            )
        planned = quorum.directory_ids[node.name]
        directory_id = planned
        if not first:
            fresh = _fresh_directory_id(quorum, node)
            directory_id = self._decisions.directory_id(planned, fresh)
        text = meta_properties.write_meta_properties(MetaProperties(quorum.cluster_id, node.node_id, directory_id))
        (node.data / meta_properties.NAME).write_text(text, encoding="utf-8")
        return Disk(directory_id)

    def launch(self, quorum: Quorum, node: NodeSpec, incarnation: int) -> Launch:
        """Write the configuration of this incarnation beside the data directory, and say how to start on it."""
        trace = node.directory / "trace" / f"{incarnation}.jsonl"
        config_path = node.directory / "config" / f"{incarnation}.json"
        for path in (trace, config_path):
            path.parent.mkdir(parents=True, exist_ok=True)
        config = server_config(quorum, node, incarnation, trace, self._defects)
        config_path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
        return Launch(
            argv=(quorum.site.python, "-m", _MODULE, "--config", quorum.site.inside(config_path)),
            env=_environment(quorum.site),
            cwd=node.directory,
            output=node.directory / "output" / f"{incarnation}.log",
            needs=(config_path, trace.parent),
            writes=(trace,),
        )

    def keep(self) -> Sequence[str]:
        """Identity, promises, epochs and the log."""
        in_log = (quorum_state.NAME, leader_epochs.NAME, "*.log")
        return (meta_properties.NAME, *(f"{PARTITION_NAME}/{name}" for name in in_log))

    def evidence(self, manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
        """Read disks and traces of all nodes."""
        for entry in manifest.nodes:
            yield from collect_disk(run, manifest, entry.name, _decode).items()
            yield "node_events", collect_traces(run, manifest, entry.name)


def server_config(
    quorum: Quorum, node: NodeSpec, incarnation: int, trace: Path, defects: Sequence[str]
) -> ServerConfig:
    """What one server is started with. Jitter equals the election timeout.

    With M-2 there is none: a second vote in one epoch is given only where two candidates' timers tie.
    """
    timers = quorum.timers
    return ServerConfig(
        node_id=node.node_id,
        incarnation=incarnation,
        cluster_id=quorum.cluster_id,
        data_directory=quorum.site.inside(node.data),
        trace_path=quorum.site.inside(trace),
        nodes=tuple(
            NodeAddress(
                node_id=each.node_id,
                host=each.address,
                port=each.port,
                directory_id=quorum.directory_ids[each.name],
                voter=each.role == "voter",
            )
            for each in quorum.nodes
        ),
        election_timeout_ms=timers.election_timeout_ms,
        election_jitter_ms=0 if "second-vote-granted" in defects else timers.election_timeout_ms,
        fetch_timeout_ms=timers.fetch_timeout_ms,
        check_quorum_ms=timers.check_quorum_ms,
        request_timeout_ms=timers.request_timeout_ms,
        fetch_max_wait_ms=max(1, min(500, timers.fetch_timeout_ms // 4, timers.request_timeout_ms // 2)),
        seed=quorum.seed,
        defects=tuple(defects),
    )


def _environment(site: Site) -> dict[str, str]:
    """Nodes find this project first, and keep compiled modules: a start without them costs half a second more.

    Nodes of another machine or image keep them where they find the sources, or not at all: nobody else runs what they compiled.
    """
    if not site.own:
        return {"PYTHONPATH": site.inside(_PROJECT)}
    search_path = (str(_PROJECT), os.environ.get("PYTHONPATH"))
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, search_path)),
        "PYTHONPYCACHEPREFIX": str(cache_directory() / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }


def source_checksums() -> dict[str, str]:
    """Path below the project → SHA-256 of each source file that a server runs."""
    paths = [path for package in _PACKAGES for path in (_PROJECT / package).rglob("*.py")]
    return {
        path.relative_to(_PROJECT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)
    }


def _fresh_directory_id(quorum: Quorum, node: NodeSpec) -> str:
    """A new identity for each empty disk, from the seed: as many as there are disks that were moved aside, to come back or not."""
    aside = len(list(node.directory.glob("data.*-*")))
    chance = random.Random(f"{quorum.seed}/directory-id/{node.name}/{aside}")
    return uuid_to_text(UUID(int=chance.getrandbits(128), version=4))


def _decode(key: bytes | None, value: bytes | None) -> tuple[str, int | None, int | None]:
    del key
    command = decode_command(value)
    return command.f, command.key, command.value
