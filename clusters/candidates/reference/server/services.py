"""The requests that a server answers: how each is read, and how its answer is written. One row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersionsRequest3
from kio.schema.api_versions.v4.request import ApiVersionsRequest as ApiVersionsRequest4
from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.fetch.v17.request import FetchRequest as FetchRequest17
from kio.schema.fetch.v18.request import FetchRequest as FetchRequest18
from kio.schema.produce.v10.request import ProduceRequest
from kio.schema.vote.v2.request import VoteRequest

from clusters.candidates.reference.core import messages as core
from clusters.candidates.reference.server import client_messages as client
from clusters.candidates.reference.server import peer_messages as peer
from clusters.candidates.reference.server.configuration import NodeAddress
from clusters.candidates.reference.server.peer_messages import Local, Refused
from clusters.wire.messages import RequestTable
from clusters.wire.reference_messages import CompareAndSetRequest, ReadOffsetRequest, ReadRequest

API_VERSIONS = 18

TABLE = RequestTable(
    [
        ApiVersionsRequest3,
        ApiVersionsRequest4,
        BeginQuorumEpochRequest,
        CompareAndSetRequest,
        DescribeQuorumRequest,
        EndQuorumEpochRequest,
        FetchRequest17,
        FetchRequest18,
        ProduceRequest,
        ReadOffsetRequest,
        ReadRequest,
        VoteRequest,
    ]
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What answers are written with, besides the core's value."""

    local: Local
    nodes: tuple[NodeAddress, ...]
    wall_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Service:
    """One kind of request."""

    read: Callable[[Any, Local], core.Request]
    write: Callable[[Any, Surroundings], Any]
    blank: core.Response
    """what an answer without the core is made of: only its error is set"""

    def refusal(self, refused: Refused, around: Surroundings) -> Any:
        """The message that answers a refused request."""
        # Writers take any of Kafka's codes; the core's enumeration has only those that it gives itself.
        error = cast(core.Error, refused.error_code)
        return self.write(replace(self.blank, error=error), around)


_NONE = core.Error.NONE
_APPEND = core.AppendResponse(_NONE, -1, None)
_READ = core.ReadResponse(_NONE, -1, None)
_FETCH = core.FetchResponse(_NONE, -1, None, -1)

_SERVICES: dict[type[Any], Service] = {
    VoteRequest: Service(
        peer.read_vote, lambda answer, _: peer.write_vote_answer(answer), core.VoteResponse(_NONE, -1, None, False)
    ),
    BeginQuorumEpochRequest: Service(
        peer.read_begin,
        lambda answer, _: peer.write_begin_answer(answer),
        core.BeginQuorumEpochResponse(_NONE, -1, None),
    ),
    EndQuorumEpochRequest: Service(
        peer.read_end, lambda answer, _: peer.write_end_answer(answer), core.EndQuorumEpochResponse(_NONE, -1, None)
    ),
    FetchRequest17: Service(
        peer.read_fetch,
        lambda answer, around: peer.write_fetch_answer(answer, around.wall_ms(), version=17),
        _FETCH,
    ),
    FetchRequest18: Service(
        peer.read_fetch,
        lambda answer, around: peer.write_fetch_answer(answer, around.wall_ms(), version=18),
        _FETCH,
    ),
    ReadOffsetRequest: Service(
        peer.read_read_offset,
        lambda answer, around: peer.write_read_offset_answer(answer, around.local),
        core.ReadOffsetResponse(_NONE, -1, None, -1),
    ),
    ProduceRequest: Service(client.read_produce, lambda answer, _: client.write_produce_answer(answer), _APPEND),
    CompareAndSetRequest: Service(
        client.read_compare_and_set, lambda answer, _: client.write_compare_and_set_answer(answer), _APPEND
    ),
    ReadRequest: Service(client.read_read, lambda answer, _: client.write_read_answer(answer), _READ),
    DescribeQuorumRequest: Service(
        client.read_describe_quorum,
        lambda answer, around: client.write_describe_quorum_answer(answer, around.nodes),
        core.DescribeQuorumResponse(_NONE, -1, None),
    ),
}

_POLLS: dict[type[Any], Service] = {
    FetchRequest17: Service(
        client.read_poll,
        lambda answer, around: client.write_poll_answer(answer, around.wall_ms(), version=17),
        _READ,
    ),
    FetchRequest18: Service(
        client.read_poll,
        lambda answer, around: client.write_poll_answer(answer, around.wall_ms(), version=18),
        _READ,
    ),
}


def service(message: Any) -> Service | None:
    """The service of a request; None for ApiVersions, which the server answers by itself."""
    kind = type(message)
    if kind in _POLLS and client.is_poll(message):
        return _POLLS[kind]
    return _SERVICES.get(kind)


def api_versions(version: int) -> Any:
    """The answer to ApiVersions in this version."""
    return client.write_api_versions(version, TABLE.versions())
