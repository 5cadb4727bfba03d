"""``meta.properties``: whose disk this is (R853-29)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clusters.evidence.identity import text_to_uuid
from workloads.problem import Problem

NAME = "meta.properties"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What is in the file; Kafka up to 3.6 writes no directory id."""

    cluster_id: str
    node_id: int
    directory_id: str | None


def read_meta_properties(path: Path) -> MetaProperties | None:
    """Read the file; None when there is none. Raises Problem ``foreign-meta-properties`` for anything else."""
    try:
        return parse_meta_properties(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None


def parse_meta_properties(data: bytes, place: str) -> MetaProperties:
    """Read the content of the file; ``place`` is what a Problem names."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _foreign(place, "it is no text") from None
    fields = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", "!")):
            name, equals, value = line.partition("=")
            if not equals:
                raise _foreign(place, f"the line {line!r} is no property")
            fields[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    if fields.get("version") not in ("0", "1"):
        raise _foreign(place, f"version {fields.get('version')!r} is neither 0 nor 1")
    try:
        directory_id = fields.get("directory.id")
        if directory_id is not None:
            text_to_uuid(directory_id)
        return MetaProperties(fields["cluster.id"], int(fields["node.id"]), directory_id)
    except (KeyError, ValueError) as error:
        raise _foreign(place, f"{error} is missing or malformed") from None


def write_meta_properties(properties: MetaProperties) -> str:
    """The text of the file, as a formatting tool writes it."""
    lines = ["version=1", f"cluster.id={properties.cluster_id}", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={properties.directory_id}")
    return "\n".join(lines) + "\n"


def _foreign(place: str, why: str) -> Problem:
    return Problem(
        "foreign-meta-properties",
        f"{place} is no meta.properties of KRaft: {why}.",
        "Look at the file; the node's disk is not what was formatted.",
    )
