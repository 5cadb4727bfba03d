"""Changes of the voter set by RPC (KIP-853): AddRaftVoter and RemoveRaftVoter, one attempt each, with what came of it.

A change is *installed* where the leader says so after it was committed, *refused* where the leader decided so before it appended
anything, and *unknown* otherwise: REQUEST_TIMED_OUT is answered by a leader whose records may still be committed (Kafka's
``AddVoterHandler``: high watermark unknown, voter not caught up, leadership lost and time-out share it), and so is silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest, Listener
from kio.schema.add_raft_voter.v0.response import AddRaftVoterResponse
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse
from kio.static.primitive import i32, i32Timedelta, u16

from clusters.evidence.identity import node_id, text_to_uuid
from clusters.wire.errors import error_name
from workloads.clients.client import Connect
from workloads.clients.connection import Connection, Unanswered, Unsent
from workloads.clients.deadlines import Deadlines

_CLIENT_ID = "operator"

_REFUSALS = frozenset(
    {
        "UNSUPPORTED_VERSION",
        "INVALID_REQUEST",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INCONSISTENT_CLUSTER_ID",
        "DUPLICATE_VOTER",
        "VOTER_NOT_FOUND",
        "INVALID_VOTER_KEY",
    }
)
"""answered before anything is appended (Kafka's AddVoterHandler and RemoveVoterHandler)"""
_NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"
"""no refusal: a leader that resigns answers so for a change that it has appended already"""


class ChangeResult(StrEnum):
    """What is known of a change."""

    INSTALLED = "installed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter of a dynamic quorum: node and directory id, and where it listens."""

    node: str
    directory_id: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}/{self.directory_id}"


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was asked for, and what came of it."""

    action: str
    """add or remove"""
    voter: Voter
    result: ChangeResult
    reason: str = ""
    asked: bool = True
    """whether the request was sent"""
    led: bool = True
    """False: the node that was asked said that it does not lead, or could not be asked"""

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.action} {self.voter}: {self.result.value}{why}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A change on its way."""

    action: str
    voter: Voter
    request: Any
    response: type[Any]


class VoterChanges:
    """Asks one node, the leader as far as the caller knows, for changes. Each call has a connection of its own."""

    def __init__(self, connect: Connect, cluster_id: str, listener: str) -> None:
        self._connect = connect
        self._cluster_id = cluster_id
        self._listener = listener
        self._deadlines = Deadlines()

    async def add(self, leader: str, voter: Voter, timeout_s: float) -> Change:
        """Ask ``leader`` to add a voter, and wait until that is committed."""
        request = AddRaftVoterRequest(
            cluster_id=self._cluster_id,
            timeout=i32Timedelta.parse(timedelta(seconds=timeout_s)),
            voter_id=i32(node_id(voter.node)),
            voter_directory_id=text_to_uuid(voter.directory_id),
            listeners=(Listener(name=self._listener, host=voter.address, port=u16(voter.port)),),
        )
        return await self._ask(leader, Asked("add", voter, request, AddRaftVoterResponse), timeout_s)

    async def remove(self, leader: str, voter: Voter, timeout_s: float) -> Change:
        """Ask ``leader`` to remove a voter, and wait until that is committed."""
        request = RemoveRaftVoterRequest(
            cluster_id=self._cluster_id,
            voter_id=i32(node_id(voter.node)),
            voter_directory_id=text_to_uuid(voter.directory_id),
        )
        return await self._ask(leader, Asked("remove", voter, request, RemoveRaftVoterResponse), timeout_s)

    async def _ask(self, leader: str, asked: Asked, timeout_s: float) -> Change:
        connection = Connection(self._connect, leader, self._deadlines, _CLIENT_ID)
        try:
            answer = await connection.request(asked.request, asked.response, timeout_s)
        except Unsent as error:
            why = f"not sent to {leader}: {error.trouble.value}"
            return Change(asked.action, asked.voter, ChangeResult.REFUSED, why, asked=False, led=False)
        except Unanswered as error:
            return Change(
                asked.action, asked.voter, ChangeResult.UNKNOWN, f"{leader} gave no answer: {error.trouble.value}"
            )
        finally:
            connection.drop()
        code = int(answer.error_code)
        led = error_name(code) != _NOT_LEADER
        return Change(asked.action, asked.voter, *read_result(code, answer.error_message), led=led)


def read_result(code: int, message: str | None) -> tuple[ChangeResult, str]:
    """What an answer's error code means for the change, and the answer in words."""
    if code == 0:
        return ChangeResult.INSTALLED, ""
    name = error_name(code)
    said = f"{name}: {message}" if message else name
    return (ChangeResult.REFUSED if name in _REFUSALS else ChangeResult.UNKNOWN), said
