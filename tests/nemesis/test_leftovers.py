"""The disks that a killed controller left: whose they are, also in the middle of a wipe."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusters.collect.collection import read_collections
from nemesis.store.evidence import collect_leftovers, read_run_journal
from tests.checker.tables import manifest
from workloads.journal import Journal

OLD, NEW = "old-directory-id", "new-directory-id"
CANDIDATE = cast("Any", SimpleNamespace(keep=lambda: ("meta.properties",)))


def run_with(folder: Path, *life: tuple[str, str, int]) -> Path:
    """A run whose controller was killed after these rows of n1's ``lifecycle``: (kind, directory id, incarnation)."""
    described = manifest()
    journal = Journal(folder / "journal", described.run_id)
    for number, (kind, directory_id, incarnation) in enumerate(life):
        row = {"node": "n1", "directory_id": directory_id, "assigned": False, "incarnation": incarnation}
        journal.append("lifecycle", {**row, "kind": kind, "ts_ns": number, "detail": None})
    journal.close()
    data = folder / "nodes" / "n1" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("directory.id=whichever\n")
    collect_leftovers(folder, described, CANDIDATE, read_run_journal(folder))
    return folder


LIVED = (("format", OLD, 0), ("start", OLD, 1))
ENDED = (*LIVED, ("kill", OLD, 1), ("wipe", OLD, 1))


@pytest.mark.parametrize(
    ("life", "directory_id", "incarnation"),
    [
        pytest.param(LIVED, OLD, 1, id="the process that ran last wrote it"),
        pytest.param((*ENDED, ("format", NEW, 1)), NEW, 2, id="formatted, and nothing has run on it"),
        pytest.param((*ENDED, ("format", NEW, 1), ("start", NEW, 2)), NEW, 2, id="the new disk has been used"),
    ],
)
def test_a_copy_names_the_process_that_wrote_it(
    tmp_path: Path, life: tuple[tuple[str, str, int], ...], directory_id: str, incarnation: int
) -> None:
    ((collection, copy),) = read_collections(run_with(tmp_path, *life), "n1")
    assert (collection.directory_id, collection.incarnation) == (directory_id, incarnation)
    assert collection.final
    assert (copy / "meta.properties").exists()


def test_a_disk_in_the_middle_of_a_wipe_is_nobodys(tmp_path: Path) -> None:
    assert read_collections(run_with(tmp_path, *ENDED), "n1") == []
