"""kio's number types for the type checker, plain ints at run time.

kio's own types check each number when they are called, about a microsecond each: several operations' worth in a message. The codec
refuses what is out of range anyway. Annotations of message classes keep kio's types.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

if TYPE_CHECKING:
    from kio.schema.types import BrokerId
    from kio.static.primitive import Records, i8, i16, i32, i64, u16
else:
    BrokerId = i8 = i16 = i32 = i64 = u16 = int
    Records = bytes

__all__ = ("BrokerId", "Records", "error", "i8", "i16", "i32", "i64", "in_milliseconds", "milliseconds", "u16")

_ERRORS = {int(code): code for code in ErrorCode}


def error(code: int) -> ErrorCode:
    """The error code of a number. Raises KeyError for one that Kafka does not have."""
    return _ERRORS[code]


@lru_cache(maxsize=4096)
def milliseconds(value: int) -> i32Timedelta:
    """A duration as kio's messages hold it."""
    return cast(i32Timedelta, timedelta(milliseconds=value))


def in_milliseconds(value: timedelta) -> int:
    """A duration of kio's messages, in whole milliseconds."""
    return (value.days * 86400 + value.seconds) * 1000 + value.microseconds // 1000
