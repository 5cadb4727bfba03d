"""``quorum-state``: the promises of a node, one line of JSON (S853-1).

``data_version`` 0 (kraft.version 0) has ``votedId``, 1 (KIP-853) has ``votedDirectoryId`` beside it. Kafka drops the vote from the
file once the epoch's leader is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from clusters.evidence.identity import text_to_uuid

NAME = "quorum-state"


@dataclass(frozen=True, slots=True)
class StoredQuorumState:
    """What is in the file, −1 turned into None; or only why it could not be read."""

    epoch: int | None = None
    leader_id: int | None = None
    voted_for_id: int | None = None
    voted_for_directory_id: str | None = None
    problem: str | None = None


class _File(msgspec.Struct):
    leaderId: int  # Kafka's spelling
    leaderEpoch: int
    votedId: int
    data_version: int
    votedDirectoryId: str | None = None


def read_quorum_state(path: Path) -> StoredQuorumState:
    """Read the file. A missing one has no epoch; a torn or foreign one has ``problem``. Never raises for its content."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return StoredQuorumState()
    return parse_quorum_state(data)


def parse_quorum_state(data: bytes) -> StoredQuorumState:
    """Read the content of the file, see :func:`read_quorum_state`."""
    if not data.strip(b"\0 \n"):
        return StoredQuorumState(problem=f"quorum-state holds {len(data)} bytes and nothing in them: torn")
    try:
        stored = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return StoredQuorumState(problem=f"quorum-state is torn or foreign: {error}")
    if stored.data_version not in (0, 1):
        return StoredQuorumState(problem=f"quorum-state has the unknown data_version {stored.data_version}")
    if stored.leaderEpoch < 0:
        return StoredQuorumState(problem=f"quorum-state has the epoch {stored.leaderEpoch}")
    voted_for = None if stored.votedId < 0 else stored.votedId
    directory_id = stored.votedDirectoryId if voted_for is not None else None
    if directory_id is not None:
        try:
            if text_to_uuid(directory_id).int == 0:
                directory_id = None
        except ValueError:
            return StoredQuorumState(problem=f"quorum-state has the directory id {directory_id!r}")
    return StoredQuorumState(
        epoch=stored.leaderEpoch,
        leader_id=None if stored.leaderId < 0 else stored.leaderId,
        voted_for_id=voted_for,
        voted_for_directory_id=directory_id,
    )


def write_quorum_state(epoch: int, leader_id: int | None, voted_for: tuple[int, str] | None) -> bytes:
    """The content of the file in ``data_version`` 1."""
    voted_id, voted_directory_id = voted_for if voted_for is not None else (-1, "AAAAAAAAAAAAAAAAAAAAAA")
    return msgspec.json.encode(
        {
            "leaderId": -1 if leader_id is None else leader_id,
            "leaderEpoch": epoch,
            "votedId": voted_id,
            "votedDirectoryId": voted_directory_id,
            "data_version": 1,
        }
    )
