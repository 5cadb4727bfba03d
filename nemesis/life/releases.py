"""Runs in which nodes are started under another release than their first: what the mixture is, and what it promises.

Only what both releases promise is judged, and a step between states is legal when either of them has it. The disks are those of the
older release, and what a cluster raises only on request (``metadata.version``, ``kraft.version``) stays as it was.
"""

from __future__ import annotations

import re

import msgspec

from clusters.candidates.candidate import Candidate
from nemesis.candidates import make_candidate
from workloads.history.manifest import CandidateEntry
from workloads.problem import Problem

FIRST, OTHER = "first", "other"
"""which of a run's releases: --version, --to-version"""


def other_release(name: str, version: str | None, to_version: str, quorum: str) -> Candidate:
    """The candidate under ``--to-version``. Raises Problem (usage) where there is no such thing."""
    if name != "kafka":
        raise Problem(
            "option-of-kafka",
            f"--to-version is for --candidate kafka: {name} has one release only.",
            "Add --candidate kafka, or leave it out.",
            usage=True,
        )
    if to_version == version:
        raise Problem(
            "release-same",
            f"--to-version {to_version} is the release that all nodes begin with.",
            "Name another one.",
            usage=True,
        )
    return make_candidate(name, version=to_version, quorum=quorum)[0]


def older(first: Candidate, other: Candidate | None) -> Candidate:
    """The one whose disks either can read."""
    return (
        first
        if other is None
        else min(first, other, key=lambda each: [int(n) for n in re.findall(r"\d+", each.version)])
    )


def both(first: str, other: str) -> str:
    """Two releases for people."""
    return f"{first} and {other}"


def mixture(first: CandidateEntry, other: CandidateEntry) -> CandidateEntry:
    """What the manifest keeps of a candidate that is run in two releases."""
    generations = sorted({first.generation, other.generation})
    return msgspec.structs.replace(
        first,
        version=both(first.version, other.version),
        releases=(first.version, other.version),
        promises=tuple(promise for promise in first.promises if promise in other.promises),
        evidence=tuple(table for table in first.evidence if table in other.evidence),
        generation=" or ".join(generations),
        provenance={
            **{f"{first.version}: {name}": told for name, told in first.provenance.items()},
            **{f"{other.version}: {name}": told for name, told in other.provenance.items()},
        },
    )
