"""What nodes run, brought to the machines by content: a file or a directory goes there once, whatever run asks for it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from clusters.backends.ssh.agent.frames import BLOB_BYTES_MAX
from clusters.backends.ssh.channel import AgentChannel

REFERENCE_NEEDS = ("kio", "msgspec")
"""distributions that the reference imports, with what they need in turn"""
_PARALLEL = 4
"""pieces under way to one machine"""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Content under its checksum: a file, or a tar archive that becomes a directory."""

    sha256: str
    content: bytes
    tree: bool


def pack(path: Path) -> Artifact:
    """A file or directory of the controller's, compiled modules left out; the same content gives the same checksum everywhere."""
    if path.is_file():
        return _artifact(path.read_bytes(), tree=False)
    names = sorted(
        each.relative_to(path).as_posix()
        for each in path.rglob("*")
        if each.is_file() and each.suffix != ".pyc" and "__pycache__" not in each.parts
    )
    return _tar([(name, path / name) for name in names])


def pack_packages() -> Artifact:
    """The installed packages that the reference needs, as one directory for PYTHONPATH."""
    files: dict[str, Path] = {}
    todo, done = list(REFERENCE_NEEDS), set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        distribution = metadata.distribution(name)
        for file in distribution.files or ():
            if ".." not in file.parts and file.suffix != ".pyc" and not file.is_absolute():
                files[file.as_posix()] = Path(str(distribution.locate_file(file)))
        todo += [_name(need) for need in distribution.requires or () if "extra ==" not in need]
    return _tar(sorted((name, path) for name, path in files.items() if path.is_file()))


def bring(channel: AgentChannel, artifacts: Sequence[Artifact]) -> int:
    """Send what the machine has not got; returns the bytes sent. Raises Problem ``copy-damaged``."""
    by_name = {artifact.sha256: artifact for artifact in artifacts}
    missing = channel.call("missing", 120.0, names=sorted(by_name))
    sent = 0
    for name in missing:
        artifact = by_name[name]
        under_way = []
        for offset in range(0, max(1, len(artifact.content)), BLOB_BYTES_MAX):
            piece = artifact.content[offset : offset + BLOB_BYTES_MAX]
            under_way.append(channel.ask("bring", piece, name=name, offset=offset))
            sent += len(piece)
            if len(under_way) >= _PARALLEL:
                under_way.pop(0).result(120.0)
        for answer in under_way:
            answer.result(120.0)
        channel.call("commit", 120.0, name=name, tree=artifact.tree)
    return sent


def _tar(files: Sequence[tuple[str, Path]]) -> Artifact:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in files:
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            archive.addfile(member, io.BytesIO(content))
    return _artifact(buffer.getvalue(), tree=True)


def _artifact(content: bytes, *, tree: bool) -> Artifact:
    return Artifact(hashlib.sha256(content).hexdigest(), content, tree)


def _name(requirement: str) -> str:
    """The distribution that a requirement such as ``crc32c>=2.9`` names."""
    end = next((at for at, sign in enumerate(requirement) if not (sign.isalnum() or sign in "-_.")), len(requirement))
    return requirement[:end]
