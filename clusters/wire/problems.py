"""What can be wrong with bytes that came from elsewhere: one exception, so that a reader catches exactly that."""

from __future__ import annotations


class WireError(Exception):
    """Bytes that are not what they should be: torn, foreign, of an unknown version, or larger than allowed."""


class UnsupportedRequest(WireError):
    """A well-formed request header of an API or a version outside the receiver's table.

    The receiver can answer ApiVersions (18) with UNSUPPORTED_VERSION in version 0 and closes the connection otherwise.
    """

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"request of api key {api_key} version {api_version} is not supported here")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
