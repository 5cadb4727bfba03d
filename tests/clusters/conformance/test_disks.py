"""Disks that fail under a node, on every backend that offers them: what the node's own program meets, and what it finds afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.disks import Disks
from nemesis.faults.capabilities import OF_BACKEND
from nemesis.faults.disk_choice import no_disks
from nemesis.faults.kinds.kind import Capability
from tests.clusters.conformance.grounds import Ground
from tests.clusters.conformance.lab import Lab

BLOCKS = 8192


@pytest.fixture
def disks(ground: Ground, tmp_path: Path, ledger: Path) -> Iterator[tuple[Lab, Disks]]:
    """One node whose disk is a file system of its own."""
    if Capability.DISK_FAILURES not in OF_BACKEND[ground.backend]:
        pytest.skip(f"{ground.backend} does not offer it")
    if os.geteuid() != 0 or (why := no_disks(ground.backend)):
        pytest.skip("only root can mount file systems" if os.geteuid() else why)
    lab = Lab(replace(ground, place=replace(ground.place, filesystem="ext4")), tmp_path / "run", 1, ledger)
    try:
        lab.cluster.up(print)
        lab.clear()
        lab.serve("n1")
        assert isinstance(lab.cluster, Disks)
        yield lab, lab.cluster
    finally:
        lab.cluster.down()


@pytest.mark.shows("power-cut")
def test_after_a_power_cut_a_node_finds_what_it_had_synced_and_nothing_else(disks: tuple[Lab, Disks]) -> None:
    lab, cluster = disks
    assert lab.ask("n1", f"append {BLOCKS}") == "done"
    assert lab.ask("n1", "write precious") == "done"
    assert lab.ask("n1", "read it") == "precious", "it is written, and not synced"
    lab.kill("n1")
    cut = cluster.cut_power("n1", None)
    assert (cut.happened, dict(cut.lost)) == (True, {"written": len("precious")})
    lab.serve("n1")
    assert lab.ask("n1", "size it") == str(BLOCKS)
    assert lab.ask("n1", "read it", 2.0) != "precious"


@pytest.mark.shows("disk-full", "disk-read-only", "disk-eio")
def test_a_node_meets_the_error_of_its_disk_and_none_after_it_is_mended(disks: tuple[Lab, Disks]) -> None:
    lab, cluster = disks
    for times, (how, error) in enumerate((("full", "ENOSPC"), ("read-only", "EROFS"), ("failing", "EIO")), start=1):
        assert lab.ask("n1", f"append {BLOCKS}") == "done"
        assert cluster.break_disk("n1", how) == error
        assert lab.ask("n1", f"append {BLOCKS}") == error, how
        if how != "full":
            lab.kill("n1")
        cluster.mend_disk("n1")
        if how != "full":
            lab.serve("n1")
        assert lab.ask("n1", "size it") == str(BLOCKS * times), "what was written before is there, and no more"
