"""What a browser would make of a page: ids, links, tags and what it would load."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_LOADS = ("src", "href", "xlink:href", "data", "action", "poster", "srcset")


@dataclass
class Reading:
    """The parts of a page that tests look at."""

    tags: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    text: str = ""
    inlined: dict[str, str] = field(default_factory=dict)
    """tag → content of the one style and the one script"""


def read(page: str) -> Reading:
    parser = _Parser()
    parser.feed(page)
    parser.close()
    parser.found.text = re.sub(r"\s+", " ", parser.found.text)
    return parser.found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Reading()
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.found.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.found.ids.append(value or "")
            if name in _LOADS:
                self.found.addresses.append(value or "")
            if name.startswith("on"):
                self.found.handlers.append(f"{tag} {name}")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("style", "script"):
            self.found.inlined[self.inside] = self.found.inlined.get(self.inside, "") + data
        else:
            self.found.text += data + " "
