"""KRaft's control records: what a batch with the control bit holds.

The key is ``version i16 = 0 | type i16``, the value a message of kio which starts with its own version. Kafka writes version 0 of
each; LeaderChange version 1, with directory ids, is in its schema, and the reference candidate writes that. A KRaft
control batch may hold several records: a new leader writes LEADER_CHANGE, and with it KRAFT_VERSION and KRAFT_VOTERS when it has
to; a snapshot starts with SNAPSHOT_HEADER and is complete only with SNAPSHOT_FOOTER at its end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage as LeaderChangeMessageV1
from kio.schema.leader_change_message.v1.data import Voter as LeaderChangeVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0.data import Endpoint as VoterEndpoint
from kio.schema.voters_record.v0.data import KRaftVersionFeature, Voter, VotersRecord
from kio.static.primitive import i16, i32, i64, u16

from clusters.wire.codec import decode, encode
from clusters.wire.problems import WireError

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

ControlMessage = (
    LeaderChangeMessage
    | LeaderChangeMessageV1
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)

_TYPES: dict[int, type[ControlMessage]] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    KRAFT_VOTERS: VotersRecord,
}
_NUMBERS = {message: number for number, message in _TYPES.items()} | {LeaderChangeMessageV1: LEADER_CHANGE}
_KEY = struct.Struct(">hh")


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """One voter of a voters record: who it is and where it listens."""

    node_id: int
    directory_id: UUID
    host: str
    port: int
    listener: str = "CONTROLLER"


def encode_control(message: ControlMessage) -> tuple[bytes, bytes]:
    """Key and value of a control record."""
    return _KEY.pack(0, _NUMBERS[type(message)]), encode(message)


def control_type(key: bytes | None) -> int:
    """The type in a control record's key. Raises WireError for what is no such key."""
    if key is None or len(key) < _KEY.size:
        raise WireError("a control record has no key of four bytes")
    return int(_KEY.unpack_from(key)[1])


def decode_control(key: bytes | None, value: bytes | None) -> ControlMessage | None:
    """Read a control record of KRaft; None for another type (transaction markers). Raises WireError for garbage."""
    kind = _TYPES.get(control_type(key))
    if kind is None:
        return None
    if kind is LeaderChangeMessage and value is not None and value[:2] == b"\0\x01":
        kind = LeaderChangeMessageV1
    message: ControlMessage = decode(kind, value or b"")[0]
    return message


def leader_change(
    leader_id: int, voters: Iterable[tuple[int, UUID]], granting: Iterable[tuple[int, UUID]] = ()
) -> LeaderChangeMessageV1:
    """The record that begins an epoch; voters are pairs of node id and directory id."""
    return LeaderChangeMessageV1(
        version=i16(1),
        leader_id=BrokerId(leader_id),
        voters=tuple(LeaderChangeVoter(voter_id=i32(each), voter_directory_id=disk) for each, disk in voters),
        granting_voters=tuple(
            LeaderChangeVoter(voter_id=i32(each), voter_directory_id=disk) for each, disk in granting
        ),
    )


def voters_record(voters: Iterable[VoterAddress]) -> VotersRecord:
    """The record that names the voter set."""
    return VotersRecord(
        version=i16(0),
        voters=tuple(
            Voter(
                voter_id=BrokerId(each.node_id),
                voter_directory_id=each.directory_id,
                endpoints=(VoterEndpoint(name=each.listener, host=each.host, port=u16(each.port)),),
                k_raft_version_feature=KRaftVersionFeature(min_supported_version=i16(0), max_supported_version=i16(1)),
            )
            for each in voters
        ),
    )


def kraft_version(version: int) -> KRaftVersionRecord:
    """The record that says whether voters have directory ids (1) or not (0)."""
    return KRaftVersionRecord(version=i16(0), k_raft_version=i16(version))


def snapshot_header(last_contained_log_timestamp_ms: int) -> SnapshotHeaderRecord:
    """The first record of a snapshot."""
    return SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_contained_log_timestamp_ms))


def snapshot_footer() -> SnapshotFooterRecord:
    """The last record of a complete snapshot."""
    return SnapshotFooterRecord(version=i16(0))
