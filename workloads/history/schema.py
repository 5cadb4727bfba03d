"""Arrow schemas of the two tables that the controller writes: ``operations`` and ``faults``."""

from __future__ import annotations

import pyarrow as pa

OPERATIONS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("client_node", pa.string()),
        pa.field("pinned", pa.bool_(), nullable=False),
        pa.field("f", pa.string(), nullable=False),
        pa.field("key", pa.int64()),
        pa.field("input", pa.list_(pa.int64()), nullable=False),
        pa.field("output", pa.list_(pa.int64()), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("invoked_ns", pa.int64(), nullable=False),
        pa.field("completed_ns", pa.int64()),
        pa.field("consistency", pa.string(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("epoch", pa.int32()),
    ]
)

FAULTS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("fault_id", pa.int64(), nullable=False),
        pa.field("fault", pa.string(), nullable=False),
        pa.field("targets", pa.list_(pa.string()), nullable=False),
        pa.field("links", pa.list_(pa.string()), nullable=False),
        pa.field("planned_ns", pa.int64(), nullable=False),
        pa.field("started_ns", pa.int64()),
        pa.field("ended_ns", pa.int64()),
        pa.field("verified", pa.bool_()),
        pa.field("leader", pa.string()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("isolated", pa.list_(pa.string()), nullable=False),
        pa.field("replaced", pa.bool_(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)
