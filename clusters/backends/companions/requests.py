"""The companion's end of the connection: requests as lines of standard input, answers as lines of standard output."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from workloads.problem import Problem

_READ_BYTES = 1 << 16


class Requests:
    """Requests on a pair of descriptors. Either iterate over them, or watch :attr:`descriptor` and :meth:`take` what has come."""

    def __init__(self, descriptor: int = 0, answers: int = 1) -> None:
        self.descriptor = descriptor
        self._answers = answers
        self._begun = b""

    def take(self) -> list[dict[str, Any]] | None:
        """What has come, at least a part of a line, for which it waits; None at the end. Each must be answered, in order."""
        data = os.read(self.descriptor, _READ_BYTES)
        if not data:
            return None
        *whole, self._begun = (self._begun + data).split(b"\n")
        return [json.loads(line) for line in whole if line]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (requests := self.take()) is not None:
            yield from requests

    def answer(self, value: Any) -> None:
        """Answer the oldest request that has no answer."""
        self._write({"value": value})

    def refuse(self, problem: Problem) -> None:
        """Answer it with a Problem."""
        self._write({"problem": [problem.slug, problem.what, problem.remedy]})

    def _write(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._answers, data) :]
