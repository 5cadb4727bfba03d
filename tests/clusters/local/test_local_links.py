"""Links of the local backend, asked of real packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clusters.links import groups

pytestmark = pytest.mark.namespaces


def test_no_way_leads_out_of_the_machine(lab: Any) -> None:
    lab.serve("n1")
    # The router answers for everything that it does not know: nothing waits for a packet that went somewhere.
    assert lab.ask("n1", "dial 192.0.2.1 20") == "OSError"
    with lab.cluster.client_socket() as client, pytest.raises(OSError, match="unreachable"):
        client.connect(("192.0.2.1", 80))


def test_labs_do_not_see_each_other_though_their_addresses_are_equal(make_lab: Callable[[int], Any]) -> None:
    one, other = make_lab(2), make_lab(2)
    one.serve("n1")
    one.cluster.cut(groups(["n1"], ["n2"]))
    assert other.cluster.probe([("n1", "n2")]) == {("n1", "n2"): True}
    assert one.ask("n1", "echo one") == "one"
    assert other.ask("n1", "echo one") is None
