"""``verdict.json``: a :class:`checker.verdict.RunVerdict` as one JSON object, with ``schema_version`` first."""

from __future__ import annotations

import msgspec

from checker.verdict import SCHEMA_VERSION, RunVerdict


def encode_verdict(verdict: RunVerdict) -> bytes:
    """Write a verdict as indented JSON."""
    document = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(verdict)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode_verdict(data: bytes) -> RunVerdict:
    """Read ``verdict.json``. Raises msgspec.MsgspecError for anything else, or ValueError for a newer schema."""
    version = msgspec.json.decode(data, type=_Header).schema_version
    if version > SCHEMA_VERSION:
        raise ValueError(f"schema version {version} of a verdict is newer than {SCHEMA_VERSION}")
    return msgspec.json.decode(data, type=RunVerdict)


class _Header(msgspec.Struct):
    schema_version: int
