"""Record batches: golden bytes, kio as a second reader, tails and foreign bytes."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from clusters.wire import control_records
from clusters.wire.batches import Record, decode_batches, encode_batch, records, scan_batches, stamped
from clusters.wire.problems import WireError

RECORDS = [Record(10, 1000, None, b"abc"), Record(11, 1002, b"k", None, ((b"h", b"v"),))]
GOLDEN = bytes.fromhex(
    """
    000000000000000a 00000047 00000003 02 406c003c
    0000 00000001 00000000000003e8 00000000000003ea ffffffffffffffff ffff ffffffff 00000002
    12 00 00 00 01 06616263 00
    16 00 04 02 026b 01 02 0268 0276
    """
)
"""base offset, length, epoch, magic, CRC-32C; attributes, last delta, timestamps, producer, count; two records"""


def test_golden_bytes():
    assert encode_batch(RECORDS, epoch=3) == GOLDEN


def test_kio_reads_the_golden_batch_alike():
    batch, size = read_batch(GOLDEN, 0)
    assert size == len(GOLDEN)
    assert [(each.offset, each.key, each.value) for each in batch.records] == [
        (each.offset, each.key, each.value) for each in RECORDS
    ]


optional_bytes = st.none() | st.binary(max_size=200)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(-(2**40), 2**40), optional_bytes, optional_bytes), min_size=1),
    st.integers(0, 2**40),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
@settings(deadline=None)
def test_records_come_back(rows, base, epoch, control):
    written, offset = [], base
    for gap, timestamp_ms, key, value in rows:
        written.append(Record(offset, timestamp_ms, key, value))
        offset += gap
    (batch,) = decode_batches(encode_batch(written, epoch=epoch, control=control))
    assert records(batch) == written
    assert (batch.base_offset, batch.epoch, batch.control) == (base, epoch, control)
    assert batch.end_offset == written[-1].offset + 1


def test_a_stamped_batch_keeps_its_crc_and_moves_its_records():
    (batch,) = decode_batches(stamped(GOLDEN, 500, 9))
    assert (batch.epoch, [each.offset for each in records(batch)]) == (9, [500, 501])


def test_a_torn_second_batch_leaves_the_first():
    whole = GOLDEN
    for kept in range(1, len(whole)):
        scan = scan_batches(whole + whole[:kept])
        assert ([each.base_offset for each in scan.batches], scan.valid_bytes, scan.torn) == ([10], len(whole), True)
        assert scan.problem is not None


def test_zeros_behind_a_batch_are_torn():
    scan = scan_batches(GOLDEN + bytes(4096))
    assert (len(scan.batches), scan.torn) == (1, True)


def test_a_flipped_bit_in_the_last_batch_is_torn_and_in_an_earlier_one_is_damage():
    whole = GOLDEN
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    assert scan_batches(whole + flipped).torn
    scan = scan_batches(flipped + whole)
    assert (scan.batches, scan.torn) == ([], False)
    assert "CRC of the batch at offset 10" in (scan.problem or "")


@given(st.binary(min_size=62, max_size=300).filter(lambda data: data[16] != 2 and any(data[:61])))
def test_foreign_bytes_are_no_torn_log(data):
    scan = scan_batches(data)
    assert (scan.batches, scan.torn) == ([], False)
    with pytest.raises(WireError):
        decode_batches(data)


def test_compressed_batches_are_refused():
    raw = bytearray(GOLDEN)
    raw[22] |= 1
    batch = scan_batches(bytes(raw), check_crc=False).batches[0]
    with pytest.raises(WireError, match="compressed"):
        records(batch)


DISK = UUID("00000000-0000-4000-8000-00000000abcd")


@pytest.mark.parametrize(
    "message",
    [
        control_records.leader_change(1, [(1, DISK), (2, DISK)], [(1, DISK)]),
        control_records.voters_record([control_records.VoterAddress(1, DISK, "h", 9)]),
        control_records.kraft_version(1),
        control_records.snapshot_header(17),
        control_records.snapshot_footer(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_control_records_come_back(message):
    key, value = control_records.encode_control(message)
    assert control_records.decode_control(key, value) == message


def test_a_leader_change_as_kafka_writes_it():
    key, value = bytes.fromhex("00000002"), bytes.fromhex("0000000000030200000001000100")
    message = control_records.decode_control(key, value)
    assert (message.leader_id, [each.voter_id for each in message.voters]) == (3, [1])


def test_transaction_markers_and_garbage_are_no_control_records_of_kraft():
    assert control_records.decode_control(bytes.fromhex("00000001"), b"") is None
    with pytest.raises(WireError):
        control_records.decode_control(b"\0", b"")
    with pytest.raises(WireError):
        control_records.decode_control(bytes.fromhex("00000006"), b"\0")
