"""Placeholders in the texts of a description: ``{{node_id}}``, ``{{voters}}``, ``{{data | properties}}``.

Double braces, since configuration files are full of single ones and of ``${…}``. Which names there are depends on where a text
is used; anything else between double braces is a mistake, and :func:`unknown` finds it before anything runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from clusters.candidates.candidate import Quorum
from clusters.candidates.external.description import NodeList
from clusters.candidates.kafka.configuration import escaped
from clusters.cluster import NodeSpec

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}|\n]*?)\s*(?:\|\s*([^{}|\n]*?)\s*)?\}\}")

FILTERS: Mapping[str, Callable[[str], str]] = {
    "properties": escaped,
    "json": lambda value: json.dumps(value, ensure_ascii=False),
}
"""``properties``: the value of a Java properties file; ``json``: a JSON text with its quotes"""

CONTROLLER = {
    "here": "the directory of this file, on the controller",
    "built": "the directory that [install] with once = true has filled, on the controller",
}
NODE = {
    "node": "the node's name: n1, n2, …",
    "node_id": "its number: 1, 2, …",
    "role": "voter or observer, when the run begins",
    "address": "the address that it listens on",
    "port": "the port",
    "directory_id": "the directory id that the disk is to have: 22 characters, as Kafka writes them",
    "cluster_id": "22 characters, the same on all nodes",
    "data": "the node's disk: its data directory",
    "directory": "the node's own directory, which a wipe leaves",
    "election_timeout_ms": "without a leader for so long, a node stands for election",
    "fetch_timeout_ms": "a follower that could not fetch for so long does so too",
    "check_quorum_ms": "a leader that no majority has fetched from for so long must resign",
    "request_timeout_ms": "how long an answer of another node is waited for",
    "seed": "the run's seed, a number",
    "voters": "the initial voters: 1@10.0.0.1:9093,2@… (Kafka's controller.quorum.voters)",
    "bootstrap_servers": "the initial voters: 10.0.0.1:9093,… (controller.quorum.bootstrap.servers)",
    "initial_controllers": "the initial voters: 1@10.0.0.1:9093:<directory id>,… (kafka-storage --initial-controllers)",
    "voter_ids": "the initial voters: 1,2,3",
    "python": "a Python 3.11 or newer on the node",
    "java": "a Java of 17 or newer on the node",
}
START = {
    "incarnation": "how often the node has been started: 1, 2, …",
    "trace": "the file that the node writes its trace to ([evidence] trace = true)",
}
EACH = {
    "each.node": "n1, n2, …",
    "each.node_id": "1, 2, …",
    "each.role": "voter or observer, when the run begins",
    "each.address": "the address that it listens on",
    "each.port": "the port",
    "each.directory_id": "the directory id that its first disk is planned to have",
    "each.voter": "true or false",
}

PLACES: Mapping[str, Mapping[str, str]] = {
    "in [[files]], [format] and [start]": NODE,
    "in [[files]] and [start]": START,
    "in [format], [install] with once = true, and [artifacts] beside it": CONTROLLER,
    "in [lists.NAME] each": EACH,
}
"""where a name means something → name → what"""


def found(text: str) -> Iterator[tuple[str, str, str]]:
    """The placeholders of a text: (as written, name, filter or empty)."""
    for match in _PLACEHOLDER.finditer(text):
        yield match[0], match[1], match[2] or ""


def without(text: str) -> str:
    """The text with all placeholders taken out."""
    return _PLACEHOLDER.sub("", text)


def render(text: str, values: Mapping[str, Callable[[], str]]) -> str:
    """Replace every placeholder; a value is made when it is asked for. Raises KeyError for one that the reader let pass."""

    def replace(match: re.Match[str]) -> str:
        value = values[match[1]]()
        return FILTERS[match[2]](value) if match[2] else value

    return _PLACEHOLDER.sub(replace, text)


def node_values(
    quorum: Quorum,
    node: NodeSpec,
    directory_id: str,
    lists: Mapping[str, NodeList],
) -> dict[str, Callable[[], str]]:
    """What the placeholders of :data:`NODE` and the lists mean for one node, in the node's own words."""
    timers, inside = quorum.timers, quorum.site.inside
    voters = quorum.voters
    values: dict[str, Callable[[], str]] = {
        **_about(node),
        "directory_id": lambda: directory_id,
        "cluster_id": lambda: quorum.cluster_id,
        "data": lambda: inside(node.data),
        "directory": lambda: inside(node.directory),
        "election_timeout_ms": lambda: str(timers.election_timeout_ms),
        "fetch_timeout_ms": lambda: str(timers.fetch_timeout_ms),
        "check_quorum_ms": lambda: str(timers.check_quorum_ms),
        "request_timeout_ms": lambda: str(timers.request_timeout_ms),
        "seed": lambda: str(quorum.seed),
        "voters": lambda: ",".join(f"{each.node_id}@{each.address}:{each.port}" for each in voters),
        "bootstrap_servers": lambda: ",".join(f"{each.address}:{each.port}" for each in voters),
        "initial_controllers": lambda: ",".join(
            f"{each.node_id}@{each.address}:{each.port}:{quorum.directory_ids[each.name]}" for each in voters
        ),
        "voter_ids": lambda: ",".join(str(each.node_id) for each in voters),
        "python": lambda: quorum.site.python,
    }
    spelled: dict[str, Callable[[], str]] = {
        name: lambda spelling=spelling: _spell(quorum, node, spelling)  # type: ignore[misc]
        for name, spelling in lists.items()
    }
    return values | spelled


def _spell(quorum: Quorum, node: NodeSpec, spelling: NodeList) -> str:
    chosen = {
        "voters": quorum.voters,
        "nodes": quorum.nodes,
        "others": tuple(each for each in quorum.nodes if each.name != node.name),
    }[spelling.of]
    return spelling.between.join(_spell_one(quorum, each, spelling.each) for each in chosen)


def _spell_one(quorum: Quorum, node: NodeSpec, text: str) -> str:
    values = {f"each.{name}": value for name, value in _about(node).items()}
    values["each.directory_id"] = lambda: quorum.directory_ids[node.name]
    values["each.voter"] = lambda: str(node.role == "voter").lower()
    return render(text, values)


def _about(node: NodeSpec) -> dict[str, Callable[[], str]]:
    return {
        "node": lambda: node.name,
        "node_id": lambda: str(node.node_id),
        "role": lambda: node.role,
        "address": lambda: node.address,
        "port": lambda: str(node.port),
    }
