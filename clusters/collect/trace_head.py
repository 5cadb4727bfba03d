"""The first line of a trace; apart from the reader, so that a node that writes traces loads no Arrow."""

from __future__ import annotations

import msgspec

TRACE_VERSION = 1


class TraceHead(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a trace."""

    trace_version: int = TRACE_VERSION
    node: str
    directory_id: str
    incarnation: int
