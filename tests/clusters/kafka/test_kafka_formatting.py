"""Disks written by hand hold what kafka-storage writes, release by release."""

from __future__ import annotations

import pytest

from clusters.candidates.kafka import configuration, formatting, install
from clusters.candidates.kafka.candidate import KafkaCandidate
from clusters.candidates.kafka.java import find_java
from clusters.collect.meta_properties import read_meta_properties
from clusters.wire.batches import records, scan_batches
from clusters.wire.control_records import SNAPSHOT_HEADER, control_type
from tests.clusters.kafka.loopback import quorum

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RELEASES = [
    ("3.6.2", "static"),
    ("3.7.0", "static"),
    ("3.9.2", "static"),
    ("3.9.2", "dynamic"),
    ("4.1.2", "dynamic"),
    ("4.3.1", "static"),
    ("4.3.1", "dynamic"),
]


def without_times(data: bytes) -> list[tuple]:
    """Everything in a file of batches but when it was written."""
    scan = scan_batches(data)
    assert scan.problem is None
    found = []
    for batch in scan.batches:
        head = (batch.base_offset, batch.epoch, batch.attributes, batch.last_offset_delta, batch.count)
        lines = []
        for record in records(batch):
            header = batch.control and control_type(record.key) == SNAPSHOT_HEADER
            lines.append((record.offset, record.key, record.value[:2] if header else record.value))
        found.append((head, batch.producer_id, batch.producer_epoch, batch.base_sequence, lines))
    return found


def files(data) -> list[str]:
    return sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())


@pytest.mark.parametrize(("version", "kind"), RELEASES)
@pytest.mark.parametrize("first", [True, False], ids=["first", "wiped"])
def test_a_disk_written_by_hand_is_the_tools(tmp_path, version, kind, first):
    candidate = KafkaCandidate(version, quorum=kind)
    candidate.install(print)
    release = candidate.release
    by_hand = quorum(tmp_path / "hand", kind)
    node = by_hand.nodes[1]
    disk = candidate.format(by_hand, node, first=first)

    tool = quorum(tmp_path / "tool", kind)
    # The same addresses and identities, other directories.
    tool_nodes = tuple(
        type(node)(other.name, other.node_id, other.role, other.address, other.port, mine.directory)
        for other, mine in zip(by_hand.nodes, tool.nodes, strict=True)
    )
    tool = type(tool)(tool.cluster_id, tool_nodes, tool.timers, kind, by_hand.directory_ids, tool.seed)
    path = install.installed_class_path(release, find_java(), print)
    properties = configuration.write_configuration(release, tool, tool.nodes[1])
    formatting.format_with_tool(find_java(), path, properties, tool, tool.nodes[1], first=first)

    ours, theirs = node.data, tool.nodes[1].data
    assert files(ours) == files(theirs)
    mine, other = (read_meta_properties(data / "meta.properties") for data in (ours, theirs))
    assert (mine.cluster_id, mine.node_id) == (other.cluster_id, other.node_id)
    assert (mine.directory_id is None) == (other.directory_id is None) == (not release.writes_directory_id)
    assert disk.assigned is not release.writes_directory_id
    if first:
        assert disk.directory_id == by_hand.directory_ids["n2"]
    else:
        assert disk.directory_id != by_hand.directory_ids["n2"]
    for name in files(ours):
        if name.endswith(".checkpoint"):
            assert without_times((ours / name).read_bytes()) == without_times((theirs / name).read_bytes())
