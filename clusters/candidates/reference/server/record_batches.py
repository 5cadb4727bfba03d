"""The core's batches ↔ Kafka's record batches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from kio.schema.leader_change_message.v1.data import LeaderChangeMessage

from clusters.candidates.reference.core.records import DATA, LEADER_CHANGE, Batch, LeaderChange
from clusters.evidence.identity import node_id, node_name, text_to_uuid, uuid_to_text
from clusters.wire import batches, control_records
from clusters.wire.problems import WireError
from clusters.wire.reference_records import Command, decode_command, encode_command


def encoded(batch: Batch, timestamp_ms: int) -> bytes:
    """The bytes of a batch, made once; a batch that came from a leader or from disk keeps those it came with."""
    if not batch.encoded:
        batch.encoded = _encode(batch, timestamp_ms)
    return batch.encoded


def _encode(batch: Batch, timestamp_ms: int) -> bytes:
    written = []
    for offset, record in enumerate(batch.records, batch.base_offset):
        if isinstance(record, Command):
            written.append(batches.Record(offset, timestamp_ms, None, encode_command(record)))
        else:
            voters = [_voter(each) for each in record.voters]
            key, value = control_records.encode_control(control_records.leader_change(record.leader_id, voters))
            written.append(batches.Record(offset, timestamp_ms, key, value))
    return batches.encode_batch(written, epoch=batch.epoch, control=batch.kind != DATA)


@lru_cache(maxsize=256)
def _voter(text: str) -> tuple[int, UUID]:
    node, _, directory_id = text.partition("/")
    return node_id(node), text_to_uuid(directory_id)


def core_batch(batch: batches.Batch) -> Batch:
    """Read a batch of the log. Raises WireError for one that the reference candidate does not write."""
    records = batches.records(batch)
    if [each.offset for each in records] != list(range(batch.base_offset, batch.end_offset)):
        raise WireError(f"the batch at offset {batch.base_offset} has gaps in its offsets")
    if not batch.control:
        commands = tuple(decode_command(each.value) for each in records)
        return Batch(batch.base_offset, batch.epoch, DATA, commands, batch.raw)
    changes = []
    for record in records:
        message = control_records.decode_control(record.key, record.value)
        if not isinstance(message, LeaderChangeMessage):
            raise WireError(f"the control record at offset {record.offset} is no LeaderChange of version 1")
        voters = (
            f"{node_name(each.voter_id)}/{uuid_to_text(each.voter_directory_id or UUID(int=0))}"
            for each in message.voters
        )
        changes.append(LeaderChange(message.leader_id, tuple(voters)))
    return Batch(batch.base_offset, batch.epoch, LEADER_CHANGE, tuple(changes), batch.raw)


def core_batches(data: bytes | None) -> tuple[Batch, ...]:
    """Read the batches of a Fetch answer. Raises WireError."""
    return tuple(core_batch(each) for each in batches.decode_batches(data or b""))


def sparse_batch(entries: Iterable[tuple[int, int]], timestamp_ms: int) -> bytes:
    """(offset, value) of appends as one batch with gaps, empty when there are none: what a poll is answered with."""
    written = [
        batches.Record(offset, timestamp_ms, None, encode_command(Command("append", value)))
        for offset, value in entries
    ]
    return batches.encode_batch(written, epoch=-1) if written else b""
