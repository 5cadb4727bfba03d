"""Records of Kafka's metadata log, as far as workloads write them: which operation of a client a record is.

A record's value is: frame version (unsigned varint, 1), api key, version (unsigned varints), message. Layouts are those of Kafka's
``metadata/src/main/resources/common/metadata``; all versions read here are flexible and begin with the same fields.

======== ===================== =========================================================================
api key  record                read as
======== ===================== =========================================================================
0        RegisterBrokerRecord  ``append`` of the value that the incarnation id carries, if a client chose it
4        ConfigRecord          ``write`` of a number to one of the registers of :func:`register_name`
15       ProducerIdsRecord     ``add``: the value after the addition (``nextProducerId``)
======== ===================== =========================================================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from clusters.wire.codec import read_unsigned_varint
from clusters.wire.problems import WireError

FRAME_VERSION = 1
REGISTER_BROKER = 0
CONFIG = 4
PRODUCER_IDS = 15
BROKER_RESOURCE = 4
"""resource type of a broker's configuration; the empty name is every broker's default"""

REGISTERS = (
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.retention.ms",
    "log.retention.bytes",
    "log.roll.ms",
    "log.roll.jitter.ms",
    "log.index.interval.bytes",
    "log.segment.delete.delay.ms",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.min.compaction.lag.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
)
"""Configurations of brokers that serve as registers. Each is dynamic, takes any positive number, and means nothing to a controller,
which has no logs of topics; a name that Kafka does not know would be written, too, and be read as a secret without value."""

_OUR_INCARNATIONS = int.from_bytes(b"nemesis\0", "big")
_MASK = (1 << 64) - 1
_BROKER = struct.Struct(">i16s")
_BROKER_SINCE_V2 = struct.Struct(">ix16s")
"""version 2 put a flag (a broker that migrates from ZooKeeper) before the incarnation id"""
_PRODUCER_IDS = struct.Struct(">iqq")


@dataclass(frozen=True, slots=True)
class Effect:
    """The operation that a record is the effect of."""

    f: str
    key: int | None
    value: int


def register_name(key: int) -> str:
    """The name of the configuration that serves as register ``key``. Raises ValueError when there are not so many."""
    if not 0 <= key < len(REGISTERS):
        raise ValueError(f"Kafka's configuration serves as registers 0 to {len(REGISTERS) - 1}, not {key}")
    return REGISTERS[key]


def register_key(name: str) -> int | None:
    """The register of a configuration's name, None for one that serves as none."""
    return REGISTERS.index(name) if name in REGISTERS else None


def incarnation_of(value: int) -> UUID:
    """The incarnation id with which a broker is registered to append ``value`` (0 to 2^64 − 1)."""
    return UUID(int=_OUR_INCARNATIONS << 64 | value)


def value_of(incarnation: UUID) -> int | None:
    """The value that an incarnation id carries, None for one that no client chose."""
    return incarnation.int & _MASK if incarnation.int >> 64 == _OUR_INCARNATIONS else None


def _text(data: bytes, position: int) -> tuple[str | None, int]:
    size, position = read_unsigned_varint(data, position)
    if size == 0:
        return None, position
    end = position + size - 1
    if end > len(data):
        raise WireError("a text of a metadata record ends behind it")
    return data[position:end].decode(), end


def api_key(value: bytes) -> tuple[int, int, int]:
    """(api key, version, position of the message). Raises WireError for what is no metadata record of frame version 1."""
    try:
        frame, position = read_unsigned_varint(value, 0)
        key, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError:
        raise WireError("a metadata record ends inside its head") from None
    if frame != FRAME_VERSION:
        raise WireError(f"a metadata record has frame version {frame}, known is {FRAME_VERSION}")
    return key, version, position


def effect(value: bytes) -> Effect | None:
    """Which operation a data record is the effect of, None for Kafka's own records. Raises WireError for garbage."""
    key, version, position = api_key(value)
    try:
        if key == PRODUCER_IDS:
            return Effect("add", None, _PRODUCER_IDS.unpack_from(value, position)[2])
        if key == REGISTER_BROKER:
            return _registration(value, position, version)
        if key == CONFIG:
            return _config(value, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"a metadata record of api key {key} is cut off: {error}") from error
    return None


def _registration(value: bytes, position: int, version: int) -> Effect | None:
    _, incarnation = (_BROKER if version < 2 else _BROKER_SINCE_V2).unpack_from(value, position)
    carried = value_of(UUID(bytes=incarnation))
    return None if carried is None else Effect("append", None, carried)


def _config(value: bytes, position: int) -> Effect | None:
    (resource_type,) = struct.unpack_from(">b", value, position)
    resource, position = _text(value, position + 1)
    name, position = _text(value, position)
    told, position = _text(value, position)
    key = register_key(name or "")
    if resource_type != BROKER_RESOURCE or resource or key is None or told is None:
        return None
    try:
        return Effect("write", key, int(told))
    except ValueError:
        raise WireError(f"register {key} was given {told!r}, which is no number") from None
