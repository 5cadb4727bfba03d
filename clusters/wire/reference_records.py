"""Data records of the reference candidate: the commands that its state machine applies.

A record's key is null; its value is ``type i8`` and big-endian 64-bit integers:

==== ======== ================================== ============================================================
type f        fields                             meaning when it is applied
==== ======== ================================== ============================================================
1    write    key, value                         register ``key`` holds ``value``
2    cas      key, expected, value               … ``value`` if it held ``expected``, else nothing changes
3    append   value                              nothing: the log itself is the object
==== ======== ================================== ============================================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from clusters.wire.problems import WireError

_WRITE = struct.Struct(">bqq")
_CAS = struct.Struct(">bqqq")
_APPEND = struct.Struct(">bq")


@dataclass(frozen=True, slots=True)
class Command:
    """One data record: ``write`` (key, value), ``cas`` (key, expected, value) or ``append`` (value)."""

    f: str
    value: int
    key: int | None = None
    expected: int | None = None


def encode_command(command: Command) -> bytes:
    """The value of a data record. Raises struct.error for what is no 64-bit integer, ValueError for an unknown ``f``."""
    if command.f == "write":
        return _WRITE.pack(1, command.key, command.value)
    if command.f == "cas":
        return _CAS.pack(2, command.key, command.expected, command.value)
    if command.f == "append":
        return _APPEND.pack(3, command.value)
    raise ValueError(f"{command.f!r} is no command of the reference candidate")


def decode_command(value: bytes | None) -> Command:
    """Read the value of a data record. Raises WireError for anything else."""
    kind = value[0] if value else 0
    try:
        if value and kind == 1:
            _, key, new = _WRITE.unpack(value)
            return Command("write", new, key)
        if value and kind == 2:
            _, key, expected, new = _CAS.unpack(value)
            return Command("cas", new, key, expected)
        if value and kind == 3:
            return Command("append", _APPEND.unpack(value)[1])
    except struct.error:
        raise WireError(f"a command of type {kind} has {len(value or b'')} bytes") from None
    raise WireError(f"a record holds no command of the reference candidate (type {kind})")
