"""Apache Kafka as a candidate: controller-only quorums of a released version or of a local build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from clusters.candidates.candidate import Disk, Quorum, Traits
from clusters.candidates.kafka import configuration, formatting, install
from clusters.candidates.kafka.class_archive import class_archive
from clusters.candidates.kafka.evidence import read_evidence
from clusters.candidates.kafka.install import ClassPath
from clusters.candidates.kafka.java import Java, find_java
from clusters.candidates.kafka.releases import NEWEST, Release, parse_release
from clusters.cluster import HERE, Launch, NodeSpec
from clusters.wire.metadata_topic import PARTITION_NAME
from workloads.history.manifest import CandidateEntry, Manifest
from workloads.problem import Problem

_EVIDENCE = ("log_entries", "node_events", "quorum_samples", "quorum_states", "lifecycle")
_KEPT_IN_LOG = ("*.log", "*.checkpoint", "quorum-state", "leader-epoch-checkpoint", "partition.metadata")
_MAIN = "kafka.Kafka"


class KafkaCandidate:
    """One release in one kind of quorum.

    ``version`` is a released version (the newest known one unless given); ``home`` names a local distribution instead, whose
    version is read from its jars. Raises Problem (usage) for a version or a combination that does not exist.
    """

    def __init__(self, version: str | None = None, *, home: Path | None = None, quorum: str = "static") -> None:
        self._local = install.local_class_path(home) if home is not None else None
        if self._local is not None and version not in (None, self._local.release.text):
            raise Problem(
                "kafka-version",
                f"--version {version} was asked for, and {home} holds {self._local.release.text}.",
                "Leave --version out.",
                usage=True,
            )
        self._release = self._local.release if self._local is not None else parse_release(version or NEWEST)
        if quorum not in ("static", "dynamic"):
            raise Problem("quorum-kind", f"A quorum is static or dynamic, not {quorum!r}.", usage=True)
        if quorum == "dynamic" and not self._release.dynamic_quorums:
            raise Problem(
                "quorum-kind",
                f"Apache Kafka {self._release.text} has no dynamic quorums.",
                "They came with 3.9: leave out --quorum dynamic, or give a newer --version.",
                usage=True,
            )
        self._kind = quorum
        self._java: Java | None = None
        self._path: ClassPath | None = None
        self._bootstrap: Path | None = None
        self._archive: Path | None = None

    @property
    def kind(self) -> str:
        """``static`` or ``dynamic``."""
        return self._kind

    @property
    def release(self) -> Release:
        """The release that is run."""
        return self._release

    @property
    def traits(self) -> Traits:
        """Kafka's own of everything; in a static quorum every controller is a voter."""
        return Traits("kafka", observers=self._kind == "dynamic")

    @property
    def version(self) -> str:
        """As Maven Central writes it."""
        return self._release.text

    @property
    def workloads(self) -> Sequence[str]:
        """Workloads that controllers alone can serve; configurations are read from controllers since 3.7."""
        if self._release.controllers_describe_configs:
            return ("counter", "log", "register")
        return ("counter", "log")

    @property
    def voter_listener(self) -> str | None:
        """Voters of a dynamic quorum can be changed (3.9)."""
        return configuration.LISTENER if self._kind == "dynamic" else None

    def install(self, say: Callable[[str], None]) -> CandidateEntry:
        """Find Java, fetch the jars unless they are in the cache, and make the format template."""
        self._java = find_java()
        self._path = self._local or install.installed_class_path(self._release, self._java, say)
        checksums = self._path.checksums()
        if self._formats_by_hand:
            self._bootstrap = formatting.bootstrap_checkpoint(self._java, self._path, checksums)
            self._archive = class_archive(self._java, self._path, self._bootstrap, say)
        return CandidateEntry(
            name="kafka",
            version=self._release.text,
            quorum=self._kind,
            promises=self._promises(),
            evidence=_EVIDENCE,
            generation=self._release.generation,
            provenance={
                **checksums,
                "jars": self._path.origin,
                "java": f"{self._java.major} at {self._java.home}",
            },
        )

    def _promises(self) -> tuple[str, ...]:
        """What the release's documents promise; a release that breaks a promise is convicted by it (KAFKA-15489)."""
        promises = ["check-quorum", "linearizable-operations"]
        if self._release.pre_vote:
            promises.append("pre-vote")
        if self._kind == "dynamic":
            promises.append("directory-identity")
        return tuple(promises)

    @property
    def _formats_by_hand(self) -> bool:
        return (self._release.major, self._release.minor) <= formatting.COMPARED_UNTIL

    def _installed(self) -> tuple[Java, ClassPath]:
        if self._java is None or self._path is None:
            raise RuntimeError("install() comes before format() and launch()")
        return self._java, self._path

    def artifacts(self) -> Sequence[Path]:
        """The directory of the jars. The class archive belongs to the controller's Java and serves nodes that run that one."""
        return (self._installed()[1].directory,)

    def format(self, quorum: Quorum, node: NodeSpec, *, first: bool) -> Disk:
        """Format the empty ``node.data``; see :mod:`clusters.candidates.kafka.formatting`."""
        java, path = self._installed()
        if quorum.kind != self._kind:
            raise ValueError(f"the quorum is {quorum.kind}, the candidate was made for a {self._kind} one")
        if node.role != "voter" and not self.traits.observers:
            raise ValueError(f"{node.name} is to be an observer of a static quorum")
        planned = quorum.directory_ids[node.name] if first else self._next_directory_id(quorum, node)
        if self._bootstrap is not None:
            formatting.format_by_hand(path, self._bootstrap, quorum, node, planned, first=first)
        else:
            # The tool runs on the controller, in the controller's words.
            properties = configuration.write_configuration(self._release, replace(quorum, site=HERE), node)
            formatting.format_with_tool(java, path, properties, quorum, node, first=first)
        return formatting.formatted(node, planned)

    def _next_directory_id(self, quorum: Quorum, node: NodeSpec) -> str:
        aside = len(list(node.directory.glob("data.*-*")))
        return formatting.directory_id_for(quorum.seed, node.name, aside + 1)

    def launch(self, quorum: Quorum, node: NodeSpec, incarnation: int) -> Launch:
        """Write the node's configuration and say how its JVM is started."""
        java, path = self._installed()
        properties = configuration.write_configuration(self._release, quorum, node)
        main = (_MAIN, quorum.site.inside(properties))
        return Launch(
            argv=configuration.java_command(
                java,
                path,
                properties.parent / "logging.properties",
                main,
                archive=self._archive if quorum.site.own else None,
                site=quorum.site,
            ),
            env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
            cwd=node.directory,
            output=node.directory / "output" / f"{incarnation}.log",
            needs=(properties.parent,),
        )

    def keep(self) -> Sequence[str]:
        """The files that hold the node's promises and its log."""
        return ("meta.properties", "bootstrap.checkpoint", *(f"{PARTITION_NAME}/{name}" for name in _KEPT_IN_LOG))

    def evidence(self, manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
        """Read the stored disks and outputs of a run: tables ``log_entries``, ``quorum_states``, ``snapshots``, ``node_events``."""
        return read_evidence(manifest, run)
