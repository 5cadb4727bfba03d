"""The reference as a candidate: formatting, identities, launching, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from clusters.backends.files import copy_matching
from clusters.candidates.candidate import Quorum
from clusters.candidates.reference.candidate import PROMISES, ReferenceCandidate, source_checksums
from clusters.candidates.reference.core.effects import Persist
from clusters.candidates.reference.core.records import DATA, Batch
from clusters.candidates.reference.server.configuration import ServerConfig
from clusters.candidates.reference.server.real_disk import OsDisk
from clusters.candidates.reference.server.storage import Storage
from clusters.cluster import NodeSpec
from clusters.collect.meta_properties import read_meta_properties
from clusters.evidence.identity import uuid_to_text
from clusters.wire.reference_records import Command
from workloads.history.manifest import Timers
from workloads.problem import Problem


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    nodes = tuple(
        NodeSpec(
            f"n{each}", each, "observer" if each == 4 else "voter", "127.0.0.1", 9000 + each, tmp_path / f"n{each}"
        )
        for each in (1, 2, 3, 4)
    )
    return Quorum(
        cluster_id="cluster",
        nodes=nodes,
        timers=Timers(election_timeout_ms=400, fetch_timeout_ms=800, check_quorum_ms=1200, request_timeout_ms=500),
        kind="dynamic",
        directory_ids={each.name: uuid_to_text(UUID(int=each.node_id, version=4)) for each in nodes},
        seed=3,
    )


def wiped(candidate: ReferenceCandidate, quorum: Quorum, times: int) -> list[str]:
    """Directory ids of a node's disks: the first, and one after each wipe."""
    node = quorum.nodes[0]
    found = [candidate.format(quorum, node, first=True).directory_id]
    for number in range(times):
        node.data.rename(node.directory / f"data.wiped-{number}")
        found.append(candidate.format(quorum, node, first=False).directory_id)
        properties = read_meta_properties(node.data / "meta.properties")
        assert properties is not None
        assert properties.directory_id == found[-1]
    return found


def test_each_wiped_disk_has_an_identity_of_its_own(quorum):
    found = wiped(ReferenceCandidate(), quorum, 3)
    assert found[0] == quorum.directory_ids["n1"]
    assert len(set(found)) == 4


def test_a_disk_that_stands_in_for_another_has_an_identity_of_its_own(quorum):
    """The node is wiped, then its disk is taken out for a while; the one that it gets is neither of the two."""
    candidate, node = ReferenceCandidate(), quorum.nodes[0]
    found = wiped(candidate, quorum, 1)
    node.data.rename(node.directory / "data.taken-out-0")
    assert candidate.format(quorum, node, first=False).directory_id not in found


def test_a_wiped_node_keeps_its_identity_with_m_9(quorum):
    assert set(wiped(ReferenceCandidate(["M-9"]), quorum, 2)) == {quorum.directory_ids["n1"]}


def test_a_disk_that_is_in_use_is_not_formatted(quorum):
    candidate = ReferenceCandidate()
    candidate.format(quorum, quorum.nodes[0], first=True)
    with pytest.raises(Problem) as caught:
        candidate.format(quorum, quorum.nodes[0], first=True)
    assert caught.value.slug == "disk-not-empty"


def test_an_unknown_defect_is_a_problem():
    with pytest.raises(Problem):
        ReferenceCandidate(["M-999"])


def test_the_entry_tells_defects_promises_and_sources(quorum):
    entry = ReferenceCandidate(["M-1"]).install(lambda _text: None)
    assert entry.defects == ("vote-not-persisted",)
    assert entry.promises == PROMISES
    assert len(entry.provenance["clusters/candidates/reference/server/server.py"]) == 64
    assert entry.provenance == source_checksums()


@pytest.mark.parametrize(("defects", "jitter_ms"), [((), 400), (("M-2",), 0)])
def test_a_launch_tells_who_votes_and_how_timers_are_set(quorum, defects, jitter_ms):
    launch = ReferenceCandidate(defects).launch(quorum, quorum.nodes[3], 7)
    config = msgspec.json.decode(Path(launch.argv[-1]).read_bytes(), type=ServerConfig)
    core = config.core(quorum.directory_ids["n4"])
    assert [each.node_id for each in core.voters] == [1, 2, 3]
    assert core.me.node_id == 4
    assert (config.incarnation, core.election_jitter_ms) == (7, jitter_ms)
    assert core.fetch_max_wait_ms < core.request_timeout_ms
    assert launch.output == quorum.nodes[3].directory / "output" / "7.log"


def kept(candidate, node, target):
    copy_matching(node.data, candidate.keep(), target)
    return {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}


def test_what_is_kept_are_the_files_that_collectors_read(quorum, tmp_path):
    candidate, node = ReferenceCandidate(), quorum.nodes[0]
    candidate.format(quorum, node, first=True)
    assert kept(candidate, node, tmp_path / "first") == {"meta.properties"}
    storage = Storage(OsDisk(node.data), 10_000)
    storage.recover()
    storage.persist(Persist(append=[Batch(0, 1, DATA, (Command("append", 5),))]), 0)
    assert kept(candidate, node, tmp_path / "second") == {
        "meta.properties",
        "__cluster_metadata-0/leader-epoch-checkpoint",
        "__cluster_metadata-0/00000000000000000000.log",
    }
