"""A companion of the local backend has the rights over its node's network that it needs, also for an ordinary user."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.namespaces


def test_packets_are_shaped_in_one_direction_and_not_after(lab: Any) -> None:
    pairs = [("n1", "n2"), ("n2", "n1"), ("n1", "n3")]
    lab.cluster.accompany("n1", "shaper", {"address": lab.address["n1"]})
    try:
        shape = {"key": "a", "towards": [lab.address["n2"]], "shape": {"loss_percent": 100}, "seed": ""}
        lab.cluster.companion("n1", "shaper", "shape", **shape)
        assert lab.cluster.probe(pairs) == dict(zip(pairs, [False, True, True], strict=True))
        (counts,) = lab.cluster.companion("n1", "shaper", "clear", key="a").values()
        assert counts["lost"] == counts["seen"] >= 1
        assert all(lab.cluster.probe(pairs).values())
    finally:
        lab.cluster.dismiss("n1", "shaper")
