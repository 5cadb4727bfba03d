"""Arrow schemas of what nodes leave behind. ``run_id`` comes first in each, so that a folder of runs is one table.

Nodes are named ``n1``, ``n2``, … everywhere (columns ``node``, ``peer``, ``leader``, ``voted_for``); a directory id stands in a
column of its own. Offsets start at 0, end offsets and high watermarks are exclusive. ``ts_ns`` is nanoseconds since the start of
the run on the controller's monotonic clock, for display and liveness windows only: the order of one node's events is
(``incarnation``, ``seq``); nothing compares the times of two nodes for safety.

Kinds of ``node_events`` (a column is null where a kind does not use it):

=================== =======================================================================================================
kind                columns
=================== =======================================================================================================
start               epoch, state, leader, voted_for, log_end, log_epoch (what was recovered from disk), voters
state               state (new), previous_state, epoch, leader: one row a transition, initial state included
vote                granted, peer + peer_directory_id (the candidate; itself for its own vote), epoch (of the vote),
                    pre_vote, offset + entry_epoch (the candidate's last end offset and epoch), log_end + log_epoch (own)
append              offset (base), end_offset, epoch (of the records), checksum (of the batch), state
truncate            offset (new log end), log_end (old log end), high_watermark (own, before)
high_watermark      high_watermark (new), previous_high_watermark, epoch, state, entry_epoch (epoch of the entry below it),
                    voters
fetch               leader only: a peer's log end became known: peer, peer_directory_id, offset (its end offset), epoch
apply               offset (applied end offset, exclusive), high_watermark, digest (of the state machine after it)
acknowledge         leader only: a client is told ok: offset (of the record), epoch, high_watermark
read                a linearizable read is answered: offset (applied end offset), required_offset, high_watermark
read_offset         leader only: ReadOffset is answered: offset (answered), high_watermark, epoch
resign              leader leaves by check-quorum or on request: epoch, detail
wipe_identity       meta.properties written for a new disk: directory_id
fatal               the node itself says that what must not happen did (Kafka: truncation below the high watermark, a fatal fault): epoch,
                    detail (the line)
problem             lines of a node's output that should be evidence and are not understood: detail
=================== =======================================================================================================

``state`` is one of unattached, voted, prospective, candidate, leader, follower, resigned, observer.
"""

from __future__ import annotations

import pyarrow as pa

_RUN = pa.field("run_id", pa.string(), nullable=False)
_NODE = pa.field("node", pa.string(), nullable=False)
_DIRECTORY = pa.field("directory_id", pa.string())
_TS = pa.field("ts_ns", pa.int64())

LOG_ENTRIES = pa.schema(
    [
        _RUN,
        _NODE,
        _DIRECTORY,
        pa.field("collection", pa.int32(), nullable=False),  # 0, 1, … in the order of collection; the last is final
        pa.field("final", pa.bool_(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # data, leader_change, voters, kraft_version, control
        pa.field("checksum", pa.int64(), nullable=False),  # of the record's key, value and headers, not of its framing
        pa.field("f", pa.string()),  # the operation that the candidate decoded from the record: write, append, add, …
        pa.field("key", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("leader", pa.string()),  # of a leader_change record
        pa.field("voters", pa.list_(pa.string())),  # of a voters or leader_change record: "n1" or "n1/<directory id>"
        pa.field("below_high_watermark", pa.bool_()),  # the node itself said so; null where it is not known
    ]
)

NODE_EVENTS = pa.schema(
    [
        _RUN,
        _NODE,
        _DIRECTORY,
        pa.field("incarnation", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        _TS,
        pa.field("kind", pa.string(), nullable=False),
        pa.field("epoch", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("leader", pa.string()),
        pa.field("voters", pa.list_(pa.string())),
        pa.field("peer", pa.string()),
        pa.field("peer_directory_id", pa.string()),
        pa.field("state", pa.string()),
        pa.field("previous_state", pa.string()),
        pa.field("granted", pa.bool_()),
        pa.field("pre_vote", pa.bool_()),
        pa.field("voted_for", pa.string()),
        pa.field("entry_epoch", pa.int32()),
        pa.field("log_end", pa.int64()),
        pa.field("log_epoch", pa.int32()),
        pa.field("high_watermark", pa.int64()),
        pa.field("previous_high_watermark", pa.int64()),
        pa.field("required_offset", pa.int64()),
        pa.field("checksum", pa.int64()),
        pa.field("digest", pa.int64()),
        pa.field("detail", pa.string()),
    ]
)

SNAPSHOTS = pa.schema(
    [
        _RUN,
        _NODE,
        _DIRECTORY,
        pa.field("collection", pa.int32(), nullable=False),
        pa.field("end_offset", pa.int64(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("complete", pa.bool_(), nullable=False),
        pa.field("digest", pa.int64()),
        pa.field("voters", pa.list_(pa.string())),
    ]
)

RPCS = pa.schema(
    [
        _RUN,
        _TS,  # when its last byte first left the sender's kernel; where only the receiver saw it, when it arrived
        pa.field("delivered_ns", pa.int64()),  # when it arrived whole at a kernel that acknowledged it
        pa.field("connection", pa.string(), nullable=False),  # with correlation_id and kind it names the message
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # request, response
        pa.field("fate", pa.string(), nullable=False),  # delivered, unacknowledged, lost, torn, unknown
        pa.field("api", pa.string()),  # Kafka's name; null where it answers nothing that was seen
        pa.field("api_key", pa.int32()),
        pa.field("version", pa.int32()),
        pa.field("correlation_id", pa.int32()),
        pa.field("size_bytes", pa.int64(), nullable=False),  # without its length field
        pa.field("epoch", pa.int32()),  # that it is about, or that it tells
        pa.field("asked_epoch", pa.int32()),  # of a response: the epoch of its request
        pa.field("leader", pa.string()),  # that it names, or that sends it as leader (BeginQuorumEpoch, EndQuorumEpoch)
        pa.field(
            "replica", pa.string()
        ),  # the candidate of a Vote, who fetches in a Fetch; of a response: its request's
        pa.field("replica_directory_id", pa.string()),
        pa.field("voter", pa.string()),  # whom the request means; of a response: its request's
        pa.field("voter_directory_id", pa.string()),
        pa.field("pre_vote", pa.bool_()),
        pa.field("granted", pa.bool_()),
        pa.field("error", pa.string()),  # of a response: NONE, or Kafka's name of the error
        pa.field("offset", pa.int64()),  # fetch offset; a candidate's log end; ReadOffset's answer
        pa.field("last_epoch", pa.int32()),  # of the record before that offset
        pa.field("high_watermark", pa.int64()),  # told
        pa.field("diverging_epoch", pa.int32()),
        pa.field("diverging_end_offset", pa.int64()),
        pa.field("records_bytes", pa.int64()),
        # false for a Fetch, BeginQuorumEpoch, … that differs from an earlier one of its connection in offsets only: what most are
        pa.field("is_news", pa.bool_(), nullable=False),
        pa.field("detail", pa.string()),  # JSON of the whole message, for those that carry no records
        pa.field("problem", pa.string()),  # why it cannot be read, if so
    ]
)

QUORUM_SAMPLES = pa.schema(
    [
        _RUN,
        _TS,
        _NODE,  # the node that was asked
        pa.field("asked_ns", pa.int64()),
        pa.field(
            "error", pa.string()
        ),  # Kafka's name of the error, or of what the connection met; null when it answered
        pa.field("claims_leadership", pa.bool_(), nullable=False),  # it answered without error as the leader
        pa.field("leader", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("high_watermark", pa.int64()),
        pa.field("voters", pa.list_(pa.string())),  # "n1/<directory id>", or "n1" where there is none
        pa.field("observers", pa.list_(pa.string())),
        pa.field("log_end_offsets", pa.list_(pa.int64())),  # of voters, then observers
    ]
)

QUORUM_STATES = pa.schema(
    [
        _RUN,
        _NODE,
        _DIRECTORY,
        pa.field("incarnation", pa.int32(), nullable=False),  # of the process that had written it
        pa.field("collection", pa.int32(), nullable=False),
        _TS,
        pa.field("epoch", pa.int32()),  # null when there is no file
        pa.field("voted_for", pa.string()),
        pa.field("voted_for_directory_id", pa.string()),
        pa.field("leader", pa.string()),
        pa.field("log_start", pa.int64()),
        pa.field("log_end", pa.int64()),
        pa.field("log_epoch", pa.int32()),  # of the last record
        pa.field("problem", pa.string()),  # why a file could not be read, if so
    ]
)

LIFECYCLE = pa.schema(
    [
        _RUN,
        _NODE,
        _DIRECTORY,
        pa.field("assigned", pa.bool_(), nullable=False),  # the framework gave the directory id, not the release
        pa.field("incarnation", pa.int32(), nullable=False),
        # format, start, stop, kill, pause, resume, crash, wipe, starved; damage, restore (a fault changed what is on the disk);
        # power-cut (what was not synced is gone, which excuses nothing); swap (a disk is taken out, or is back as it was);
        # deprive (from here on a fault withholds the process's disk or memory); clock (a fault changed how its wall clock goes:
        # "steady, set back 1.500 s", "unsteady, set back 0.000 s" for one that drifts or strobes)
        pa.field("kind", pa.string(), nullable=False),
        _TS,
        pa.field("detail", pa.string()),
    ]
)

STATE_DIGESTS = pa.schema(
    [
        _RUN,
        _NODE,
        _DIRECTORY,
        pa.field("applied_offset", pa.int64(), nullable=False),
        pa.field("digest", pa.int64(), nullable=False),
    ]
)

TABLES = {
    "log_entries": LOG_ENTRIES,
    "node_events": NODE_EVENTS,
    "snapshots": SNAPSHOTS,
    "rpcs": RPCS,
    "quorum_samples": QUORUM_SAMPLES,
    "quorum_states": QUORUM_STATES,
    "lifecycle": LIFECYCLE,
    "state_digests": STATE_DIGESTS,
}
