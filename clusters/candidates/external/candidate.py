"""A program that a description says everything of, as a candidate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from clusters.candidates.candidate import Disk, DiskFiles, Quorum, Traits
from clusters.candidates.external import installing
from clusters.candidates.external.description import Description
from clusters.candidates.external.evidence import read_evidence
from clusters.candidates.external.formatting import Formatting, format_disk, write_files
from clusters.candidates.external.placeholders import node_values, render
from clusters.candidates.kafka.formatting import directory_id_for
from clusters.candidates.kafka.java import find_java
from clusters.cluster import HERE, Launch, NodeSpec
from clusters.collect import leader_epochs
from workloads.history.manifest import CandidateEntry, Manifest

Values = dict[str, Callable[[], str]]


class ExternalCandidate:
    """Implements :class:`clusters.candidates.candidate.Candidate` for one description."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._artifacts: dict[str, Path] = {}

    @property
    def description(self) -> Description:
        """What the file says."""
        return self._description

    @property
    def traits(self) -> Traits:
        """As described."""
        described = self._description
        return Traits(
            protocol=described.protocol,
            stop_signal=described.stop_signal,
            stop_patience_s=described.stop_patience_s,
            timers=described.timers,
            disk=_disk_files(described),
            description=described.written,
        )

    @property
    def version(self) -> str:
        """As its description says."""
        return self._description.version

    @property
    def workloads(self) -> Sequence[str]:
        """As described."""
        return self._description.workloads

    @property
    def voter_listener(self) -> str | None:
        """As described."""
        return self._description.voter_listener

    def install(self, say: Callable[[str], None]) -> CandidateEntry:
        """Run the install command and find the artifacts. Raises Problem ``install-failed``, ``artifact-missing``, …"""
        described = self._description
        installing.run_install(described, say)
        self._artifacts = installing.find_artifacts(described)
        provenance = installing.checksums(self._artifacts)
        told = f"{len(provenance)} files in {len(self._artifacts)} artifacts" if self._artifacts else "no artifacts"
        say(f"{described.name} {described.version}, described by {described.source}: {told}")
        return CandidateEntry(
            name=described.name,
            version=described.version,
            quorum=described.quorum,
            promises=described.promises,
            evidence=described.evidence,
            generation=described.generation,
            provenance={
                **provenance,
                "description": hashlib.sha256(described.written.encode()).hexdigest(),
            },
            withheld=described.withheld,
        )

    def artifacts(self) -> Sequence[Path]:
        """What the description names."""
        return tuple(self._artifacts.values())

    def format(self, quorum: Quorum, node: NodeSpec, *, first: bool) -> Disk:
        """Format the empty ``node.data`` on the controller, with the controller's words for every path."""
        here = replace(quorum, site=HERE)
        planned = quorum.directory_ids[node.name]
        if not first:
            aside = len(list(node.directory.glob("data.*-*")))
            planned = directory_id_for(quorum.seed, node.name, aside + 1)
        values = {**self._values(here, node, planned), **installing.controller_values(self._description)}
        write_files(self._description.files, node.directory, {**values, **_start_values(here, node, 0)})
        return format_disk(self._description, Formatting(node, planned, first), values)

    def launch(self, quorum: Quorum, node: NodeSpec, incarnation: int) -> Launch:
        """Write the node's files anew, in the node's words, and say how it is started."""
        described = self._description
        directory_id = quorum.formatted.get(node.name, quorum.directory_ids[node.name])
        values = {**self._values(quorum, node, directory_id), **_start_values(quorum, node, incarnation)}
        written = write_files(described.files, node.directory, values)
        command = [render(word, values) for word in described.start]
        if quorum.site.own:
            installing.find_program(command[0], self._artifacts, described.source)
        trace = _trace(node, incarnation)
        trace.parent.mkdir(exist_ok=True)
        return Launch(
            argv=tuple(command),
            env={"LC_ALL": "C.UTF-8", "TZ": "UTC"}
            | {name: render(text, values) for name, text in described.env.items()},
            cwd=node.directory,
            output=node.directory / "output" / f"{incarnation}.log",
            needs=(*written, trace.parent),
            writes=(trace,) if described.trace else (),
        )

    def keep(self) -> Sequence[str]:
        """The files that the description names as evidence."""
        layout = self._description.layout
        found = [layout.meta_properties, layout.quorum_state]
        if layout.log:
            found += [f"{layout.log}/*.log", f"{layout.log}/{leader_epochs.NAME}"]
        if layout.snapshots:
            found.append(f"{layout.snapshots}/*.checkpoint")
        return tuple(filter(None, found))

    def evidence(self, manifest: Manifest, run: Path) -> Iterator[tuple[str, pa.Table]]:
        """Read what the description says that nodes leave behind."""
        return read_evidence(self._description, manifest, run)

    def _values(self, quorum: Quorum, node: NodeSpec, directory_id: str) -> Values:
        values = node_values(quorum, node, directory_id, self._description.lists)
        values["java"] = lambda: quorum.site.java or str(find_java().executable)
        for name, path in self._artifacts.items():
            values[f"artifact.{name}"] = lambda path=path: quorum.site.inside(path)  # type: ignore[misc]
        return values


def _start_values(quorum: Quorum, node: NodeSpec, incarnation: int) -> Values:
    return {
        "incarnation": lambda: str(incarnation),
        "trace": lambda: quorum.site.inside(_trace(node, incarnation)),
    }


def _trace(node: NodeSpec, incarnation: int) -> Path:
    return node.directory / "trace" / f"{incarnation}.jsonl"


def _disk_files(described: Description) -> DiskFiles:
    layout = described.layout
    kinds = {
        "segment": f"{layout.log}/*.log" if layout.log else "",
        "quorum-state": layout.quorum_state,
        "snapshot": f"{layout.snapshots}/*-*.checkpoint" if layout.snapshots else "",
    }
    return DiskFiles(layout.everything, {kind: pattern for kind, pattern in kinds.items() if pattern})
