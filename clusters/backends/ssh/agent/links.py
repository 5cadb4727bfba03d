"""Cut links: packets from some addresses to this machine's data address are dropped at the door, in a table of the run's own.

``nft`` where it works, else ``iptables`` with a chain of its own. Nothing else is ever changed or flushed. Dropping at the receiver
is exact in one direction and silent for the sender, unlike a route or a routing rule at the sender.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Protocol

TABLE_PREFIX = "nemesis_"
CHAIN_PREFIX = "NEMESIS-"
_TOOL_TIMEOUT_S = 10.0
_PATH = "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin"


class LinksError(Exception):
    """The machine refuses a packet filter rule; the text says which and why."""


class Links(Protocol):
    """The links that end at this machine."""

    kind: str

    def cut(self, sources: Sequence[str]) -> None:
        """Drop what comes from exactly these addresses. Raises LinksError; the rules are then as they were."""
        ...

    def remove(self) -> None:
        """Remove all that was made, if anything was. Raises LinksError when it stays."""
        ...

    def exists(self) -> bool:
        """Whether anything that this makes is there. Raises LinksError when it cannot be told."""
        ...


class NftLinks:
    """A table of nftables that is there only while something is cut, and is replaced as a whole in one transaction."""

    kind = "nftables"

    def __init__(self, lab: str, address: str) -> None:
        self._table = TABLE_PREFIX + lab
        self._address = address

    def cut(self, sources: Sequence[str]) -> None:
        """See :class:`Links`."""
        # To add what may be there already makes the removal one of something that is there for certain.
        lines = [f"add table ip {self._table}", f"delete table ip {self._table}"]
        if sources:
            lines += [
                f"table ip {self._table} {{",
                " set cut {",
                "  type ipv4_addr",
                f"  elements = {{ {', '.join(sources)} }}",
                " }",
                " chain door {",
                "  type filter hook input priority -300; policy accept;",
                f"  ip daddr {self._address} ip saddr @cut drop",
                " }",
                "}",
            ]
        _tool(["nft", "-f", "-"], "\n".join(lines) + "\n")

    def remove(self) -> None:
        """See :class:`Links`."""
        self.cut([])

    def exists(self) -> bool:
        """See :class:`Links`."""
        return f"table ip {self._table}" in _tool(["nft", "list", "tables"]).splitlines()


class IptablesLinks:
    """A chain of iptables, replaced as a whole, to which the first rule of INPUT leads; there only while something is cut."""

    kind = "iptables"

    def __init__(self, lab: str, address: str) -> None:
        # A chain's name has at most 28 characters.
        self._chain = CHAIN_PREFIX + lab[-20:]
        self._address = address

    def cut(self, sources: Sequence[str]) -> None:
        """See :class:`Links`."""
        if not sources:
            self.remove()
            return
        lines = ["*filter", f":{self._chain} - [0:0]"]
        lines += [f"-A {self._chain} -s {source}/32 -d {self._address}/32 -j DROP" for source in sources]
        if f"-A INPUT -j {self._chain}" not in self._rules():
            lines.append(f"-I INPUT 1 -j {self._chain}")
        _tool(["iptables-restore", "--noflush", "-w", "5"], "\n".join([*lines, "COMMIT", ""]))

    def remove(self) -> None:
        """See :class:`Links`."""
        rules = self._rules()
        if f"-A INPUT -j {self._chain}" in rules:
            _tool(["iptables", "-w", "5", "-D", "INPUT", "-j", self._chain])
        if f"-N {self._chain}" in rules:
            _tool(["iptables", "-w", "5", "-F", self._chain])
            _tool(["iptables", "-w", "5", "-X", self._chain])

    def exists(self) -> bool:
        """See :class:`Links`."""
        return f"-N {self._chain}" in self._rules()

    def _rules(self) -> list[str]:
        return _tool(["iptables", "-w", "5", "-S"]).splitlines()


def find_links(lab: str, address: str) -> Links:
    """The first kind that this machine can do, found by doing it on an address of nobody. Raises LinksError when there is none."""
    refusals = []
    for links in (NftLinks(lab, address), IptablesLinks(lab, address)):
        try:
            links.cut(["192.0.2.1"])
            links.remove()
        except LinksError as error:
            refusals.append(f"{links.kind}: {error}")
            continue
        return links
    raise LinksError("; ".join(refusals))


def named_links(kind: str, lab: str, address: str) -> Links:
    """Links of a known kind, such as a dead agent had."""
    return NftLinks(lab, address) if kind == NftLinks.kind else IptablesLinks(lab, address)


def _tool(command: list[str], text: str = "") -> str:
    environment = {**os.environ, "PATH": _PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False, env=environment
        )
    except FileNotFoundError:
        raise LinksError(f"there is no {command[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinksError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise LinksError(f"`{' '.join(command)}` ended with {done.returncode}: {said[:400]}")
    return done.stdout
