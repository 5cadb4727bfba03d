"""Kafka's error codes and their names as Kafka's documents write them: 6 is ``NOT_LEADER_OR_FOLLOWER``."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

_NAMES = {int(code): code.name.upper() for code in ErrorCode}
_CODES = {name: code for code, name in _NAMES.items()}


def error_name(code: int) -> str:
    """The name of an error code; ``ERROR_<code>`` for one that is newer than this table. 0 is ``NONE``."""
    return _NAMES.get(int(code), f"ERROR_{int(code)}")


def error_code(name: str) -> ErrorCode:
    """The error code of a name. Raises KeyError for a name that Kafka does not have."""
    return ErrorCode(_CODES[name])
