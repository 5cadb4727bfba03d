"""Requests that came in over one connection, and their answers on the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clusters.candidates.reference.core.messages import Request, Response
from clusters.candidates.reference.server.environment import Connection
from clusters.candidates.reference.server.peer_messages import Refused
from clusters.candidates.reference.server.services import (
    API_VERSIONS,
    TABLE,
    Service,
    Surroundings,
    api_versions,
    service,
)
from clusters.wire.framing import FrameSplitter
from clusters.wire.messages import encode_response
from clusters.wire.problems import UnsupportedRequest, WireError


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One request that the core has under way: its token."""

    caller: Caller
    correlation_id: int
    service: Service


class Caller:
    """A connection that somebody else opened: a client or a peer. Also its handler.

    Answers go back as they come, whatever the order of the requests: correlation ids tell them apart.
    """

    def __init__(
        self,
        connection: Connection,
        around: Surroundings,
        ask: Callable[[Call, Request], None],
        forget: Callable[[Caller, set[Call]], None],
    ) -> None:
        self._connection = connection
        self._around = around
        self._ask = ask
        self._forget = forget
        self._splitter = FrameSplitter()
        self._pending: set[Call] = set()
        self._out = bytearray()

    def received(self, data: bytes) -> None:
        """Bytes; what is no request costs the connection."""
        try:
            for payload in self._splitter.feed(data):
                self._request(payload)
        except WireError:
            self._connection.close()
            self.closed()

    def closed(self) -> None:
        """The other side is gone: nobody waits for these answers."""
        pending, self._pending = self._pending, set()
        self._forget(self, pending)

    def answer(self, call: Call, response: Response) -> None:
        """Write an answer; it leaves with :meth:`flush`."""
        if call in self._pending:
            self._pending.discard(call)
            self._out += encode_response(call.service.write(response, self._around), call.correlation_id)

    def flush(self) -> None:
        """Send what was answered since the last time."""
        if self._out:
            self._connection.send(bytes(self._out))
            self._out.clear()

    def _request(self, payload: bytes) -> None:
        try:
            header, message = TABLE.decode(payload)
        except UnsupportedRequest as unsupported:
            if unsupported.api_key != API_VERSIONS:
                raise
            self._send(api_versions(0), unsupported.correlation_id)
            return
        chosen = service(message)
        if chosen is None:
            self._send(api_versions(header.api_version), header.correlation_id)
            return
        try:
            request = chosen.read(message, self._around.local)
        except Refused as refused:
            self._send(chosen.refusal(refused, self._around), header.correlation_id)
            return
        call = Call(self, header.correlation_id, chosen)
        self._pending.add(call)
        self._ask(call, request)

    def _send(self, message: Any, correlation_id: int) -> None:
        self._connection.send(encode_response(message, correlation_id))
