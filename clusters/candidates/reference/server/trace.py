"""The server's trace: rows of ``node_events`` as JSON lines, handed to the kernel at once (see ``clusters.collect.trace``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from clusters.collect.trace_head import TraceHead

Write = Callable[[bytes], None]
"""takes all bytes or raises OSError"""


class Trace:
    """Numbers rows and stamps them with the clock; one call of ``write`` for all rows of a turn."""

    def __init__(self, write: Write, head: TraceHead) -> None:
        self._write = write
        self._next_seq = 0
        self._encoder = msgspec.json.Encoder()
        write(self._encoder.encode(head) + b"\n")

    def add(self, rows: Iterable[dict[str, Any]], now_ns: int) -> None:
        """Write rows in their order."""
        lines = []
        for row in rows:
            lines.append({"seq": self._next_seq, "ts_ns": now_ns, **row})
            self._next_seq += 1
        if lines:
            self._write(self._encoder.encode_lines(lines))
