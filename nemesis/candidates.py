"""The candidates by name: how each is made from what a person typed, and again from a stored manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusters.candidates.candidate import Candidate
from nemesis.store.layout import DESCRIPTION
from workloads.problem import Problem

if TYPE_CHECKING:
    from clusters.candidates.reference.core.defects import Defect
    from workloads.clients.client import ClientFactory
    from workloads.history.manifest import Manifest

CANDIDATES = {
    "reference": "the project's own KRaft node, with every promise of the design and defects to switch on",
    "kafka": "Apache Kafka, controllers only, any release from 3.6 (--version) or a local build (--kafka-home)",
    "FILE.toml": "a program of yours that speaks Kafka's protocol; `nemesis init candidate FILE.toml` writes a commented one",
}


def make_candidate(
    name: str,
    *,
    version: str | None = None,
    kafka_home: Path | None = None,
    quorum: str | None = None,
    defects: Sequence[str] = (),
) -> tuple[Candidate, str]:
    """Make a candidate from what a person typed, and say its kind of quorum (``static``, ``dynamic``).

    Raises Problem (usage) for what does not fit together.
    """
    if name.endswith(".toml"):
        given = {
            "--version": version,
            "--kafka-home": kafka_home,
            "--quorum": quorum,
            "--defect": tuple(defects) or None,
        }
        return _described(Path(name), [option for option, value in given.items() if value is not None])
    if name == "reference":
        from clusters.candidates.reference.candidate import ReferenceCandidate

        if version is not None or kafka_home is not None:
            raise Problem(
                "option-of-kafka",
                "--version and --kafka-home are for --candidate kafka.",
                "Add --candidate kafka, or leave them out.",
                usage=True,
            )
        if quorum not in (None, "dynamic"):
            raise Problem(
                "quorum-kind", f"The reference's quorum is dynamic, not {quorum!r}.", "Leave --quorum out.", usage=True
            )
        return ReferenceCandidate(defects=tuple(defects)), "dynamic"
    if name == "kafka":
        from clusters.candidates.kafka.candidate import KafkaCandidate

        if defects:
            raise Problem(
                "defect-of-reference",
                "Defects are switches of the reference; Apache Kafka has none.",
                "Leave --defect out, or --candidate kafka.",
                usage=True,
            )
        if quorum is None:
            newest = KafkaCandidate(version, home=kafka_home)
            quorum = "dynamic" if newest.release.dynamic_quorums else "static"
        return KafkaCandidate(version, home=kafka_home, quorum=quorum), quorum
    raise Problem(
        "candidate-unknown", f"There is no candidate {name!r}.", f"There are {', '.join(CANDIDATES)}.", usage=True
    )


def _described(path: Path, options: Sequence[str]) -> tuple[Candidate, str]:
    from clusters.candidates.external.candidate import ExternalCandidate
    from nemesis.candidate_file import load_description

    if options:
        raise Problem(
            "option-of-description",
            f"{' and '.join(options)} cannot be given beside {path}: such a file says itself what is run.",
            f"Leave {'it' if len(options) == 1 else 'them'} out, or write it into the file.",
            usage=True,
        )
    description = load_description(path)
    return ExternalCandidate(description), description.quorum


def stored_candidate(manifest: Manifest, run: Path) -> Candidate:
    """The candidate of a stored run, to read what its nodes left behind."""
    entry = manifest.candidate
    if (run / DESCRIPTION).is_file():
        return _described(run / DESCRIPTION, ())[0]
    if entry.name == "kafka":
        from clusters.candidates.kafka.candidate import KafkaCandidate

        return KafkaCandidate(entry.releases[0] if entry.releases else entry.version, quorum=entry.quorum)
    return make_candidate(entry.name, defects=entry.defects)[0]


def client_factory(protocol: str, workload: str, cluster_id: str) -> ClientFactory:
    """The clients that drive candidates of a protocol (:attr:`.Traits.protocol`) with a workload, for one run."""
    if protocol == "kafka":
        from workloads.clients.kafka import KAFKA_CLIENTS

        return KAFKA_CLIENTS[workload](cluster_id)
    from workloads.clients.reference import ReferenceClients

    return ReferenceClients()


def defects() -> Sequence[Defect]:
    """All defects of the reference."""
    from clusters.candidates.reference.core.defects import DEFECTS

    return DEFECTS
