"""Makes an empty disk ready as a description says, and finds out which directory id it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusters.candidates.candidate import Disk
from clusters.candidates.external.description import (
    ALWAYS,
    ASSIGNED,
    FIRST,
    META_PROPERTIES,
    NONE,
    REJOIN,
    Description,
    TextFile,
)
from clusters.candidates.external.installing import last_lines, run_command
from clusters.candidates.external.placeholders import render
from clusters.cluster import NodeSpec
from clusters.collect.meta_properties import read_meta_properties
from clusters.evidence.identity import text_to_uuid
from workloads.problem import Problem

Values = Mapping[str, Callable[[], str]]


@dataclass(frozen=True, slots=True)
class Formatting:
    """One disk to format: ``planned`` is the directory id that it is to have."""

    node: NodeSpec
    planned: str
    first: bool

    @property
    def rejoins(self) -> bool:
        """It is not the first disk of an initial voter."""
        return not self.first or self.node.role != "voter"


def write_files(files: tuple[TextFile, ...], directory: Path, values: Values) -> tuple[Path, ...]:
    """Write texts below a directory; returns their paths."""
    written = []
    for file in files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(file.text, values), encoding="utf-8")
        written.append(path)
    return tuple(written)


def format_disk(description: Description, formatting: Formatting, values: Values) -> Disk:
    """Write the files, run the command, read the directory id. Raises Problem ``format-failed``, ``directory-id-…``."""
    how, node = description.format, formatting.node
    wanted = (ALWAYS, REJOIN) if formatting.rejoins else (ALWAYS, FIRST)
    node.data.mkdir(parents=True, exist_ok=True)
    write_files(tuple(file for file in how.files if file.when in wanted), node.data, values)
    command = how.rejoin_command if formatting.rejoins and how.rejoin_command is not None else how.command
    said = ""
    if command:
        said = run_command(
            [render(word, values) for word in command],
            node.directory,
            how.patience_s,
            slug="format-failed",
            what=f"The [format] command of {description.source}, for {node.name},",
        )
    source = how.directory_id.source
    if source == NONE:
        return Disk(formatting.planned, assigned=True)
    if source == ASSIGNED:
        return Disk(formatting.planned)
    return Disk(_written(description, node, said))


def _written(description: Description, node: NodeSpec, said: str) -> str:
    how = description.format.directory_id
    if how.source == META_PROPERTIES:
        place = description.layout.meta_properties or "meta.properties"
        properties = read_meta_properties(node.data / place)
        if properties is None or properties.directory_id is None:
            lacks = f"there is no {place}" if properties is None else f"{place} has no directory.id"
            raise _not_found(description, node, f"{lacks} on the disk of {node.name}", said)
        return properties.directory_id
    if how.file:
        path = node.data / how.file
        if not path.is_file():
            raise _not_found(description, node, f"there is no {how.file} on the disk of {node.name}", said)
        text, where = path.read_text(encoding="utf-8", errors="replace"), how.file
    else:
        text, where = said, "what the [format] command printed"
    match = re.search(how.match, text, re.MULTILINE)
    if match is None:
        raise _not_found(description, node, f"{how.match!r} matches nothing in {where}", text)
    found = match["directory_id"]
    try:
        text_to_uuid(found)
    except ValueError:
        raise _not_found(
            description,
            node,
            f"{found!r}, found in {where}, is no directory id (22 characters, as Kafka writes a UUID)",
            text,
        ) from None
    return found


def _not_found(description: Description, node: NodeSpec, why: str, said: str) -> Problem:
    files = ", ".join(sorted(file.relative_to(node.data).as_posix() for file in node.data.rglob("*") if file.is_file()))
    return Problem(
        "directory-id-not-found",
        f"The directory id of {node.name}'s disk is not found: {why}. After [format] the disk holds "
        f"{files or 'no file at all'}.{last_lines(said) if said else ''}",
        f"Mend [format] directory_id in {description.source}; "
        '"assigned" means that your program takes {{directory_id}}, "none" that it has none.',
    )
