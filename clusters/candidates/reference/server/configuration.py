"""What one server process is started with: a JSON file."""

from __future__ import annotations

import msgspec

from clusters.candidates.reference.core.config import NodeConfig
from clusters.candidates.reference.core.messages import ReplicaKey
from clusters.candidates.reference.server.storage import DEFAULT_SEGMENT_BYTES
from clusters.evidence.identity import node_name


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the quorum: where it listens, and the directory id that it was first formatted with."""

    node_id: int
    host: str
    port: int
    directory_id: str
    voter: bool

    @property
    def name(self) -> str:
        """``n1``."""
        return node_name(self.node_id)


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The file. Times in milliseconds, paths as the process sees them."""

    node_id: int
    incarnation: int
    cluster_id: str
    data_directory: str
    trace_path: str
    nodes: tuple[NodeAddress, ...]
    election_timeout_ms: int
    election_jitter_ms: int
    fetch_timeout_ms: int
    check_quorum_ms: int
    request_timeout_ms: int
    fetch_max_wait_ms: int
    fetch_max_records: int = 2000
    seed: int
    defects: tuple[str, ...] = ()
    segment_bytes: int = DEFAULT_SEGMENT_BYTES

    def node(self, node_id: int) -> NodeAddress | None:
        """The node with this id."""
        return next((each for each in self.nodes if each.node_id == node_id), None)

    def core(self, directory_id: str) -> NodeConfig:
        """What the protocol core is told; ``directory_id`` is the one on the disk."""
        return NodeConfig(
            me=ReplicaKey(self.node_id, directory_id),
            voters=tuple(ReplicaKey(each.node_id, each.directory_id) for each in self.nodes if each.voter),
            election_timeout_ms=self.election_timeout_ms,
            election_jitter_ms=self.election_jitter_ms,
            fetch_timeout_ms=self.fetch_timeout_ms,
            check_quorum_ms=self.check_quorum_ms,
            request_timeout_ms=self.request_timeout_ms,
            fetch_max_wait_ms=self.fetch_max_wait_ms,
            fetch_max_records=self.fetch_max_records,
        )
