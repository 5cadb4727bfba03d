"""The inventory: which machines there are, how they are reached, where their nodes listen. A TOML file; see ``inventory.example.toml``."""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from workloads.problem import Problem

EXAMPLE = Path(__file__).with_name("inventory.example.toml")
"""a commented inventory"""

PORT = 9093
"""where every node listens, at its machine's data address"""

LEASE_MIN_S, LEASE_MAX_S = 2.0, 3600.0
_DATA = "/var/lib/nemesis"
_USUAL: Mapping[str, Any] = {
    "user": "root",
    "port": 22,
    "key": "",
    "known_hosts": "~/.ssh/known_hosts",
    "sudo": False,
    "python": "python3",
    "java": "",
    "lease_s": 30.0,
}
_MAY_BE_EMPTY = ("key", "java")
_OF_MACHINE = ("host", "address")
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. ``key`` None: ask ssh-agent. ``java`` empty: look for one."""

    host: str
    address: str
    user: str
    port: int
    key: Path | None
    known_hosts: Path
    data: PurePosixPath
    sudo: bool
    python: str
    java: str
    lease_s: float

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" + (f":{self.port}" if self.port != 22 else "")


def read_inventory(path: Path) -> tuple[Machine, ...]:
    """Read a file. Raises Problem (usage) ``inventory-unreadable`` or ``bad-inventory``, which names file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(
            "inventory-unreadable",
            f"The inventory {path} cannot be read: {error}.",
            f"Name a TOML file like {EXAMPLE.name} with --inventory FILE.",
            usage=True,
        ) from error
    return parse_inventory(text, str(path))


def parse_inventory(text: str, place: str) -> tuple[Machine, ...]:
    """The machines that a text names; ``place`` is what a Problem names. Raises Problem (usage) ``bad-inventory``."""
    return _Reader(text, place).machines()


class _Reader:
    def __init__(self, text: str, place: str) -> None:
        self._lines = text.splitlines()
        self._place = place
        try:
            self._document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = _AT_LINE.search(str(error))
            raise self._bad(int(line[1]) if line else None, _AT_LINE.sub("", str(error)).strip()) from error

    def machines(self) -> tuple[Machine, ...]:
        self._known(self._document, ("data", "defaults", "machine"), 0)
        data = PurePosixPath(self._typed("data", self._document.get("data", _DATA), "", 0))
        defaults = self._document.get("defaults", {})
        if not isinstance(defaults, dict):
            raise self._bad(self._line("", "defaults"), "defaults is a table: write [defaults]")
        self._known(defaults, tuple(_USUAL), self._header("[defaults]"))
        given = self._document.get("machine", [])
        if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
            raise self._bad(None, "it names no machine: write a [[machine]] table for each")
        found = [self._machine(number, each, defaults, data) for number, each in enumerate(given)]
        for name in ("address", "host"):
            self._unique(name, [str(getattr(each, name)) for each in found], [each.port for each in found])
        return tuple(found)

    def _machine(
        self, number: int, given: Mapping[str, Any], defaults: Mapping[str, Any], data: PurePosixPath
    ) -> Machine:
        start = self._header("[[machine]]", number)
        self._known(given, (*_OF_MACHINE, *_USUAL), start)
        values: dict[str, Any] = {}
        for name, usual in _USUAL.items():
            table, where = (given, start) if name in given else (defaults, self._header("[defaults]"))
            values[name] = self._typed(name, table.get(name, usual), usual, where)
        if "host" not in given:
            raise self._bad(start, "a machine needs a host")
        host = self._typed("host", given["host"], "", start)
        address = self._typed("address", given.get("address", host), "", start)
        try:
            ipaddress.IPv4Address(address)
        except ValueError:
            what = (
                "address is an IPv4 address" if "address" in given else "a host that is a name needs an address (IPv4)"
            )
            raise self._bad(self._line("address" if "address" in given else "host", start), what) from None
        return Machine(
            host=host,
            address=address,
            user=values["user"],
            port=values["port"],
            key=Path(values["key"]).expanduser() if values["key"] else None,
            known_hosts=Path(values["known_hosts"]).expanduser(),
            data=data,
            sudo=values["sudo"],
            python=values["python"],
            java=values["java"],
            lease_s=float(values["lease_s"]),
        )

    def _typed(self, name: str, value: Any, usual: Any, start: int) -> Any:
        if isinstance(usual, bool):
            fits, kind = isinstance(value, bool), "true or false"
        elif isinstance(usual, int):
            fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535
            kind = "a number from 1 to 65535"
        elif isinstance(usual, float):
            fits = (
                isinstance(value, int | float) and not isinstance(value, bool) and LEASE_MIN_S <= value <= LEASE_MAX_S
            )
            kind = f"a number of seconds from {LEASE_MIN_S:g} to {LEASE_MAX_S:g}"
        else:
            fits, kind = (
                isinstance(value, str) and (value != "" or name in _MAY_BE_EMPTY) and "\n" not in value,
                "a text",
            )
        if fits and name == "data":
            path = PurePosixPath(value)
            fits, kind = (
                path.is_absolute() and ".." not in path.parts and len(path.parts) > 2,
                "an absolute path, such as /var/lib/nemesis",
            )
        if not fits:
            raise self._bad(self._line(name, start), f"{name} is {value!r}, not {kind}")
        return value

    def _known(self, table: Mapping[str, Any], names: Sequence[str], start: int) -> None:
        for name in table:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
                raise self._bad(self._line(name, start), f"there is no {name!r} here{hint}")

    def _unique(self, name: str, values: Sequence[str], ports: Sequence[int]) -> None:
        seen: set[tuple[str, int]] = set()
        for number, value in enumerate(values):
            key = (value, ports[number] if name == "host" else 0)
            if key in seen:
                line = self._line(name, self._header("[[machine]]", number))
                raise self._bad(line, f"two machines have the {name} {value}: each node needs a machine of its own")
            seen.add(key)

    def _header(self, header: str, number: int = 0) -> int:
        """The line (from 1) of the ``number``-th such table header; 0, before the first line, when there is none."""
        wanted = header.replace(" ", "")
        found = [at for at, line in enumerate(self._lines, 1) if line.partition("#")[0].replace(" ", "") == wanted]
        return found[number] if number < len(found) else 0

    def _line(self, name: str, start: int | str) -> int | None:
        """The line where ``name`` stands in the table whose header is at ``start``; the header's own when it is not found."""
        begin = start if isinstance(start, int) else 0
        pattern = re.compile(rf"""\s*\[{{0,2}}\s*["']?{re.escape(name)}["']?\s*(=|\.|\])""")
        for at in range(begin, len(self._lines)):
            if pattern.match(self._lines[at]):
                return at + 1
            if at > begin and self._lines[at].lstrip().startswith("[") and begin:
                break
        return begin or None

    def _bad(self, line: int | None, what: str) -> Problem:
        where = f"{self._place}, line {line}" if line else self._place
        return Problem("bad-inventory", f"{where}: {what}.", f"See {EXAMPLE}.", usage=True)
