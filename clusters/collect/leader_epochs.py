"""``leader-epoch-checkpoint``: where each epoch begins in a log. Text: version 0, the count, then ``epoch startOffset``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workloads.problem import Problem

NAME = "leader-epoch-checkpoint"


def read_leader_epochs(path: Path) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs in the order of the file; empty when there is no file.

    Raises Problem ``foreign-leader-epochs`` for a torn or foreign one. Order and growth are not judged here.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise _foreign(path, "it is no text") from None
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = []
        for line in lines[2 : 2 + count]:
            epoch, start = line.split(" ")
            entries.append((int(epoch), int(start)))
    except (ValueError, IndexError) as error:
        raise _foreign(path, str(error)) from None
    if version != 0 or len(entries) != count or lines[2 + count :] != [""]:
        raise _foreign(path, f"version {version}, {len(entries)} of {count} entries")
    return entries


def write_leader_epochs(entries: Iterable[tuple[int, int]]) -> str:
    """The text of the file."""
    lines = [f"{epoch} {start}" for epoch, start in entries]
    return "\n".join(["0", str(len(lines)), *lines]) + "\n"


def _foreign(path: Path, why: str) -> Problem:
    return Problem(
        "foreign-leader-epochs",
        f"{path} is torn or no leader-epoch-checkpoint: {why}.",
        "Look at the file; nothing else is read from it.",
    )
