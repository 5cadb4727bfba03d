"""Labels: each container, network and throw-away image says which lab of which controller it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from clusters.backends import ledger as ledgers
from clusters.backends.docker.engine import engine_calls, reason

LAB = "io.nemesis.lab"
RUN = "io.nemesis.run"
CONTROLLER = "io.nemesis.controller"
"""``<host> <boot> <process namespace> <process id> <start in ticks>``: what tells a living controller from a dead one"""
NODE = "io.nemesis.node"


def labels(entry: ledgers.Entry, node: str = "") -> dict[str, str]:
    """The labels of something that belongs to a lab."""
    return {LAB: entry.lab, RUN: entry.run, CONTROLLER: _controller(entry), NODE: node}


def dead_labs(client: Any) -> dict[str, str]:
    """Lab → run of everything on the engine whose controller has ended on this machine, with or without a ledger entry."""
    found = {}
    with engine_calls("list what is labelled"):
        things = [
            (each.get("Labels") or {})
            for each in (
                *client.api.containers(all=True, filters={"label": LAB}),
                *client.api.networks(filters={"label": LAB}),
            )
        ]
    for marks in things:
        if _has_ended(marks.get(CONTROLLER, "")):
            found[marks[LAB]] = marks.get(RUN, "")
    return found


def things(client: Any, lab: str) -> list[str]:
    """What exists of a lab, for people."""
    wanted = {"label": f"{LAB}={lab}"}
    with engine_calls("list what is labelled"):
        containers = client.api.containers(all=True, filters=wanted)
        networks = client.api.networks(filters=wanted)
    return [
        *(f"container {each['Names'][0].lstrip('/') if each['Names'] else each['Id'][:12]}" for each in containers),
        *(f"network {each['Name']}" for each in networks),
    ]


def remove(client: Any, lab: str) -> str | None:
    """Remove everything of a lab, nodes before holders before the network; returns what is left and why."""
    wanted = {"label": f"{LAB}={lab}"}
    problems: list[str] = []
    with engine_calls("list what is labelled"):
        containers = client.api.containers(all=True, filters=wanted)
        networks = client.api.networks(filters=wanted)
    # A node's container shares its holder's namespace: the holders go last.
    for each in sorted(containers, key=lambda each: each["Labels"].get(NODE, "") == ""):
        _gone(problems, client.api.remove_container, each["Id"], force=True, v=True)
    for each in networks:
        _gone(problems, client.api.remove_network, each["Id"])
    return "; ".join(problems) or None


def _gone(problems: list[str], call: Any, *arguments: Any, **options: Any) -> None:
    try:
        call(*arguments, **options)
    except NotFound:
        return
    except APIError as error:
        if "already in progress" not in str(error):
            problems.append(reason(error))


def _controller(entry: ledgers.Entry) -> str:
    parts: Iterable[object] = (
        entry.host,
        entry.boot,
        entry.pid_namespace,
        entry.controller.pid,
        entry.controller.ticks,
    )
    return " ".join(str(part) for part in parts)


def _has_ended(controller: str) -> bool:
    """Whether the labelled controller was one of this machine and has ended; what cannot be told has not."""
    this = ledgers.new_entry("lab-0-none", Path("/"))
    host, *rest = controller.split(" ")
    if host != this.host or len(rest) != 4 or not (rest[2].isdecimal() and rest[3].isdecimal()):
        return False
    if rest[0] != this.boot:
        return True
    if rest[1] != str(this.pid_namespace):
        return False
    return ledgers.started(int(rest[2])) != ledgers.Started(int(rest[2]), int(rest[3]))
