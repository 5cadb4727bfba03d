"""Messages → rows of the table ``rpcs``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from clusters.collect.rpcs.conversation import Message
from clusters.collect.rpcs.messages import API_VERSIONS, BEGIN_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, Content
from clusters.evidence.schema import RPCS
from clusters.wire.reference_messages import READ_OFFSET

RAW = pa.schema(
    [
        *(column for column in RPCS if column.name != "run_id"),
        pa.field("sent_by", pa.string()),
        pa.field("delivered_by", pa.string()),
    ]
)
"""rows whose times are still those of the capturing nodes' own clocks: ``sent_by`` and ``delivered_by`` say whose"""

_MANY = frozenset({FETCH, FETCH_SNAPSHOT, API_VERSIONS, BEGIN_QUORUM_EPOCH, READ_OFFSET})
_CONTENT = tuple(Content.__dataclass_fields__)
_ALIKE = ("version", "epoch", "asked_epoch", "leader", "replica", "replica_directory_id", "error", "diverging_epoch")


class Rows:
    """Collects messages; remembers what was said before, to tell what is news."""

    def __init__(self) -> None:
        self._said: set[tuple[Any, ...]] = set()
        self._columns: dict[str, list[Any]] = {name: [] for name in RAW.names}

    def __len__(self) -> int:
        return len(self._columns["connection"])

    def add(self, messages: Iterable[Message]) -> None:
        """Append one row a message."""
        columns = self._columns
        for message in messages:
            content = message.content
            columns["ts_ns"].append(message.sent_ns)
            columns["sent_by"].append(message.sent_by)
            columns["delivered_ns"].append(message.delivered_ns)
            columns["delivered_by"].append(message.delivered_by)
            columns["connection"].append(message.connection)
            columns["src"].append(message.src)
            columns["dst"].append(message.dst)
            columns["kind"].append("request" if message.request else "response")
            columns["fate"].append(message.fate)
            columns["correlation_id"].append(message.correlation_id)
            columns["size_bytes"].append(message.size_bytes)
            columns["is_news"].append(self._is_news(message))
            for name in _CONTENT:
                columns[name].append(getattr(content, name))

    def take(self) -> pa.Table:
        """What was added since the last call, as a table of :data:`RAW`."""
        table = pa.table([pa.array(self._columns[each.name], each.type) for each in RAW], schema=RAW)
        for values in self._columns.values():
            values.clear()
        return table

    def _is_news(self, message: Message) -> bool:
        content = message.content
        if content.api_key not in _MANY or content.problem is not None or message.fate not in ("delivered", "lost"):
            return True
        said = (
            message.connection,
            message.request,
            content.api_key,
            *(getattr(content, name) for name in _ALIKE),
        )
        if said in self._said:
            return False
        self._said.add(said)
        return True


def on_the_controllers_clock(
    raw: pa.Table, run_id: str, started_monotonic_ns: int, ahead_ns: Mapping[str, int]
) -> pa.Table:
    """The rows of :data:`RPCS`, in the order in which they were sent. ``ahead_ns``: how far each node's clock is ahead."""

    def shifted(moment: str, clock: str) -> pa.ChunkedArray:
        nodes = pa.array(list(ahead_ns), pa.string())
        offsets = pa.array([started_monotonic_ns + ahead for ahead in ahead_ns.values()], pa.int64())
        return pc.subtract(raw[moment], pc.take(offsets, pc.index_in(raw[clock], value_set=nodes)))

    columns = {name: raw[name] for name in RPCS.names if name != "run_id"}
    columns["run_id"] = pa.array([run_id] * len(raw), pa.string())
    columns["ts_ns"] = shifted("ts_ns", "sent_by")
    columns["delivered_ns"] = shifted("delivered_ns", "delivered_by")
    return pa.table([columns[name] for name in RPCS.names], schema=RPCS).sort_by("ts_ns")
