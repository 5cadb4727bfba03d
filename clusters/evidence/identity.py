"""Who a node is: its name, its node id, and the directory id of the disk that it runs on (R853-29).

A wiped disk comes back with a new directory id and is another identity. Directory ids are written as Kafka writes them:
22 characters of URL-safe base64. Where a release has none (Kafka up to 3.6) the framework gives each formatted disk one
and marks it as assigned.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """The pair (node, directory id): what votes, leads and counts for a majority."""

    node: str
    directory_id: str

    def __str__(self) -> str:
        return f"{self.node}/{self.directory_id[:6]}"


def node_name(node_id: int) -> str:
    """Return the name of a node id: 1 is ``n1``."""
    return f"n{node_id}"


def node_id(name: str) -> int:
    """Return the node id of a name: ``n1`` is 1. Raises ValueError for another shape."""
    if not name.startswith("n"):
        raise ValueError(f"{name!r} is no node name (n1, n2, …)")
    return int(name[1:])


def uuid_to_text(value: UUID) -> str:
    """Write a UUID as Kafka does: URL-safe base64 without padding."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def text_to_uuid(text: str) -> UUID:
    """Read a UUID as Kafka writes it. Raises ValueError for anything else."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return UUID(bytes=raw)
