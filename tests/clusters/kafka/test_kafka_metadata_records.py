"""Records of the metadata log as operations of clients; foreign and torn ones are never misread."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.candidates.kafka.evidence import decode_record
from clusters.wire.metadata_records import (
    REGISTERS,
    effect,
    incarnation_of,
    register_key,
    register_name,
    value_of,
)
from clusters.wire.problems import WireError


def frame(api_key: int, version: int, message: bytes) -> bytes:
    return bytes([1, api_key, version]) + message


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def config(name: str, value: str, resource_type: int = 4, resource: str = "") -> bytes:
    return frame(4, 0, bytes([resource_type]) + compact(resource) + compact(name) + compact(value) + b"\0")


def producer_ids(following: int) -> bytes:
    return frame(15, 0, (1000).to_bytes(4, "big") + (9).to_bytes(8, "big") + following.to_bytes(8, "big") + b"\0")


def registration(incarnation: UUID, version: int) -> bytes:
    migrating = b"\0" if version >= 2 else b""
    return frame(0, version, (7).to_bytes(4, "big") + migrating + incarnation.bytes + bytes(20))


def test_a_block_of_producer_ids_is_an_addition_with_the_value_after_it():
    assert decode_record(None, producer_ids(3000)) == ("add", None, 3000)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_registration_of_ours_is_an_append_in_every_version(version):
    assert decode_record(None, registration(incarnation_of(12), version)) == ("append", None, 12)
    assert decode_record(None, registration(UUID(int=5 << 100), version)) is None


def test_a_default_of_every_broker_is_a_write_and_other_configurations_are_not():
    assert decode_record(None, config(register_name(3), "17")) == ("write", 3, 17)
    assert decode_record(None, config("min.insync.replicas", "1")) is None
    assert decode_record(None, config(register_name(3), "17", resource="1")) is None
    assert decode_record(None, config(register_name(3), "17", resource_type=2)) is None


def test_registers_are_as_many_as_there_are_configurations():
    for key, name in enumerate(REGISTERS):
        assert register_key(name) == key
    with pytest.raises(ValueError, match=f"0 to {len(REGISTERS) - 1}"):
        register_name(len(REGISTERS))


def test_records_of_kafkas_own_are_no_operations():
    assert decode_record(None, frame(20, 0, b"\0")) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\1",
        b"\2\x0f\0" + bytes(20),
        producer_ids(5)[:10],
        config(register_name(0), "many"),
        config(register_name(0), "17")[:-4],
        registration(incarnation_of(1), 3)[:12],
    ],
)
def test_what_is_none_of_the_formats_is_refused(value):
    with pytest.raises(WireError):
        decode_record(None, value)


def test_a_record_with_a_key_is_not_of_the_metadata_log():
    with pytest.raises(WireError):
        decode_record(b"k", producer_ids(5))


@given(st.integers(0, 2**64 - 1))
def test_an_incarnation_carries_its_value(value):
    assert value_of(incarnation_of(value)) == value


@given(st.binary(max_size=60))
def test_garbage_is_refused_or_no_operation_and_never_something_else(data):
    try:
        found = effect(data)
    except WireError:
        return
    assert found is None or found.f in ("add", "append", "write")
