"""Names and addresses of a lab's nodes."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path

from clusters.cluster import NodeSpec
from workloads.problem import Problem

ROUTER_ADDRESS = "10.77.255.254"
"""the router's own address: where clients come from, and every node's gateway"""

_NODES_MAX = 250


def plan_nodes(run: Path, voters: int, observers: int = 0, port: int = 9093) -> tuple[NodeSpec, ...]:
    """Nodes ``n1``, ``n2``, …: voters first, then observers, at 10.77.0.1, 10.77.0.2, …

    Labs do not see each other, so every lab may have the same addresses. Raises Problem ``bad-node-count``.
    """
    if voters < 1 or observers < 0 or voters + observers > _NODES_MAX:
        raise Problem(
            "bad-node-count",
            f"{voters} voters and {observers} observers cannot be deployed.",
            f"Give at least one voter and at most {_NODES_MAX} nodes.",
            usage=True,
        )
    return tuple(
        NodeSpec(
            name=f"n{number}",
            node_id=number,
            role="voter" if number <= voters else "observer",
            address=f"10.77.0.{number}",
            port=port,
            directory=run / "nodes" / f"n{number}",
        )
        for number in range(1, voters + observers + 1)
    )


def check_addresses(addresses: Mapping[str, str]) -> None:
    """Raises Problem ``bad-address`` unless these are different IPv4 addresses that leave the router's own one free."""
    seen = {ROUTER_ADDRESS: "the router"}
    for name, address in addresses.items():
        try:
            ipaddress.IPv4Address(address)
        except ValueError as error:
            raise Problem("bad-address", f"Node {name}: {error}.", "Give an IPv4 address.", usage=True) from error
        if address in seen:
            raise Problem("bad-address", f"{name} and {seen[address]} both have {address}.", usage=True)
        seen[address] = name
