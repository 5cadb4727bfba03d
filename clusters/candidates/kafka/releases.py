"""Releases of Apache Kafka, and what differs between them for a controller-only quorum.

Every fact here was seen by running the release or is told by its KIP: 3.7 writes a directory id into ``meta.properties``
(KIP-858) and lets controllers answer admin requests (KIP-919), 3.9 knows dynamic quorums (KIP-853), 4.0 asks for pre-votes
(KIP-996) and logs through Log4j 2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workloads.problem import Problem

OLDEST = (3, 6)
NEWEST = "4.3.1"
"""what is run unless a person names another release"""

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z.-]+)?")


@dataclass(frozen=True, slots=True)
class Release:
    """One release; ``text`` is the version as Maven Central and the jars' names write it."""

    text: str
    major: int
    minor: int
    patch: int

    @property
    def _line(self) -> tuple[int, int]:
        return self.major, self.minor

    @property
    def writes_directory_id(self) -> bool:
        """Whether ``meta.properties`` holds a directory id (3.7 and newer)."""
        return self._line >= (3, 7)

    @property
    def dynamic_quorums(self) -> bool:
        """Whether the voter set can live in the log (KIP-853, ``kraft.version`` 1)."""
        return self._line >= (3, 9)

    @property
    def controllers_advertise(self) -> bool:
        """Whether ``advertised.listeners`` may be set on a controller (3.9 and newer; older ones refuse to start)."""
        return self._line >= (3, 9)

    @property
    def controllers_describe_configs(self) -> bool:
        """Whether controllers answer DescribeConfigs (KIP-919)."""
        return self._line >= (3, 7)

    @property
    def pre_vote(self) -> bool:
        """Whether a follower asks for pre-votes before it raises the epoch (KIP-996)."""
        return self._line >= (4, 0)

    @property
    def log4j2(self) -> bool:
        """Whether the release logs through Log4j 2; older ones use reload4j."""
        return self._line >= (4, 0)

    @property
    def generation(self) -> str:
        """Which table of legal state transitions holds."""
        return "kip-996" if self.pre_vote else "kip-595"


def parse_release(text: str) -> Release:
    """Read a version such as ``4.1.2`` or ``4.4.0-SNAPSHOT``. Raises Problem (usage) for anything else and for releases before 3.6."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise Problem(
            "kafka-version",
            f"{text!r} is no version of Apache Kafka.",
            f"Give three numbers, for example --version {NEWEST}.",
            usage=True,
        )
    major, minor, patch = (int(part) for part in match.groups())
    if (major, minor) < OLDEST:
        raise Problem(
            "kafka-version",
            f"Apache Kafka {text} is too old: KRaft is tested from {OLDEST[0]}.{OLDEST[1]} on.",
            f"Give --version 3.6.2 or newer; the newest that is known here is {NEWEST}.",
            usage=True,
        )
    return Release(text, major, minor, patch)
